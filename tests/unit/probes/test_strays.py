"""Threads that are in some of a claim's cgroups and not in others: on a hybrid host each hierarchy holds its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from probes.masks import strays
from probes.masks.strays import Stray, Strays, stray_spots
from probes.subjects import Subject
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet

TID = 7
CLAIM = Claim(name="a", cgroup="/a", quota_us=20_000)
SUBJECT = Subject(claim=CLAIM, cgroup_id=1, slot=0, ident=1, cpus=CpuSet.parse("0"), since_ns=0)
V1 = ("cpu", "cpuset", "memory")


class Tree:
    """One thread, beside a /proc, in the hierarchies of a hybrid host; looked at by a clock of the test's own."""

    def __init__(self, root: Path, mode: Mode = Mode.HYBRID) -> None:
        self.root, self.now_ns = root, 0
        legacy = tuple((name, root / name) for name in V1) if mode is Mode.HYBRID else ()
        self.strays = Strays(Hierarchy(mode=mode, unified=root / "unified", root=root, legacy=legacy), root)
        for name in V1:
            self.put(name, [TID])
        self.begin(100)

    def put(self, controller: str, tids: list[int]) -> None:
        """Let these threads, and no others, be in the claim's cgroup of a hierarchy."""
        directory = self.root / controller / "a"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tasks").write_text("".join(f"{tid}\n" for tid in tids))

    def begin(self, ticks: int, tid: int = TID) -> None:
        """Let a thread have the id since then."""
        proc = self.root / f"proc/{tid}"
        proc.mkdir(parents=True, exist_ok=True)
        (proc / "stat").write_text(f"{tid} (x) R {'0 ' * 18}{ticks} 0\n")
        (proc / "comm").write_text("x\n")
        (proc / "cgroup").write_text("4:memory:/m\n3:cpu,cpuacct:/z\n2:cpuset:/a\n0::/u\n")

    def look(self, claim: Claim = CLAIM, tids: tuple[int, ...] = (TID,), after_ns: int = 0) -> list[Stray]:
        """Look once more, so much later: as often as scans are needed for it."""
        self.now_ns += after_ns
        return [row for _ in range(strays.EVERY) for row in self.scan(claim, tids)][:1]

    def scan(self, claim: Claim = CLAIM, tids: tuple[int, ...] = (TID,)) -> list[Stray]:
        """Be there in one scan."""
        return self.strays.look(replace(SUBJECT, claim=claim), tids)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """All hierarchies hold the thread."""
    made = Tree(tmp_path)
    monkeypatch.setattr(strays.time, "monotonic_ns", lambda: made.now_ns)
    return made


LATE = strays.PATIENCE_NS + 1


def test_a_thread_that_is_everywhere_is_no_stray(tree: Tree) -> None:
    """However long."""
    assert tree.look() == tree.look(after_ns=LATE) == []


def test_a_thread_whose_quota_is_elsewhere(tree: Tree) -> None:
    """Known after the patience: a runtime joins one hierarchy after the other."""
    tree.put("cpu", [])
    assert tree.look() == tree.look(after_ns=LATE - 1) == []
    assert tree.look(after_ns=1) == [Stray(controller="cpu", tid=TID, comm="x", where="/z")]


def test_one_scan_of_some_looks(tree: Tree) -> None:
    """Until a stray is met: then each does."""
    tree.scan()
    tree.put("cpu", [])
    for _ in range(strays.EVERY):
        tree.scan()
    tree.now_ns += LATE
    assert [len(tree.scan()) for _ in range(2)] == [1, 1]
    tree.put("cpu", [TID])
    tree.scan()
    tree.put("cpu", [])
    assert [tree.scan() for _ in range(2)] == [[], []]
    assert tree.strays._since == {}


@pytest.mark.parametrize("between", ["joined", "another thread"])
def test_patience_begins_anew(tree: Tree, between: str) -> None:
    """A thread that had joined meanwhile strays anew, and so does another thread with the id."""
    tree.put("cpu", [])
    tree.look()
    if between == "joined":
        tree.put("cpu", [TID])
        tree.scan()
        tree.put("cpu", [])
    else:
        tree.begin(101)
    assert tree.look(after_ns=LATE) == []
    assert len(tree.look(after_ns=LATE)) == 1


@pytest.mark.parametrize(
    ("claim", "controllers"),
    [
        (Claim(name="a", cgroup="/a"), []),
        (Claim(name="a", cgroup="/a", shares=1024), ["cpu"]),
        (Claim(name="a", cgroup="/a", memory_bytes=1 << 30), ["memory"]),
        (Claim(name="a", cgroup="/a", cpus=CpuSet.parse("0"), isolation=Isolation.CONTAINER), ["cpu"]),
    ],
)
def test_only_what_is_promised(tree: Tree, claim: Claim, controllers: list[str]) -> None:
    """A claim that says nothing about memory is not weakened by where its threads' memory is charged."""
    tree.put("cpu", [])
    tree.put("memory", [])
    tree.look(claim)
    assert [stray.controller for stray in tree.look(claim, after_ns=LATE)] == controllers


def test_a_thread_of_the_cpuset_alone(tree: Tree) -> None:
    """The other way round: the ledger does not know it as the claim's."""
    claim = replace(CLAIM, quota_us=None, cpus=CpuSet.parse("0"))
    tree.look(claim, tids=())
    assert tree.look(claim, tids=(), after_ns=LATE) == [Stray(controller="cpuset", tid=TID, comm="x", where="/u")]


def test_a_hierarchy_without_the_cgroup_says_nothing(tree: Tree) -> None:
    """Its files do not exist either: rules say that they were not read."""
    (tree.root / "cpu/a/tasks").unlink()
    (tree.root / "cpu/a").rmdir()
    assert tree.look() == tree.look(after_ns=LATE) == []


def test_threads_that_end_between_two_lists(tree: Tree) -> None:
    """A storm of short threads neither is one of strays nor hides the one that stays."""
    tree.put("cpu", [])
    storm = tuple(range(1000, 1100))
    for tid in storm:
        tree.begin(1, tid)
    tree.look(tids=(*range(900, 1000), TID))
    assert [stray.tid for stray in tree.look(tids=(*storm, TID), after_ns=LATE)] == [TID]


def test_one_hierarchy(tmp_path: Path) -> None:
    """On a v2 host there is nothing to compare."""
    assert Tree(tmp_path, Mode.V2).look() == []


def test_a_claim_that_ended_is_forgotten(tree: Tree) -> None:
    """One that comes again begins anew."""
    tree.put("cpu", [])
    tree.look()
    tree.strays.forget(SUBJECT)
    assert tree.look(after_ns=LATE) == []


def test_what_is_weakened() -> None:
    """By hierarchy; one thread is named, and how many more there are."""
    rows = [
        Stray(controller="cpu", tid=8, comm="y", where="/z"),
        Stray(controller="cpu", tid=7, comm="x", where="/z"),
        Stray(controller="cpuset", tid=9, comm="w", where=""),
    ]
    cpu, cpuset = stray_spots("a", rows)
    assert cpu.text.startswith("thread 7 (x) (and 1 more) of a is in /z of the v1 hierarchy cpu, ")
    assert cpu.witnesses == (Witness.BANDWIDTH, Witness.FILES)
    assert cpuset.witnesses == (Witness.SWITCHES, Witness.MASKS)
    assert "is in none of the v2 hierarchy" in cpuset.text
