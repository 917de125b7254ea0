"""A directory appears whole or not at all, and whether it can be written is said before."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolkit.disk import why_not_writable, write_atomically, write_directory
from toolkit.errors import InputError


@contextmanager
def small_files() -> Iterator[None]:
    """Let files have 100 bytes (SIGXFSZ is ignored by Python: EFBIG); not longer than needed: pytest writes, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_all_files_are_there(tmp_path: Path) -> None:
    """Parents are made; files of a folder below, too; nothing else is left."""
    path = write_directory(tmp_path / "a" / "b", {"one.json": "1", "init-1/two.json": "2"})

    assert {str(file.relative_to(path)): file.read_text() for file in path.rglob("*.json")} == {
        "one.json": "1",
        "init-1/two.json": "2",
    }
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["b"]


def test_half_a_directory_is_none(tmp_path: Path) -> None:
    """What fails at the second file leaves nothing of the first."""
    with small_files(), pytest.raises(InputError, match="File too large; expected a directory that can be written"):
        write_directory(tmp_path / "run", {"one.json": "1", "two.json": "2" * 200})
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    """Two runs never share a directory."""
    write_directory(tmp_path / "run", {"one.json": "1"})
    with pytest.raises(InputError, match="not empty"):
        write_directory(tmp_path / "run", {"one.json": "2"})
    assert (tmp_path / "run" / "one.json").read_text() == "1"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_file_in_the_way(tmp_path: Path) -> None:
    """The line names what is in the way, not that it exists."""
    (tmp_path / "runs").write_text("")
    with pytest.raises(InputError, match=r"runs/run: .*not a directory"):
        write_directory(tmp_path / "runs" / "run", {"one.json": "1"})


def test_a_place_is_looked_at_before(tmp_path: Path) -> None:
    """A place that can be made is none to be warned of; a file, a dangling link and a flood of a name are."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    assert why_not_writable(tmp_path / "a" / "b") is None
    assert "not a directory" in str(why_not_writable(tmp_path / "file"))
    assert "not a directory" in str(why_not_writable(tmp_path / "file" / "below"))
    assert "not a directory" in str(why_not_writable(tmp_path / "link"))
    assert "no such directory" in str(why_not_writable(tmp_path / "a", exists=True))
    assert why_not_writable(Path("/proc/self")) is not None
    assert list(tmp_path.iterdir()) in ([tmp_path / "file", tmp_path / "link"], [tmp_path / "link", tmp_path / "file"])


def test_a_current_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path leads nowhere then: said before and after, in one line each."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()

    assert "No such file or directory" in str(why_not_writable(Path("runs")))
    with pytest.raises(InputError, match="runs/one: No such file or directory"):
        write_directory(Path("runs/one"), {"a.json": "1"})
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_not_replaced_unless_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    """Also where another program makes it at the last moment, and on file systems without hard links (FAT)."""
    if not links:

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = write_atomically(tmp_path / "a", b"\xff", replace=False)
    with pytest.raises(InputError, match="File exists"):
        write_atomically(path, b"other", replace=False)
    assert path.read_bytes() == b"\xff"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
    write_atomically(path, b"other")
    assert path.read_bytes() == b"other"
