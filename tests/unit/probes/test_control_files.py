"""Control files that are written to while they are read: what may be believed, and what is a blind spot."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from probes.build import build
from probes.cgroups import known_files
from probes.cgroups.control_files import ControlFiles
from probes.cgroups.decoder import MAX_CLAIMS_NAMED
from probes.cgroups.known_files import ATTEMPTS, KnownFiles
from probes.readings import Readings
from tests.unit.probes.readings import FILES, FRAME, but
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.blind_spots import Witness
from toolkit.model.cgroup_manager import CgroupManager
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles

SECOND = 1_000_000_000
READ = known_files.read_whole
FILES_OF = {
    "cpuset.cpus": "0-1",
    "cpuset.cpus.effective": "0-1",
    "cpuset.mems": "0",
    "cpuset.mems.effective": "0",
    "cpu.max": "50000 100000",
    "cpu.weight": "100",
    "memory.max": "max",
}


class Tree:
    """One cgroup of files. :param writes: done each time when its files have just been read."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = root / "a"
        self.folder.mkdir()
        (root / "cgroup.controllers").write_text("cpuset cpu memory\n")
        for name, text in FILES_OF.items():
            (self.folder / name).write_text(text + "\n")
        self.hierarchy = Hierarchy(root=root, mode=Mode.V2, unified=root)
        self.writes: Callable[[], None] = lambda: None
        self.first = READ(self.hierarchy, "/a")

        def read(hierarchy: Hierarchy, cgroup: str) -> CgroupFiles:
            found = READ(hierarchy, cgroup)
            self.writes()
            return found

        monkeypatch.setattr(known_files, "read_whole", read)
        self.known = KnownFiles(self.hierarchy, NONE_KEPT)
        self.files = ControlFiles(self.known, {"/a": self.first}, 0)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text + "\n")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path, monkeypatch)


def test_a_value_that_never_stands_still_is_seen(tree: Tree) -> None:
    """One file is written all the time: each reading of it was true at its moment, and the cgroup is a blind spot."""
    numbers = itertools.count(50_002)
    tree.writes = lambda: tree.write("cpu.max", f"{next(numbers)} 100000")
    tree.write("cpu.max", "50001 100000")
    for _ in range(3):
        tree.files.read(["/a"])

    quotas = [row.quota_us for row in tree.files.changes(0)]
    assert len(quotas) == 3
    assert all(quota is not None and quota > 50_000 for quota in quotas)
    assert tree.files.never_at_rest() == {"/a": 3}


def test_a_set_and_what_is_granted_of_it_change_together(tree: Tree) -> None:
    """One write changes two files, each judged by itself."""
    sets = itertools.cycle(("0", "0-1"))

    def write() -> None:
        cpus = next(sets)
        for name in ("cpuset.cpus", "cpuset.cpus.effective"):
            tree.write(name, cpus)

    tree.writes = write
    write()
    tree.files.read(["/a"])
    assert [row.cpus for row in tree.files.changes(0)] != []
    assert tree.files.never_at_rest() == {"/a": 1}


def test_values_of_several_moments_are_no_reading(tree: Tree) -> None:
    """Two values that never stand still: what was read of both together may never have been so."""
    numbers = itertools.count(1000)

    def write() -> None:
        tree.write("cpu.max", f"{next(numbers)} 100000")
        tree.write("memory.max", str(next(numbers) * 4096))

    tree.writes = write
    write()
    tree.files.read(["/a"])
    assert tree.files.changes(0) == ()
    assert tree.files.never_at_rest() == {"/a": 1}


def test_a_writer_that_writes_once_leaves_nothing_unseen(tree: Tree) -> None:
    """However late in the reading: what is kept is what it became."""
    left = iter(range(ATTEMPTS - 1))

    def write() -> None:
        if next(left, None) is not None:
            tree.write("cpu.max", f"{60_000 + len(list(tree.folder.iterdir()))} 100000")

    tree.writes = write
    tree.write("cpu.max", "70000 100000")
    tree.files.read(["/a"])
    (row,) = tree.files.changes(0)
    assert row.quota_us == 60_000 + len(FILES_OF)
    assert tree.files.never_at_rest() == {}


