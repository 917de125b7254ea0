"""Descriptors that stay open: how often a file is opened, and when it must be opened anew."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from probes.cgroups.control_files import ControlFiles
from probes.cgroups.known_files import KnownFiles
from toolkit.host import kept_files
from toolkit.host.cgroupfs import Hierarchy, Mode, control_files
from toolkit.host.kept_files import AT_ONCE, GROUPS_AT_ONCE, MOST, SHARE, KeptFiles
from toolkit.model.node_reading import Asked
from toolkit.sources.kubelet.files.cgroups import ControlWords, hierarchies
from toolkit.sources.kubelet.follow import ReadingCache

NAMES = ("cpuset.cpus", "cpu.max")
TEXTS: list[bytes | None] = [b"0-1\n", b"max 100000\n"]


class Opened:
    """A cgroup's folder in a tree that passes for a cgroup file system, and what was opened."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = root / "kubepods/pod1/a"
        self.make()
        (root / "cgroup.controllers").write_text("cpuset cpu\n")
        self.paths = list[str]()
        real = os.open

        def opened(path: str, *others: int) -> int:
            self.paths.append(str(path))
            return real(path, *others)

        monkeypatch.setattr(os, "open", opened)
        monkeypatch.setattr(kept_files, "_is_cgroup", lambda _folder: True)

    def make(self) -> None:
        self.folder.mkdir(parents=True)
        for name, text in zip(NAMES, TEXTS, strict=True):
            (self.folder / name).write_bytes(text or b"")

    def opens(self) -> int:
        """Return how many were opened since this was asked last."""
        count = len(self.paths)
        self.paths.clear()
        return count


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(tmp_path, monkeypatch)


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Inodes of which the kernel says that they are gone, from when a test adds them."""
    real, gone = os.pread, set[int]()

    def read(descriptor: int, size: int, at: int) -> bytes:
        if os.fstat(descriptor).st_ino in gone:
            raise OSError(errno.ENODEV, "No such device")
        return real(descriptor, size, at)

    monkeypatch.setattr(os, "pread", read)
    return gone


def test_a_file_is_opened_once(opened: Opened) -> None:
    """What is written to it later is read."""
    with KeptFiles() as kept:
        assert kept.read(str(opened.folder), NAMES) == TEXTS
        assert (opened.opens(), kept.count) == (2, 2)
        (opened.folder / "cpu.max").write_text("50000 100000\n")
        assert kept.read(str(opened.folder), NAMES) == [TEXTS[0], b"50000 100000\n"]
        assert opened.opens() == 0
    assert kept.count == 0
    assert kept.read(str(opened.folder), NAMES[:1]) == TEXTS[:1]
    assert kept.count == 0


def test_a_round_opens_nothing_that_a_round_before_opened(opened: Opened, tmp_path: Path) -> None:
    """Neither the witness of control files nor what follows the node: they share them."""
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)
    with KeptFiles() as kept:
        known = KnownFiles(hierarchy, kept)
        files = ControlFiles(known, {"/kubepods/pod1/a": known.read("/kubepods/pod1/a")}, 0)
        files.read(["/kubepods/pod1/a"])
        opened.opens()
        files.read(["/kubepods/pod1/a"])
        absent = [path for path in opened.paths if not Path(path).exists()]
        assert opened.opens() == len(absent), "only what is not there is looked for again"
        assert ReadingCache(kept).cpusets(hierarchies(tmp_path))["cgroup/kubepods/pod1/a/cpuset.cpus"] == TEXTS[0]
        words = ControlWords(hierarchies(tmp_path), kept)
        unlimited, limited = (Asked(quota_us=quota_us, period_us=100_000) for quota_us in (-1, 50_000))
        assert words.quota_as_asked("/kubepods/pod1/a", unlimited)
        assert not words.quota_as_asked("/kubepods/pod1/a", limited)
        assert [path for path in opened.paths if path.startswith(str(opened.folder))] == []


@pytest.mark.parametrize("sets_only", [False, True])
def test_a_sweep_reads_each_cgroup_at_once(opened: Opened, tmp_path: Path, *, sets_only: bool) -> None:
    """Not folder by folder, where all its files are open; what differs is found all the same."""
    hierarchy, cgroup = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path), "/kubepods/pod1/a"
    ((_, names),) = control_files(hierarchy, cgroup)
    for name in names:
        text = "0-1" if name.startswith("cpuset.cpus") else "0" if name.startswith("cpuset") else "100 100000"
        (opened.folder / name).write_text(f"{text}\n")
    with KeptFiles() as kept:
        known = KnownFiles(hierarchy, kept)
        files = ControlFiles(known, {cgroup: known.read(cgroup)}, 0)
        one_by_one: list[str] = []
        real = kept.read

        def read(folder: str, *others: Any) -> list[bytes | None]:
            one_by_one.append(folder)
            return real(folder, *others)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kept, "read", read)
            files.read([cgroup], sets_only=sets_only)
            assert one_by_one == []
            (opened.folder / "cpuset.cpus.effective").write_text("1\n")
            files.read([cgroup], sets_only=sets_only)
            (opened.folder / "cpu.max").write_text("50000 100000\n")
            files.read([cgroup], sets_only=sets_only)
        assert [str(row.cpus_effective) for row in files.changes(0)] == ["1"] * (1 if sets_only else 2)


def test_what_is_gone_is_opened_anew(opened: Opened, dead: set[int]) -> None:
    """The kernel says so of a descriptor; what has the name by then is another file."""
    with KeptFiles() as kept:
        kept.read(str(opened.folder), NAMES)
        dead.update((opened.folder / name).stat().st_ino for name in NAMES)
        (opened.folder).rename(opened.folder.with_name("before"))
        assert kept.read(str(opened.folder), NAMES) == [None, None]
        assert kept.count == 0
        opened.make()
        (opened.folder / "cpuset.cpus").write_text("3\n")
        assert kept.read(str(opened.folder), NAMES) == [b"3\n", TEXTS[1]]


def test_one_file_of_many_folders_is_read_as_each_alone(opened: Opened, dead: set[int]) -> None:
    """Of one that is gone, of one that another has replaced under its name, and of one that is not open yet."""
    names = [str(number) for number in range(AT_ONCE + 2)]
    folders = [opened.folder.with_name(name) for name in names]
    for folder in folders:
        folder.mkdir()
        (folder / NAMES[0]).write_text(f"{folder.name}\n")
    with KeptFiles() as kept:

        def texts() -> list[bytes | None]:
            inodes = [folder.stat().st_ino if folder.exists() else 0 for folder in folders]
            return kept.read_each([(str(one), inode) for one, inode in zip(folders, inodes, strict=True)], NAMES[0])

        expected: list[bytes | None] = [f"{name}\n".encode() for name in names]
        assert texts() == expected
        assert opened.opens() == kept.count == len(names)
        (folders[0] / NAMES[0]).write_text("written\n")
        dead.add((folders[1] / NAMES[0]).stat().st_ino)
        folders[1].rename(folders[1].with_name("gone"))
        folders[-1].rename(folders[-1].with_name("before"))
        folders[-1].mkdir()
        (folders[-1] / NAMES[0]).write_text("another\n")
        expected[0], expected[1], expected[-1] = b"written\n", None, b"another\n"
        assert texts() == expected
        assert opened.opens() == 1
        assert texts() == expected
        assert (opened.opens(), kept.count) == (0, len(names) - 1)


def test_files_of_several_folders_are_read_together_while_all_are_open(opened: Opened, dead: set[int]) -> None:
    """Nothing is opened for it, and what is gone, closed or not there is left to the reader of each folder."""
    names = [str(number) for number in range(GROUPS_AT_ONCE)]
    folders = [opened.folder.with_name(name) for name in names]
    for folder in folders:
        folder.mkdir()
        (folder / NAMES[0]).write_text(f"{folder.name}\n")
    both = [((str(opened.folder), NAMES), (str(folder), NAMES[:1])) for folder in folders]
    expected: list[tuple[bytes | None, ...] | None] = [(*TEXTS, f"{name}\n".encode()) for name in names]
    with KeptFiles() as kept:

        def open_all() -> None:
            for group in both:
                for folder, files in group:
                    kept.read(folder, files)
            opened.opens()

        assert kept.read_groups(both) == [None] * len(both)
        open_all()
        assert kept.read_groups(both) == expected
        (folders[0] / NAMES[0]).write_text("written\n")
        expected[0] = (*TEXTS, b"written\n")
        assert kept.read_groups(both) == expected
        dead.add((folders[1] / NAMES[0]).stat().st_ino)
        kept.forget([str(folders[2])])
        (folders[-1] / NAMES[0]).unlink()
        kept.forget([str(folders[-1])])
        expected[1] = expected[2] = expected[-1] = None
        assert kept.read_groups(both) == expected
        assert opened.opens() == 0
        open_all()
        expected[2] = (*TEXTS, b"2\n")
        assert kept.read_groups(both) == expected, "of those that are not there nothing is open"
        kept.forget([str(opened.folder)])
        assert kept.read_groups(both) == [None] * len(both)
    assert kept.read_groups(both) == [None] * len(both)


@pytest.mark.parametrize("how", ["renew", "inode", "forget"])
def test_a_name_that_is_another_folder_s_now(opened: Opened, how: str) -> None:
    """Of a v1 cgroup that is renamed the kernel reports nothing to a reader that has its files open."""
    with KeptFiles() as kept:
        kept.read(str(opened.folder), NAMES)
        opened.folder.rename(opened.folder.with_name("before"))
        opened.make()
        (opened.folder / "cpuset.cpus").write_text("3\n")
        inode = opened.folder.stat().st_ino if how == "inode" else None
        if how == "renew":
            kept.renew()
        elif how == "forget":
            kept.forget([str(opened.folder)])
        assert kept.read(str(opened.folder), NAMES, inode) == [b"3\n", TEXTS[1]]
        opened.opens()
        kept.renew()
        assert kept.read(str(opened.folder), NAMES) == [b"3\n", TEXTS[1]]
        assert opened.opens() == 0


@pytest.mark.parametrize(("magic", "looks"), [(0x27E0EB, 1), (0x63677270, 0)], ids=["v1", "v2"])
def test_only_v1_lets_a_cgroup_be_renamed(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, magic: int, looks: int
) -> None:
    """What has the name of a v2 cgroup is what its files were opened in, or the kernel says that it is gone."""
    looked, real = list[str](), kept_files._inode

    def inode(folder: str) -> int:
        looked.append(folder)
        return real(folder)

    monkeypatch.setattr(kept_files, "_magic", lambda _folder: magic)
    with KeptFiles() as kept:
        kept.read(str(opened.folder), NAMES)
        monkeypatch.setattr(kept_files, "_inode", inode)
        kept.renew()
        assert looked == [str(opened.folder)] * looks


@pytest.mark.parametrize(("most", "limit", "count"), [(1, 1024, 1), (0, 1024, 0), (MOST, SHARE, 1), (MOST, 1, 0)])
def test_others_are_opened_each_time(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, most: int, limit: int, count: int
) -> None:
    """There is a bound, and this process needs descriptors for other things, too."""
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limit, limit))
    with KeptFiles(most) as kept:
        for _ in range(2):
            assert kept.read(str(opened.folder), NAMES) == TEXTS
        assert kept.count == count
        assert opened.opens() == 4 - count


def test_what_is_not_asked_for_any_more_is_closed(opened: Opened) -> None:
    """They are closed."""
    with KeptFiles() as kept:
        kept.read(str(opened.folder), NAMES)
        kept.keep([str(opened.folder)])
        assert kept.count == 2
        kept.keep([])
        assert kept.count == 0
        assert kept.read(str(opened.folder), NAMES) == TEXTS


def test_elsewhere_nothing_stays_open(tmp_path: Path) -> None:
    """A file of a disk that is replaced under its name is another one, and nothing says so."""
    (tmp_path / "cpu.max").write_text("1 2\n")
    with KeptFiles() as kept:
        assert kept.read(str(tmp_path), ["cpu.max"]) == [b"1 2\n"]
        (tmp_path / "new").write_text("3 4\n")
        (tmp_path / "new").rename(tmp_path / "cpu.max")
        assert kept.read(str(tmp_path), ["cpu.max", "none"]) == [b"3 4\n", None]
        assert kept.count == 0
        assert kept.read(str(tmp_path), ["cpu.max"], None, lambda path: path.encode()) == [
            str(tmp_path / "cpu.max").encode()
        ]


def test_a_folder_that_is_not_there_is_one_look(opened: Opened, tmp_path: Path) -> None:
    """A container is not in every v1 hierarchy."""
    with KeptFiles() as kept:
        assert kept.read(str(tmp_path / "none"), NAMES) == [None, None]
        assert opened.opens() == 0
