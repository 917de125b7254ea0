"""The files of a capture: a folder or a tar archive, read into memory and never unpacked; and written as an archive.

Archives and folders come from elsewhere: no link is followed, nothing is written, sizes are bounded, whatever an
archive says of itself. :mod:`tarfile` would try one compression after the other, and takes a file of zeros for one
``.lzma`` after the other until its end; it reads a header's extension as a whole, however large that calls itself.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from toolkit.errors import InputError
from toolkit.regular_file import open_regular
from toolkit.text.names import printable

MAIN_CONFIG, POD_FOLDERS = "kubelet/config.yaml", "kubelet/pod_folders.json"
METRICS, PODS, CPU_SETTINGS = "metrics_managers.txt", "pods.json", "cpu_settings.txt"
"""How files of a capture are called."""
MAX_FILE = 64 * 1024 * 1024
MAX_TOTAL = 512 * 1024 * 1024
MAX_FILES = 500_000
"""A node with 500 containers has some 25,000 control files on cgroup v2."""
MAX_STREAM = MAX_TOTAL + MAX_FILES * 2 * tarfile.BLOCKSIZE
"""Of an archive, uncompressed: each file has a header, and is filled up to a whole block."""
EXPECTED = "a capture: a folder or a .tar.gz of one"


def read_bundle_files(path: Path) -> dict[str, bytes]:
    """Return the regular files of a capture by their path inside it.

    A single folder that holds everything is left out of the paths.

    :raises InputError: it cannot be read, it is no archive, a name leaves the archive, or it is too large.
    """
    try:
        files = _folder(path) if path.is_dir() else _archive(path)
    except OSError as error:
        raise InputError(str(path), error.strerror or _unreadable(error), EXPECTED) from None
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError) as error:
        raise InputError(str(path), _unreadable(error), EXPECTED) from None
    except RecursionError:
        raise InputError(str(path), "folders nested too deeply", EXPECTED) from None
    return _without_top(files)


def _unreadable(error: Exception) -> str:
    return f"no readable archive: {printable(str(error))[:120]}"


def _folder(root: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0

    def refuse(error: OSError) -> None:
        raise error  # What is in a folder that cannot be read is not known: half a capture is no smaller node.

    for folder, _, names in os.walk(root, onerror=refuse):
        for name in sorted(names):
            file = Path(folder) / name
            if not stat.S_ISREG(file.lstat().st_mode):
                continue
            relative = file.relative_to(root).as_posix()
            data = _bounded(file)
            total += len(data)
            _check(str(root), relative, len(data), total, len(files))
            files[relative] = data
    return files


def _bounded(file: Path) -> bytes:
    with open_regular(file) as stream:
        return stream.read(MAX_FILE + 1)


def _archive(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = seen = 0
    with uncompressed(path, MAX_STREAM) as stream, _opened(path, stream) as archive:
        for member in archive:
            seen += 1
            total += max(0, member.size)
            _check(str(path), member.name, member.size, total, seen)
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                _put(files, str(PurePosixPath(member.name)), b"".join(iter(partial(content.read, MAX_READ), b"")), path)
        _check_end(str(path), archive)
    return files


def _opened(path: Path, stream: BoundedStream) -> tarfile.TarFile:
    # Not as a stream ("r|"), which takes the end of a cut file for the archive's.
    try:
        return tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:")
    except tarfile.ReadError:
        raise InputError(str(path), "not a tar archive", EXPECTED) from None


def _put(files: dict[str, bytes], name: str, data: bytes, where: Path) -> None:
    """Take a member. Two of one name that say two things are no evidence: which of them was there, nothing knows."""
    if files.setdefault(name, data) != data:
        shown = printable(name.encode("utf-8", "replace").decode())[:120]
        raise InputError(str(where), f"two members named {shown}, which differ", "one of each name")


def _check_end(where: str, archive: tarfile.TarFile) -> None:
    """Refuse an archive that was cut or damaged: :mod:`tarfile` ends silently at a header that it cannot read."""
    stream = archive.fileobj
    assert stream is not None
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise InputError(where, "truncated: it ends in the middle", EXPECTED)
    # The rest is zeros; a compressed file has its checksum, or lacks it, behind them.
    total = 0
    while rest := stream.read(1 << 20):
        total += len(rest)
        if total > MAX_TOTAL:
            raise InputError(where, f"more than {MAX_TOTAL} bytes behind its end", EXPECTED)


def _check(where: str, name: str, size: int, total: int, count: int) -> None:
    shown = printable(name.encode("utf-8", "replace").decode())[:120]
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise InputError(where, f"a member named {shown}", "names inside the archive")
    if size > MAX_FILE:
        raise InputError(where, f"{shown} of {size} bytes", f"at most {MAX_FILE}")
    if total > MAX_TOTAL:
        raise InputError(where, f"more than {MAX_TOTAL} bytes in all", EXPECTED)
    if count > MAX_FILES:
        raise InputError(where, f"more than {MAX_FILES} files", EXPECTED)


def _without_top(files: dict[str, bytes]) -> dict[str, bytes]:
    tops = {name.split("/", 1)[0] for name in files}
    if len(tops) == 1 and files and all("/" in name for name in files) and tops.isdisjoint({"kubelet", "cgroup"}):
        return {name.split("/", 1)[1]: data for name, data in files.items()}
    return files


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