def test_a_window_that_has_ended_is_not_blind_by_what_comes_after(tree: Tree) -> None:
    """The next one is."""
    numbers = itertools.count(50_002)
    tree.writes = lambda: tree.write("cpu.max", f"{next(numbers)} 100000")
    tree.write("cpu.max", "50001 100000")
    tree.files.end(1)
    tree.files.read(["/a"])
    assert (tree.files.never_at_rest(), tree.files.changes(0)) == ({}, ())


def test_known_bytes_are_not_read_twice(tree: Tree) -> None:
    """Neither at an edge nor in another window; what was put back is known, what is new is read."""
    read = list[str]()
    tree.writes = lambda: read.append("whole")
    tree.known.read("/a")
    tree.files.read(["/a"])
    again = ControlFiles(tree.known, {"/a": tree.known.read("/a")}, 0)
    again.read(["/a"])
    assert (read, tree.files.changes(0), again.changes(0)) == (["whole"], (), ())

    tree.write("cpu.max", "60000 100000")
    again.read(["/a"])
    tree.files.read(["/a"])
    assert [row.quota_us for row in (*again.changes(0), *tree.files.changes(0))] == [60_000, 60_000]
    assert read == ["whole"] * 2

    tree.known.forget(["/a"])
    assert tree.known.read("/a").quota_us == 60_000
    assert read == ["whole"] * 3


def test_a_cgroup_that_is_gone_is_not_known(tree: Tree) -> None:
    """At an edge it has no files, however well they were known."""
    tree.known.read("/a")
    for name in FILES_OF:
        (tree.folder / name).unlink()
    assert tree.known.read("/a").empty
    tree.files.read(["/a"])
    assert tree.files.changes(0) == ()
    tree.known.keep([])
    assert tree.known.meaning("/a", (None,), 0) is None


def test_a_reader_that_hears_of_every_write_has_no_gap(tree: Tree) -> None:
    """Between two sweeps: until the moment up to which every write was heard, at each look."""
    before_ns = time.monotonic_ns()
    files = ControlFiles(tree.known, {"/a": tree.first}, before_ns - 9 * SECOND)
    files.looked(before_ns)
    end_ns = time.monotonic_ns() + SECOND
    assert files.unwatched_ns(end_ns) >= 9 * SECOND
    assert files.gap_ns(end_ns) >= 10 * SECOND

    files = ControlFiles(tree.known, {"/a": tree.first}, before_ns)
    files.looked(0)
    assert files.unwatched_ns(before_ns + 3 * SECOND) == 3 * SECOND, "nothing was heard since"
    files.looked(before_ns + 2 * SECOND)
    assert files.unwatched_ns(before_ns + 3 * SECOND) < 2 * SECOND
    assert files.gap_ns(before_ns + 3 * SECOND) == 3 * SECOND


@pytest.mark.parametrize(
    ("cgroup", "claims", "about"),
    [("/pods/db", 1, ["db"]), ("/pods", 3, ["c0", "c1", "c2"]), ("/pods", MAX_CLAIMS_NAMED + 1, [None]), ("/x", 1, [])],
)
def test_which_claim_a_blind_spot_is_about(cgroup: str, claims: int, about: list[str | None]) -> None:
    """Of the claims below it, each by name as long as they are few."""
    names = ["db"] if claims == 1 else [f"c{number}" for number in range(claims)]
    one = FRAME.subjects[0]
    subjects = tuple(
        replace(one, cpus=CpuSet.of([0]), claim=replace(one.claim, name=name, cgroup=f"/pods/{name}")) for name in names
    )
    frame = replace(FRAME, subjects=subjects, others=())
    spots = list(replace(FILES, never_at_rest={cgroup: 2})._spots(frame))
    assert [spot.claim for spot in spots] == about
    assert all(spot.witnesses == (Witness.FILES,) and cgroup in spot.text for spot in spots)


def test_it_is_in_the_coverage() -> None:
    """Of a window's evidence."""
    evidence = build(Readings(FRAME, but(replace(FILES, never_at_rest={"/pods/db": 2}))))
    assert any("never stood still" in spot for spot in evidence.coverage.blind_spots)


def test_a_cgroup_that_is_gone_has_no_reading_whatever_managed_it() -> None:
    """The manager is known by the path, also of a cgroup of which no file can be read."""
    for manager in CgroupManager:
        assert CgroupFiles(cgroup="/kubepods/pod1/c", at_ns=7, manager=manager).empty
        assert not CgroupFiles(cgroup="/kubepods/pod1/c", at_ns=7, manager=manager, quota_us=-1).empty


