"""The uncompressed stream of a tar archive that comes from elsewhere: bounded, whatever the archive says of itself.

:mod:`tarfile` would try one compression after the other, and takes a file of zeros for one ``.lzma`` after the other
until its end; it reads a header's extension as a whole, however large that calls itself.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from toolkit.errors import InputError
from toolkit.regular_file import open_regular

_MAGIC = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))
"""How a compressed file begins. Source: RFC 1952; bzip2's manual; "The .xz File Format"."""
MAX_READ = 1 << 20
"""Bytes that are read at once: more than any name, or table of names, of a capture."""


class BoundedStream:
    """What :mod:`tarfile` needs of a file. :param end: no byte behind that is read."""

    def __init__(self, stream: IO[bytes], where: str, end: int) -> None:
        self._stream, self._where, self._end = stream, where, end

    def read(self, size: int) -> bytes:
        """Read up to as many bytes.

        :raises InputError: they are too many at once, or too far behind the beginning.
        """
        if not 0 <= size <= MAX_READ:
            raise InputError(self._where, f"a header of {size} bytes", f"at most {MAX_READ}")
        self._check(self.tell() + size)
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        """Go to a position; in a compressed file that means to read all that is before it.

        :raises InputError: it is too far behind the beginning.
        """
        self._check(position)
        return self._stream.seek(position)

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell()

    def _check(self, position: int) -> None:
        if position > self._end + MAX_READ:
            raise InputError(self._where, f"more than {self._end} bytes in it", f"at most {self._end}")


@contextmanager
def uncompressed(path: Path, end: int) -> Iterator[BoundedStream]:
    """Open an archive, compressed or not, through links: a user has named it.

    :param end: no byte behind that is read.
    :raises OSError: it cannot be opened, or is no regular file.
    :raises InputError: it is larger than that, without any compression.
    """
    with open_regular(os.path.realpath(path)) as file:
        begin = file.read(max(len(magic) for magic, _ in _MAGIC))
        file.seek(0)
        for magic, unpack in _MAGIC:
            if begin.startswith(magic):
                with unpack(file) as stream:
                    yield BoundedStream(cast("IO[bytes]", stream), str(path), end)
                return
        size = os.fstat(file.fileno()).st_size
        if size > end:
            raise InputError(str(path), f"{size} bytes", f"at most {end}")
        yield BoundedStream(file, str(path), end)
