"""Archives and folders that call themselves captures: bounded in time and memory, whatever they say of themselves."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import InputError
from toolkit.sources.kubelet.files.capture import read_bundle_files


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_calls_itself_huge_is_not_read(tmp_path: Path, kind: bytes) -> None:
    """Python's reader would read it as a whole: gigabytes of memory, out of a few megabytes of zeros."""
    path = tmp_path / "bomb.tar.gz"
    header = tarfile.TarInfo("x")
    header.size, header.type = 3 << 30, kind
    path.write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT)))
    with pytest.raises(InputError, match="a header of 3221225472 bytes"):
        read_bundle_files(path)


def test_a_file_of_zeros_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Python's reader would take it for one empty `.lzma` after the other, thirteen bytes each: for hours."""
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="1099511627776 bytes"):
        read_bundle_files(path)


@pytest.mark.parametrize("content", [b"\x1f\x8bjunk", b"BZhjunk", b"\xfd7zXZ\0junk", b"\x1f\x8b", b"\x5d\0\0junk"])
def test_what_begins_as_an_archive_and_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content * 100)
    with pytest.raises(InputError, match=r"no readable archive|not a tar archive"):
        read_bundle_files(path)


@pytest.mark.parametrize("compressed", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_each_compression_is_read_behind_a_link(tmp_path: Path, compressed: Callable[[bytes], bytes]) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("kubelet/config.yaml"))
    (tmp_path / "y").write_bytes(compressed(content.getvalue()))
    (tmp_path / "link").symlink_to("y")
    assert set(read_bundle_files(tmp_path / "link")) == {"kubelet/config.yaml"}


@pytest.mark.parametrize(("name", "deep"), [("a", 1500), ("a" * 250, 20)])
def test_folders_in_folders_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, deep: int) -> None:
    """More of them than Python's stack holds; or a path too long to be read: half a capture is no smaller node."""
    monkeypatch.chdir(tmp_path)
    for _ in range(deep):
        os.mkdir(name)  # noqa: PTH102 below a path that is too long for any
        os.chdir(name)
    os.chdir(tmp_path)
    (tmp_path / "lscpu.txt").touch()
    try:
        with pytest.raises(InputError, match=r"nested too deeply|File name too long") as error:
            read_bundle_files(tmp_path)
        assert "\n" not in str(error.value)
    finally:
        subprocess.run(["rm", "-r", name], cwd=tmp_path, check=True)  # Python's own remover recurses, too.