class _Interrupted(dict[str, Any]):
    """What is known, which is gone through meanwhile: another thread reads a cgroup meanwhile."""

    def __init__(self, known: KnownFiles, before: dict[str, Any]) -> None:
        super().__init__(before)
        self.known = known
        self.others: list[threading.Thread] = []

    def __iter__(self) -> Iterator[str]:
        for cgroup in super().__iter__():
            made = CgroupFiles(cgroup=f"{cgroup}x", at_ns=0)
            self.others.append(threading.Thread(target=self.known.stood_still, args=(made.cgroup, (), made)))
            self.others[-1].start()
            self.others[-1].join(0.05)
            yield cgroup


def test_a_window_ends_while_files_are_read(tree: Tree) -> None:
    """Forgetting the cgroups that are gone goes through all of them, while the reader's thread adds one."""
    known = tree.known
    for cgroup in ("/a", "/b"):
        known.stood_still(cgroup, (), tree.first)
    known._known = meant = _Interrupted(known, known._known)
    known.keep(["/a"])
    for other in meant.others:
        other.join()
    assert known.meaning("/a", (), 1) is not None
    assert known.meaning("/b", (), 1) is None


def test_what_is_below_an_absent_directory_is_not_looked_for(tmp_path: Path) -> None:
    """In one round; the next one looks again, and so does a reader of one cgroup."""
    hierarchy = Hierarchy(
        root=tmp_path,
        mode=Mode.HYBRID,
        unified=tmp_path / "unified",
        legacy=(("cpu", tmp_path / "cpu"), ("cpuset", tmp_path / "cpuset")),
    )
    all_of_them = ("/pods", "/pods/one", "/pods/one/db", "/pods/two")
    for cgroup in all_of_them:
        (tmp_path / "cpuset" / cgroup[1:]).mkdir(parents=True)
        (tmp_path / "cpuset" / cgroup[1:] / "cpuset.cpus").write_text("0-1\n")
    looked = list[str]()

    class Kept(KeptFiles):
        def read(self, folder: str, *others: Any) -> list[bytes | None]:
            looked.append(folder.removeprefix(f"{tmp_path}/"))
            return super().read(folder, *others)

    known = KnownFiles(hierarchy, Kept(0))
    known.read_all(all_of_them)  # what the bytes mean is not known before
    looked.clear()
    before = time.monotonic_ns()
    first = known.read_all(all_of_them)
    assert [one for one in looked if one.startswith("cpu/")] == ["cpu/pods"]
    assert len(looked) == 5
    assert [one.at_ns for one in first.values()] == [first["/pods"].at_ns] * 4, "not younger than the look"
    assert before <= first["/pods"].at_ns

    files = ControlFiles(known, first, 0)
    (tmp_path / "cpu/pods/two").mkdir(parents=True)
    (tmp_path / "cpu/pods/two/cpu.shares").write_text("512\n")
    looked.clear()
    files.read(all_of_them)
    assert "cpu/pods/one" in looked
    assert "cpu/pods/one/db" not in looked
    (tmp_path / "cpu/pods/one/db").mkdir(parents=True)
    (tmp_path / "cpu/pods/one/db/cpu.shares").write_text("700\n")
    files.look("/pods/one/db")
    assert [(row.cgroup, row.shares) for row in files.changes(0)] == [("/pods/two", 512), ("/pods/one/db", 700)]


def test_a_file_beside_is_read_where_its_cgroup_is_looked_at_and_at_an_edge(tree: Tree) -> None:
    """``cpu.idle`` is in none of the bytes that are compared: a reported write, or the end of a window, reads it."""
    tree.files.read(["/a"])
    tree.write("cpu.idle", "1")
    tree.files.read(["/a"])
    assert tree.files.changes(0) == ()

    tree.files.look("/a")
    assert [row.idle for row in tree.files.changes(0)] == [True]

    tree.write("cpu.idle", "0")
    assert tree.known.read_all(["/a"])["/a"].idle is False
    tree.files.look("/a")
    assert [row.idle for row in tree.files.changes(0)] == [True, False]
