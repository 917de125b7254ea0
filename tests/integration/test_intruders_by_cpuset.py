"""A pod's task by its v1 cpuset alone, on an exclusive CPU: its runtime does not join v2, or it was moved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from probes.loaded import observing
from probes.observer import Observer
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import Mover, complete, cpuset, procs, verdict
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import cgroup
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.verdict import Outcome

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
HALF_AN_INTERVAL_NS = 5_000_000
"""Of those that the programs here work at a time: none is lost."""
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="needs a CPU that no claim may use"),
    pytest.mark.skipif(cgroupfs.detect().is_v2("cpuset"), reason="there is one hierarchy: cpusets are in v2"),
]


@dataclass(frozen=True)
class Node:
    """The pods' root with an exclusive container in both hierarchies, and two pods: one may be everywhere."""

    observer: Observer
    claims: ClaimSet
    wide: Path
    narrow: Path
    pod: str


@pytest.fixture(scope="module")
def node(ledger: Ledger) -> Iterator[Node]:
    """One observer for all windows of this module."""
    name = f"pinproof-v1-pods-{os.getpid()}"
    with (
        cgroup(name) as root,
        cgroup(f"{name}/db") as db,
        cgroup(f"{name}/pod") as pod,
        cpuset(root, CpuSet.of(ONLINE)),
        cpuset(f"{root}/wide", CpuSet.of(ONLINE)) as wide,
        cpuset(f"{root}/narrow", CpuSet.of([IN])) as narrow,
    ):
        claim = Claim(name="db", cgroup=db, cpus=CpuSet.of([OUT]), isolation=Isolation.CONTAINER)
        claims = ClaimSet(claims=(claim,), pods_root=root)
        with observing(claims, ledger=ledger) as observer:
            yield Node(observer, claims, wide, narrow, pod)


def play(
    node: Node, mover: Path, script: str, *, before: str = "", begin: Callable[[], None] = lambda: None
) -> tuple[Evidence, PerfAccount, dict[tuple[OwnerClass, str], int]]:
    """Play a script in a window; returns perf's account on ``OUT``, and the program's time there by class and place.

    :param before: what the program does before the window. :param begin: called after it.
    """
    with (
        Mover(mover, f"pin {IN} {before} ready {script} tell") as run,
        PerfAccount(run.pid, OUT, node.observer) as perf,
    ):
        begin()
        node.observer.open_window()
        run.go()
        run.account()
        evidence = node.observer.close_window()
        perf.close()
        run.end()
    complete(evidence)
    times: dict[tuple[OwnerClass, str], int] = {}
    for row in evidence.intruders:
        if row.tid == run.process.pid and row.cpu == OUT:
            times[row.owner, row.cgroup] = times.get((row.owner, row.cgroup), 0) + row.total_ns
    return evidence, perf, times


def all_of_it_is_the_pods(
    node: Node, evidence: Evidence, perf: PerfAccount, times: dict[tuple[OwnerClass, str], int]
) -> None:
    """Assert that what a script of :func:`play` ran on ``OUT`` is a foreign pod's, and a violation."""
    pod = times.get((OwnerClass.FOREIGN_POD, f"{node.claims.pods_root}/wide"), 0)
    counted = sum(row.switches for row in evidence.intruders if row.comm == "mover")
    assert perf.on_cpu - HALF_AN_INTERVAL_NS - perf.lost_ns(counted) <= pod <= perf.on_cpu * 1.05, (times, perf.on_cpu)
    assert verdict(node.claims, evidence, "exclusive-cpus") is Outcome.FAILED


def test_a_pod_that_never_joins_v2_is_a_pod(node: Node, mover: Path) -> None:
    """All of it: the kernel's word says when it came."""
    evidence, perf, times = play(node, mover, f"put {node.wide} 0 pin {OUT} times 20 {{ work 10000 nap 1000 }}")
    all_of_it_is_the_pods(node, evidence, perf, times)


def test_a_pod_that_was_there_before(node: Node, mover: Path) -> None:
    """No word says when it came: it was there when the cgroup of all pods became known, and so for 75 ms."""
    node.observer.watch_pods(f"{node.claims.pods_root}/none")
    work = f"nap 100000 pin {OUT} times 20 {{ work 10000 nap 1000 }}"
    known = partial(node.observer.watch_pods, node.claims.pods_root or "")
    all_of_it_is_the_pods(node, *play(node, mover, work, before=f"put {node.wide} 0", begin=known))


@pytest.mark.parametrize("first", ["cpuset", "identity"])
def test_a_pod_that_starts_is_none_before_it_has_come(node: Node, mover: Path, first: str) -> None:
    """Healthy: a runtime's process is on the exclusive CPU until the cpuset takes it away, within an interval."""
    both = [f"put {node.narrow} 0", f"put {procs(node.pod)} 0"]
    joins = " burn 500 ".join(both if first == "cpuset" else [both[1], both[0]])
    evidence, _, _ = play(node, mover, f"times 20 {{ fork {{ pin {OUT} work 3000 {joins} work 1000 }} }}")
    assert not [row for row in evidence.intruders if row.owner is OwnerClass.FOREIGN_POD]
    assert verdict(node.claims, evidence, "exclusive-cpus") is not Outcome.FAILED


@pytest.mark.parametrize("comes", [True, False], ids=["with-identity", "by-cpuset-alone"])
def test_threads_that_run_while_they_are_moved(node: Node, mover: Path, comes: bool) -> None:
    """The kernel puts all threads of a process into the cpuset first, and takes them off their CPUs one after the other
    then: some run several intervals in between. All of it is the doing of what moves them.
    """
    identity = f"put {procs(node.pod)} 0" if comes else ""
    threads = f"times 40 {{ thread {{ pin {OUT} times 100 {{ burn 20 nap 10 }} }} }}"
    evidence, _, _ = play(
        node, mover, f"times 10 {{ fork {{ pin {IN} {threads} nap 3000 put {node.narrow} 0 {identity} wait }} }}"
    )
    moved = [row for row in evidence.intruders if row.comm == "mover" and row.cpu == OUT]
    assert moved  # they ran there before
    assert not [row for row in moved if row.owner is OwnerClass.FOREIGN_POD]
    assert verdict(node.claims, evidence, "exclusive-cpus") is not Outcome.FAILED


def test_a_pod_that_was_is_none_any_more(node: Node, mover: Path) -> None:
    """What it runs when it has left the cpuset is a system task's."""
    out = cgroupfs.detect().controller_dir("cpuset") / "cgroup.procs"
    evidence, perf, times = play(node, mover, f"put {node.wide} 0 nap 100 put {out} 0 pin {OUT} work 30000")
    assert {owner for owner, _ in times} == {OwnerClass.SYSTEM}, (times, perf.on_cpu)
    assert verdict(node.claims, evidence, "exclusive-cpus") is not Outcome.FAILED
