"""Threads that are read between their two joinings: a member of the v2 cgroup, not yet of the claim's v1 cpuset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from probes.masks.threads import ThreadMasks
from probes.subjects import Subject
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.procfs import PF_EXITING
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet

TID = 7
CLAIM = Claim(name="a", cgroup="/a", cpus=CpuSet.parse("0"))
HYBRID = Subject(
    claim=CLAIM, cgroup_id=1, slot=0, ident=1, cpus=CpuSet.parse("0"), since_ns=0, legacy_ids={"cpuset": 9}
)
ON_NODE_1 = replace(
    HYBRID, claim=replace(CLAIM, cpus=CpuSet.parse("0-1"), mems=CpuSet.parse("1")), cpus=CpuSet.parse("0-1")
)
"""All CPUs of the machine, and one of its two memory nodes."""


class Tree:
    """A thread in a cgroup, beside a /proc. Patience is none: one that is met twice in one joining never joined."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "cgroup/a").mkdir(parents=True)
        (root / f"proc/{TID}").mkdir(parents=True)
        hierarchy = Hierarchy(mode=Mode.V2, unified=root / "cgroup", root=root)
        self.moves: tuple[int, ...] = ()
        self.subject = HYBRID
        self.mems = "0-1"
        self.pending: set[tuple[int, int, int]] = set()
        may_complete = self._may_complete
        self.masks = ThreadMasks(hierarchy, root, 0, 0, 0, lambda: self.moves, may_complete=may_complete)
        self.began(100)

    def began(self, ticks: int, flags: int = 0) -> None:
        """Let another thread have the id."""
        (self.root / f"proc/{TID}/stat").write_text(f"{TID} (x) R {'0 ' * 5}{flags} {'0 ' * 12}{ticks} 0\n")

    def _may_complete(self, ident: int, tgid: int, tid: int) -> bool:
        return (ident, tgid, tid) in self.pending

    def exits(self) -> None:
        """Let it be on its way out, for however long that takes."""
        self.began(100, PF_EXITING)

    def between(self) -> None:
        """Joined the identity, not the cpuset: the mask is wide."""
        self._thread("0-1", "/")

    def complete(self) -> None:
        """Joined both."""
        self._thread("0", "/a")

    def escaped(self) -> None:
        """Joined both, with a wide mask."""
        self._thread("0-1", "/a")

    def elsewhere(self) -> None:
        """No member any more."""
        (self.root / "cgroup/a/cgroup.threads").write_text("")

    def _thread(self, cpus: str, cpuset: str) -> None:
        (self.root / "cgroup/a/cgroup.threads").write_text(f"{TID}\n")
        (self.root / f"proc/{TID}/status").write_text(
            f"Name:\tx\nTgid:\t{TID}\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{self.mems}\n"
        )
        (self.root / f"proc/{TID}/cgroup").write_text(f"4:cpuset:{cpuset}\n0::/a\n")

    def scan(self) -> None:
        """Read it once."""
        self.masks.scan_all([self.subject], lambda: False)

    def wide(self) -> int:
        """Return how often it was read with a wide mask, and that was kept."""
        return sum(mask.times_seen for mask in self.masks.values() if not mask.cpus_allowed <= HYBRID.cpus)

    def read_on(self) -> list[str]:
        """Return the memory nodes that were kept, of threads that may use some."""
        return [str(mask.mems_allowed) for mask in self.masks.values()]


def test_a_thread_that_never_joins_is_read(tmp_path: Path) -> None:
    """It is still between the two when the patience is over."""
    tree = Tree(tmp_path)
    for _ in range(2):
        tree.between()
        tree.scan()
    assert tree.wide() == 1


def test_a_thread_whose_joining_the_programs_know_is_waited_for(tmp_path: Path) -> None:
    """Its cpuset may still come, later than the patience; when it cannot any more it is read."""
    tree = Tree(tmp_path)
    tree.pending = {(HYBRID.ident, TID, TID)}
    for _ in range(3):
        tree.between()
        tree.scan()
    assert tree.wide() == 0
    tree.pending = set()
    tree.scan()
    assert tree.wide() == 1


def test_a_thread_that_exits_between_the_two_is_not_read(tmp_path: Path) -> None:
    """The kernel moves it no more; one that is outside with the claim's cpuset is read, its end too."""
    tree = Tree(tmp_path)
    tree.exits()
    for _ in range(3):
        tree.between()
        tree.scan()
    assert tree.wide() == 0
    tree.escaped()
    tree.scan()
    assert tree.wide() == 1


def test_a_mask_is_not_read_in_the_middle_of_a_move(tmp_path: Path) -> None:
    """The thread is in the list and has not its CPUs yet; a move that begins later explains nothing."""
    tree = Tree(tmp_path)
    tree.escaped()
    tree.moves = (1,)
    tree.scan()
    assert tree.wide() == 0
    tree.moves = (1 << 62,)
    tree.scan()
    assert tree.wide() == 1


@pytest.mark.parametrize(
    "meanwhile",
    [Tree.complete, Tree.escaped, Tree.elsewhere, lambda tree: tree.began(200)],
    ids=["complete", "escaped", "elsewhere", "another thread"],
)
def test_each_joining_has_its_own_patience(tmp_path: Path, meanwhile: Callable[[Tree], None]) -> None:
    """A thread id that was met in one joining and is met again in another has not been joining all that time."""
    tree = Tree(tmp_path)
    tree.between()
    tree.scan()
    meanwhile(tree)
    if meanwhile in (Tree.complete, Tree.escaped, Tree.elsewhere):
        tree.scan()
    seen = tree.wide()
    tree.between()
    tree.scan()
    assert tree.wide() == seen


def test_a_thread_that_has_not_the_memory_nodes_yet_is_looked_at_again(tmp_path: Path) -> None:
    """Its CPUs say nothing where the claim has all of them; once it is in the cpuset its nodes are the claim's."""
    tree = Tree(tmp_path)
    tree.subject = ON_NODE_1
    tree.between()
    tree.scan()
    assert tree.read_on() == []
    tree.mems = "1"
    tree.complete()
    tree.scan()
    assert tree.read_on() == ["1"]


def test_a_thread_that_may_use_other_memory_nodes_is_read(tmp_path: Path) -> None:
    """In the cpuset with wide nodes, or never in it: both are kept, and a kernel that shows no nodes is no doubt."""
    tree = Tree(tmp_path)
    tree.subject = ON_NODE_1
    tree.escaped()
    tree.scan()
    assert tree.read_on() == ["0-1"]

    tree.mems = "0"
    for _ in range(2):
        tree.between()
        tree.scan()
    assert tree.read_on() == ["0-1", "0"]
    tree.mems = ""
    tree.between()
    tree.scan()
    assert tree.read_on() == ["0-1", "0", ""]
