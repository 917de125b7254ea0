"""Files of a run below ``/run/pinproof``: one that cannot be made is an error of this host that names the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import ApplyError


@contextlib.contextmanager
def making(path: Path) -> Iterator[None]:
    """Name ``path`` in the error of what is made there.

    A full file system says so in ``write``, whose error names no file: it would be taken for that of our own output.

    :raises ApplyError: it cannot be made.
    """
    try:
        yield
    except OSError as error:
        raise ApplyError(f"{path}: {error.strerror or error}") from None
