"""A node of two pods without a claim beside an exclusive container, and which tasks were seen on its CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from probes.loaded import observing
from probes.observer import Observer
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import Account, Mover, complete, switches_on, verdict
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import cgroup
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.verdict import Outcome

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
"""``OUT`` is exclusively another's."""
POD, SYSTEM = OwnerClass.FOREIGN_POD, OwnerClass.SYSTEM


@dataclass(frozen=True)
class Node:
    """The pods' root with an exclusive container's cgroup, and two pods without a claim."""

    observer: Observer
    claims: ClaimSet
    evil: str
    other: str
    db: str

    def exclusive(self, evidence: Evidence) -> Outcome:
        return verdict(self.claims, evidence, "exclusive-cpus")


@contextmanager
def node_of_pods(ledger: Ledger) -> Iterator[Node]:
    """Make the node, and one observer for all windows; the test itself is no intruder."""
    with cgroup(f"pinproof-pods-{os.getpid()}") as root:
        for name in ("db", "evil", "other"):
            cgroupfs.identity_dir(cgroupfs.detect(), f"{root}/{name}").mkdir()
        db = Claim(name="db", cgroup=f"{root}/db", cpus=CpuSet.of([OUT]), isolation=Isolation.CONTAINER)
        claims = ClaimSet(claims=(db,), pods_root=root)
        with observing(claims, ledger=ledger) as observer:
            os.sched_setaffinity(0, {IN})
            try:
                yield Node(observer, claims, f"{root}/evil", f"{root}/other", f"{root}/db")
            finally:
                os.sched_setaffinity(0, set(ONLINE))


def play(node: Node, mover: Path, script: str) -> tuple[Evidence, Account, PerfAccount, int]:
    """Play a script in a window; returns the account, perf's on ``OUT``, and the program's pid."""
    with (
        Mover(mover, f"pin {IN} ready {script} pin {IN} tell") as run,
        PerfAccount(run.pid, OUT, node.observer) as perf,
    ):
        node.observer.open_window()
        run.go()
        account = run.account()
        evidence = node.observer.close_window()
        perf.close()
        run.end()
        complete(evidence)
        return evidence, account, perf, run.process.pid


def rows(evidence: Evidence, tid: int, owner: OwnerClass | None = None) -> list[Intruder]:
    return [row for row in evidence.intruders if row.tid == tid and owner in (None, row.owner)]


def lost(evidence: Evidence, perf: PerfAccount, tid: int, *, moves: int = 0, died: int = 0) -> int:
    """Return how much of an intruder's time the ledger cannot know, as a claim's task or as one of no claim.

    Its rows count intervals: a move while it runs ends one without a switch.
    """
    counted = sum(row.switches for row in rows(evidence, tid)) + switches_on(evidence, OUT)
    return perf.lost_ns(counted - moves, died=died)


def total_ns(evidence: Evidence, tid: int, owner: OwnerClass, where: str | None = None) -> int:
    return sum(row.total_ns for row in rows(evidence, tid, owner) if where in (None, row.cgroup))
