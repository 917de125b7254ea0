"""Packed runs: the same bytes for the same files, and nothing hostile gets out of an archive."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import InputError
from toolkit.packed import archive, read_packed, unpacked, write_packed

FILES = {"claims.json": b"{}\n", "window-000001/result.json": b'{"a": 1}\n'}


def test_equal_files_give_equal_bytes(tmp_path: Path) -> None:
    """Whatever their order, and whenever: an archive can be known by its hash."""
    first = write_packed(tmp_path / "a" / "run.tar.gz", FILES)

    assert archive(dict(reversed(FILES.items()))) == first
    assert read_packed(tmp_path / "a" / "run.tar.gz") == FILES
    with pytest.raises(InputError, match=r"run\.tar\.gz: File exists"):
        write_packed(tmp_path / "a" / "run.tar.gz", FILES)


def test_it_is_unpacked_for_a_while(tmp_path: Path) -> None:
    """A directory is itself; an archive is one until the block ends; what is wrong in it has the archive's name."""
    packed = tmp_path / "run.tar.gz"
    write_packed(packed, FILES)
    with unpacked(tmp_path) as here:
        assert here == tmp_path
    with unpacked(packed) as folder:
        assert (folder / "window-000001/result.json").read_bytes() == FILES["window-000001/result.json"]
    assert not folder.exists()
    with pytest.raises(InputError, match=rf"^{packed}: claims\.json: bad$"), unpacked(packed) as folder:
        raise InputError(f"{folder}/claims.json", "bad")


def hostile(change: Callable[[tarfile.TarInfo], None]) -> bytes:
    """Return an archive with one member that was changed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        member = tarfile.TarInfo("claims.json")
        change(member)
        tar.addfile(member)
    return out.getvalue()


def named(name: str) -> Callable[[tarfile.TarInfo], None]:
    return lambda member: setattr(member, "name", name)


def typed(kind: bytes) -> Callable[[tarfile.TarInfo], None]:
    def change(member: tarfile.TarInfo) -> None:
        member.type, member.linkname = kind, "/etc/shadow"

    return change


@pytest.mark.parametrize(
    "content",
    [
        *(hostile(named(name)) for name in ("/etc/passwd", "../x", "a/../../x", "a/b/c/d/e")),
        *(hostile(typed(kind)) for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)),
        b"",
        b"no archive",
        archive(FILES)[:-20],
    ],
    ids=map(str, range(11)),
)
def test_what_is_hostile_or_broken_is_refused(tmp_path: Path, content: bytes) -> None:
    """One line with the archive's path; nothing is written."""
    path = tmp_path / "run.tar.gz"
    path.write_bytes(content)

    with pytest.raises(InputError, match=rf"^{path}: ") as caught:
        read_packed(path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]


def test_a_flood_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes, unpacked, and no more."""
    write_packed(tmp_path / "run.tar.gz", {"evidence.json": b"0" * 5000})
    monkeypatch.setattr("toolkit.packed.MAX_FILE_BYTES", 4999)
    with pytest.raises(InputError, match="more than 4999 bytes"):
        read_packed(tmp_path / "run.tar.gz")
