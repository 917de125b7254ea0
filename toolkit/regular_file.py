"""Reading a file that a stranger may have put there: no link is followed, no pipe waited for, no flood read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def regular_descriptor(path: Path | str) -> int:
    """Open a regular file to read, and return its descriptor, which the caller closes.

    For thousands of small files: a file object costs three times as much as reading one.

    :raises OSError: it cannot be opened; its ``strerror`` says so of a symbolic link, and of what is no regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


@contextmanager
def open_regular(path: Path | str) -> Iterator[BinaryIO]:
    """Open a regular file to read its bytes.

    :raises OSError: as :func:`regular_descriptor`.
    """
    with os.fdopen(regular_descriptor(path), "rb") as file:
        yield file


def read_regular(path: Path | str, most_bytes: int) -> bytes:
    """Return a regular file's bytes.

    :raises OSError: as :func:`open_regular`; or it is longer.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes} bytes", str(path))
    return content
