"""A run directory as one file: ``<name>.tar.gz``, the same bytes for the same content, unpacked as a stranger's.

A conformance run keeps its runs so: a twentieth of the bytes, and one file where there were seven. What reads a run
calls :func:`unpacked`, which takes directories and archives alike.
Source: tar(5), "ustar"; RFC 1952 (the header's time is left zero).
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from toolkit.disk import Content, write_atomically
from toolkit.errors import InputError
from toolkit.model.serde import MAX_FILE_BYTES
from toolkit.regular_file import read_regular

SUFFIX = ".tar.gz"
EXPECTED = "a packed run (made by pinproof conformance)"
MAX_MEMBERS = 10_000
MAX_PACKED_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 4


def is_packed(path: Path) -> bool:
    """Say whether a path names a packed run."""
    return path.name.endswith(SUFFIX)


def archive(files: Mapping[str, Content]) -> bytes:
    """Return an archive of files, by name; equal files give equal bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            content = _bytes(files[name])
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=6, mtime=0) as file:
        file.write(raw.getbuffer())
    return packed.getvalue()


def write_packed(path: Path, files: Mapping[str, Content]) -> bytes:
    """Save files as one archive, whole or not at all. :returns: its bytes.

    :raises InputError: it cannot be written there, or exists.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(path.parent), error.strerror or str(error), "a directory that can be written") from None
    content = archive(files)
    write_atomically(path, content, replace=False)
    return content


def directory_files(path: Path) -> dict[str, bytes]:
    """Return all files below a directory that this process made, by name.

    :raises InputError: one of them cannot be read.
    """
    found = {}
    try:
        for file in sorted(path.rglob("*")):
            if not file.is_dir():
                found[file.relative_to(path).as_posix()] = read_regular(file, MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a run directory") from None
    return found


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the directory of a run: ``path`` itself, or where a packed run was unpacked, until the block ends.

    What is wrong in it is reported by the archive's name.

    :raises InputError: one line: no archive, links, names that lead elsewhere, too much.
    """
    if not is_packed(path):
        yield path
        return
    files = read_packed(path)
    with tempfile.TemporaryDirectory(prefix="pinproof-") as place:
        folder = Path(place) / path.name.removesuffix(SUFFIX)
        lay_out(folder, files)
        try:
            yield folder
        except InputError as error:
            raise InputError(str(path), str(error).replace(f"{folder}/", "").replace(f"{folder}: ", "")) from None


def read_packed(path: Path, expected: str = EXPECTED, depth: int = MAX_DEPTH) -> dict[str, bytes]:
    """Return the files of an archive by name. :param expected: what it should be. :param depth: of its names.

    :raises InputError: as :func:`unpacked`.
    """
    try:
        content = read_regular(path, MAX_PACKED_BYTES)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), expected) from None
    try:
        return dict(_members(content, str(path), expected, depth))
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise InputError(str(path), f"no archive: {error}", expected) from None


def _members(content: bytes, where: str, expected: str, depth: int) -> Iterable[tuple[str, bytes]]:
    left, seen = MAX_FILE_BYTES, set[str]()
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        # All of it, with its checksum at the end: a tar by itself does not notice that it was cut.
        raw = file.read(MAX_FILE_BYTES + MAX_MEMBERS * 1024)
        if file.read(1):
            raise InputError(where, f"more than {MAX_FILE_BYTES} bytes", expected)
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as tar:
        for number, member in enumerate(tar):
            if number >= MAX_MEMBERS:
                raise InputError(where, f"more than {MAX_MEMBERS} files", expected)
            name = PurePosixPath(member.name)
            if member.isdir():
                continue
            plain = not name.is_absolute() and ".." not in name.parts and 0 < len(name.parts) <= depth
            if not plain or not member.isreg() or "\0" in member.name or str(name) in seen:
                raise InputError(where, f"member {member.name[:60]!r}", f"{expected}: plain files, each once")
            left -= member.size
            if left < 0:
                raise InputError(where, f"more than {MAX_FILE_BYTES} bytes", expected)
            inside = tar.extractfile(member)
            assert inside is not None, "it is a regular file"
            seen.add(str(name))
            yield str(name), inside.read()


def lay_out(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files of an archive below a new directory of this process's own.

    :raises InputError: they cannot be written.
    """
    folder.mkdir()
    try:
        for name, content in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    except OSError as error:
        raise InputError(str(folder), error.strerror or str(error), EXPECTED) from None


def _bytes(content: Content) -> bytes:
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else b"".join(content)
