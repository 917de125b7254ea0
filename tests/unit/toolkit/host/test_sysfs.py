"""The window on a tree of kernel files: nothing outside is read, nothing hangs, nothing is believed blindly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.errors import InputError
from toolkit.host.sysfs import MAX_ENTRIES, SysTree
from toolkit.model.cpuset import CpuSet


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A secret beside the tree."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "tree").mkdir()
    return tmp_path


def test_an_absolute_link_starts_at_the_trees_root(outside: Path) -> None:
    """A link to /outside/secret means the tree's own /outside/secret, whether or not it exists."""
    tree = outside / "tree"
    (tree / "link").symlink_to(outside / "outside" / "secret")
    (tree / "folder").symlink_to(outside / "outside")
    assert SysTree(tree).read("link") is None
    assert SysTree(tree).read("folder/secret") is None
    assert SysTree(tree).names("folder") == ()

    inside = tree / str(outside / "outside").lstrip("/")
    inside.mkdir(parents=True)
    (inside / "secret").write_text("the tree's own")
    assert SysTree(tree).read("link") == "the tree's own"
    assert SysTree(tree).read("folder/secret") == "the tree's own"


def test_dots_stop_at_the_root(outside: Path) -> None:
    """As in chroot, .. above the root is the root: in links as well as in paths."""
    tree = outside / "tree"
    (tree / "up").symlink_to("../../../../secret")
    assert SysTree(tree).read("up") is None
    assert SysTree(tree).read("../secret") is None

    (tree / "secret").write_text("the tree's own")
    assert SysTree(tree).read("up") == "the tree's own"
    assert SysTree(tree).read("../secret") == "the tree's own"


def test_loops_of_links_end(tmp_path: Path) -> None:
    """Links that lead to themselves or to each other lead nowhere."""
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a/x")
    (tmp_path / "down").mkdir()
    (tmp_path / "down" / "again").symlink_to("..")
    tree = SysTree(tmp_path)
    assert [tree.read(name) for name in ("self", "a", "b", "self/x")] == [None] * 4
    assert tree.is_folder("down/again/down/again/down")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A pipe without a writer does not stop the reader; a folder is not text."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    tree = SysTree(tmp_path)
    assert tree.read("pipe") is None
    assert tree.read("folder") is None
    assert tree.read("nothing") is None
    assert tree.read("nothing/at/all") is None


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    """A file larger than any kernel would make it is an input error, and is not read whole."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="more than 65536 bytes"):
        SysTree(tmp_path).read("huge")


def test_a_huge_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with more entries than any kernel makes is an input error."""
    monkeypatch.setattr("toolkit.host.sysfs.MAX_ENTRIES", 10)
    for number in range(11):
        (tmp_path / f"cpu{number}").touch()
    with pytest.raises(InputError, match="more than 10 entries"):
        SysTree(tmp_path).numbered("", "cpu")
    assert MAX_ENTRIES >= 65536, "a folder of the largest kernel fits"


def test_nonsense_is_noted_and_taken_for_missing(tmp_path: Path) -> None:
    """A file that holds something else than it should is told once with its path, and is None."""
    for name, text in (("number", "three"), ("map", "xyz"), ("list", "1-"), ("bytes", "\ufffd"), ("empty", "")):
        (tmp_path / name).write_text(text)
    tree = SysTree(tmp_path)
    assert (tree.integer("number"), tree.integer("bytes"), tree.integer("empty")) == (None, None, None)
    assert tree.cpu_map("map") is None
    assert tree.cpu_list("list") is None
    assert [problem.split(":")[0] for problem in tree.problems] == ["number", "bytes", "empty", "map", "list"]


def test_null_list_is_empty(tmp_path: Path) -> None:
    """The kernel prints (null) for a mask that it never allocated: no CPUs, and no problem."""
    (tmp_path / "nohz_full").write_text("  (null)\n")
    tree = SysTree(tmp_path)
    assert tree.cpu_list("nohz_full") == CpuSet()
    assert tree.problems == []


def test_only_true_numbers_count(tmp_path: Path) -> None:
    """cpu01, cpu+1, cpu٣, cpufreq and cpu99999 are no CPUs."""
    for name in ("cpu0", "cpu10", "cpu2", "cpu01", "cpu+1", "cpu٣", "cpufreq", "cpu99999", "cpu"):
        (tmp_path / name).mkdir()
    assert SysTree(tmp_path).numbered("", "cpu") == (0, 2, 10)


def test_map_comes_before_list(tmp_path: Path) -> None:
    """Of a map and a list that contradict each other the map is believed; without a map the list."""
    (tmp_path / "core_siblings").write_text("3\n")
    (tmp_path / "core_siblings_list").write_text("0-7\n")
    (tmp_path / "package_cpus_list").write_text("4\n")
    tree = SysTree(tmp_path)
    assert tree.cpus("core_siblings", "package_cpus") == CpuSet.parse("0-1")
    assert tree.cpus("thread_siblings", "package_cpus") == CpuSet.parse("4")
    assert tree.cpus("nothing") is None
