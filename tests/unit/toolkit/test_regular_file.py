"""Files that a stranger may have put there: readers take a regular file, follow no link and wait for no pipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.host.sysfs import SysTree
from toolkit.regular_file import read_bytes, read_regular, small_file

Read = Callable[[Path], bytes | None]


def whole(path: Path) -> bytes | None:
    try:
        return read_regular(path, 100)
    except OSError:
        return None


READERS: dict[str, Read] = {
    "read_regular": whole,
    "read_bytes": lambda path: read_bytes(path)[0],
    "small_file": lambda path: small_file(str(path)),
}


def made(path: Path) -> Path:
    """A file, and beside it a link to it, a pipe without a writer, and a folder."""
    (path / "file").write_bytes(b"text")
    (path / "link").symlink_to("file")
    os.mkfifo(path / "pipe")
    (path / "folder").mkdir()
    return path


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("name", "found"), [("file", b"text"), ("link", None), ("pipe", None), ("folder", None), ("no", None)]
)
def test_nothing_but_a_regular_file_is_read(read: Read, name: str, found: bytes | None, tmp_path: Path) -> None:
    """At once, and whatever was opened is closed again."""
    path = made(tmp_path) / name
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    assert read(path) == found
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


@pytest.mark.parametrize(("name", "why"), [("link", "a symbolic link"), ("pipe", "not a regular file")])
def test_the_reason_is_in_words(name: str, why: str, tmp_path: Path) -> None:
    """What the kernel says of a link is 'too many levels of symbolic links'."""
    assert read_bytes(made(tmp_path) / name) == (None, why)


def test_a_tree_is_read_by_its_own_links_only(tmp_path: Path) -> None:
    """A link inside is followed; what it leads to is opened as everywhere."""
    tree = SysTree(made(tmp_path))
    assert [tree.read_bytes(name, 100) for name in ("file", "link", "pipe", "folder", "no")] == [b"text"] * 2 + [
        None
    ] * 3
