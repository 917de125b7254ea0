"""The files of a capture as one archive. Pure: the same files and second make the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping


def packed(files: Mapping[str, bytes], second: int) -> bytes:
    """Return a ``.tar.gz``. :param second: Unix time that the members carry."""
    whole = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=whole, mode="wb", mtime=second) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(files[name]), second, 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    return whole.getvalue()
