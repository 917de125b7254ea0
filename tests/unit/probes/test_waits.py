"""How long claims' threads waited: whose threads are read at an edge, and what is said of the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.node.waits import Waits
from probes.node.witness import Threads
from probes.subjects import Subject
from probes.switches.ledger import Ledger
from probes.windows import Windows
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.kept_files import NONE_KEPT
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet

PODS, DB, WEB = "/pods", "/pods/db", "/pods/web"
THREADS = {DB: (5, 6), WEB: (8,)}
"""The first is the process."""


class Node:
    """Two claims in a tree of files, and what the ledger says of who ran in its window."""

    def __init__(self, root: Path) -> None:
        self.root, self.window, self.ran = root, 7, {0: 0, 1: 0, 2: 0}
        self.hierarchy = Hierarchy(root=root, mode=Mode.V2, unified=root / "cgroup")
        for cgroup, tids in THREADS.items():
            self.live(cgroup, *tids)
        self.subjects = [self.subject(cgroup, slot) for slot, cgroup in enumerate(THREADS)]
        self.rows = SimpleNamespace(all_ns=self.all_ns)
        self.waits = Waits(root, self.hierarchy, cast("Ledger", self))

    def subject(self, cgroup: str, slot: int, **more: Any) -> Subject:
        claim = dataclasses.replace(Claim(name=cgroup, cgroup=cgroup), **more)
        return Subject(claim=claim, cgroup_id=0, slot=slot, ident=slot, cpus=CpuSet(), since_ns=0)

    def live(self, cgroup: str, *tids: int) -> None:
        """Let these be the threads of a cgroup's one process."""
        place = self.root / "cgroup" / cgroup[1:]
        place.mkdir(parents=True, exist_ok=True)
        (place / "cgroup.procs").write_text(f"{tids[0]}\n")
        (place / "cgroup.threads").write_text("".join(f"{tid}\n" for tid in tids))
        for tid in tids:
            (self.root / f"proc/{tid}").mkdir(parents=True, exist_ok=True)
            self.waited(tid, 100)

    def waited(self, tid: int, ns: int) -> None:
        (self.root / f"proc/{tid}/schedstat").write_text(f"1 {ns} 1\n")

    def all_ns(self, slots: Iterable[int], window: int) -> list[int]:
        assert window == self.window - 1, "of the window that has ended"
        return [self.ran[slot] for slot in range(max(slots) + 1)]

    def edge(self) -> dict[str, dict[int, int]]:
        """Read at the end of a window."""
        self.window += 1
        inside = {one.ident: cgroupfs.whole_processes(self.hierarchy, one.claim.cgroup) for one in self.subjects}
        return {name: dict(found) for name, found in self.waits.read(self.subjects, inside, self.window - 1).items()}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_who_ran_is_read_again(node: Node) -> None:
    """All its threads; of a claim whose tasks slept nothing is opened."""
    assert node.edge() == {DB: {5: 100, 6: 100}, WEB: {8: 100}}
    for tid in (5, 6, 8):
        node.waited(tid, 300)
    node.ran[0] = 1

    assert node.edge() == {DB: {5: 300, 6: 300}, WEB: {8: 100}}


def test_what_was_not_read_is_in_the_window_in_which_its_claim_runs(node: Node) -> None:
    """Its threads are compared with what they said when they were read last."""
    node.edge()
    before = node.edge()
    node.waited(8, 900)
    node.ran[1] = 1

    assert node.edge()[WEB][8] - before[WEB][8] == 800


def test_where_a_window_is_missing_all_are_read(node: Node) -> None:
    """Who ran in it is not known."""
    node.edge()
    node.waited(8, 900)
    node.window += 1

    assert node.edge()[WEB] == {8: 900}


@pytest.mark.parametrize("what", ["a new process", "a share", "threads"])
def test_who_is_read_each_time(node: Node, what: str) -> None:
    """One that came sleeping; one of whom a verdict says that it did not wait; one whose processes are not whole."""
    if what == "a share":
        node.subjects[1] = node.subject(WEB, 1, weight=100, contended=True)
    if what == "threads":
        (node.root / "cgroup/pods/web/cgroup.procs").unlink()
    node.edge()
    node.waited(8, 900)
    if what == "a new process":
        node.live(WEB, 9)
    found = node.edge()[WEB]

    assert found == ({9: 100} if what == "a new process" else {8: 900})


@pytest.mark.parametrize("share", [{"weight": 100, "contended": False}, {"contended": True}])
def test_a_share_that_nobody_promised_needs_no_reading(node: Node, share: dict[str, Any]) -> None:
    """Nothing is divided."""
    node.subjects[1] = node.subject(WEB, 1, **share)
    node.edge()
    node.waited(8, 900)

    assert node.edge()[WEB] == {8: 100}


def test_threads_of_a_claim_inside_another_are_read_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods' own cgroup has the threads of all containers, and those that are in it itself."""
    node.live(PODS, 3)
    node.subjects.insert(0, node.subject(PODS, 2))
    node.edge()
    for tid in (3, 5, 6, 8):
        node.waited(tid, 300)
    node.ran[0] = 1
    opened = list[str]()

    def read(path: str) -> bytes:
        opened.append(path)
        return Path(path).read_bytes()

    monkeypatch.setattr("probes.node.system.read_record", read)
    found = node.edge()

    assert found == {DB: {5: 300, 6: 300}, WEB: {8: 100}, PODS: {3: 300, 5: 300, 6: 300, 8: 100}}
    assert [Path(path).parent.name for path in opened] == ["5", "6", "3"]


def test_processes_of_claims_are_not_looked_into(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose threads are all a claim's: they are not listed. Those of a process of a threaded cgroup are."""
    asked = list[int]()

    def threads(pid: int, _root: Path) -> tuple[int, ...]:
        asked.append(pid)
        return (pid,)

    monkeypatch.setattr("probes.node.untraced.procfs.tids", threads)
    (node.root / "cgroup/pods/web/cgroup.procs").unlink()
    windows = SimpleNamespace(
        root=node.root,
        hierarchy=node.hierarchy,
        kept_counters=NONE_KEPT,
        ledger=SimpleNamespace(seen=lambda _tid: False, rows=node.rows, window=node.window),
        subjects={one.name: one for one in node.subjects},
    )
    steps = Threads(cast("Windows", windows)).edge(turn=True)
    next(steps)
    next(steps)
    with pytest.raises(StopIteration) as ended:
        next(steps)

    assert ended.value.value.members == {5, 8}
    assert sorted(asked) == [6, 8]
