"""A task that leaves a claim, or a pod, without ending: which claim its time counts for, and what the rules say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from probes.loaded import observing
from probes.observer import Observer
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import Mover, complete, cpuset, home, procs
from tests.integration.probe_lab import cgroup, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.verdict import Outcome, Verdict
from validators.registry import judge

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="needs a CPU that is another's"),
]
HYBRID = pytest.mark.skipif(cgroupfs.detect().is_v2("cpuset"), reason="there is one hierarchy: cpusets are in v2")


@dataclass(frozen=True)
class Node:
    """``db`` owns ``OUT``; ``web`` is a container beside it, ``pod`` one without a claim."""

    observer: Observer
    claims: ClaimSet
    web: str
    pod: str

    def verdict(self, evidence: Evidence, rule: str, subject: str) -> Verdict:
        return next(one for one in judge(self.claims, evidence) if (one.rule, one.subject) == (rule, subject))


@pytest.fixture(scope="module")
def node(ledger: Ledger) -> Iterator[Node]:
    """One observer for all windows of this module; the test itself is no intruder."""
    name = f"pinproof-leaving-{os.getpid()}"
    with cgroup(name) as root, cgroup(f"{name}/db") as db, cgroup(f"{name}/web") as web, cgroup(f"{name}/pod") as pod:
        claims = ClaimSet(
            claims=(
                Claim(name="db", cgroup=db, cpus=CpuSet.of([OUT]), isolation=Isolation.CONTAINER),
                Claim(name="web", cgroup=web, cpus=CpuSet.of(ONLINE)),
            ),
            pods_root=root,
        )
        os.sched_setaffinity(0, {IN})
        try:
            with observing(claims, ledger=ledger) as observer:
                yield Node(observer, claims, web, pod)
        finally:
            os.sched_setaffinity(0, set(ONLINE))


def on_out(evidence: Evidence) -> dict[tuple[OwnerClass, str], int]:
    """Return the time of the program and its children on ``OUT``, by class and claim."""
    found: dict[tuple[OwnerClass, str], int] = {}
    for row in evidence.intruders:
        if row.cpu == OUT and row.comm == "mover":
            found[row.owner, row.claim] = found.get((row.owner, row.claim), 0) + row.total_ns
    return found


def works(node: Node, run: Mover) -> Evidence:
    """Let the program do its next part in a window."""
    node.observer.open_window()
    run.go()
    run.account()
    evidence = node.observer.close_window()
    complete(evidence)
    return evidence


WORK = f"pin {OUT} times 10 {{ work 5000 nap 500 }} times 10 {{ fork {{ work 3000 }} }} pin {IN} tell"
LEAST_NS = 10 * 5_000_000 + 10 * 3_000_000 - 20 * 500_000
"""Of two parts; half a millisecond each may be lost where it begins and ends."""


def executed(program: Path, door: Path, folder: Path) -> Path:
    """Return a program that joins a cgroup and executes another there, as runtimes do."""
    script = folder / "join-and-execute"
    script.write_text(f'#!/bin/sh\necho $$ > {door} && exec {program} "$@"\n')
    script.chmod(0o700)
    return script


@pytest.mark.parametrize("place", ["web", "pod"])
def test_a_task_that_was_moved_out_is_still_of_its_claim(node: Node, mover: Path, tmp_path: Path, place: str) -> None:
    """With its children, in the window of the move and in the next; put back it is a member again."""
    inside = getattr(node, place)
    expected = (OwnerClass.CLAIM, "web") if place == "web" else (OwnerClass.FOREIGN_POD, "")
    out = home(os.getpid())
    with Mover(executed(mover, procs(inside), tmp_path), f"pin {IN} ready {WORK} {WORK} {WORK}") as run:
        node.observer.open_window()
        out.write_text(str(run.process.pid))
        run.go()
        run.account()
        evidence = node.observer.close_window()
        complete(evidence)
        later = works(node, run)
        procs(inside).write_text(str(run.process.pid))
        back = works(node, run)
        run.end()

    for found in (evidence, later):
        assert list(on_out(found)) == [expected], on_out(found)
        assert on_out(found)[expected] >= LEAST_NS
        assert node.verdict(found, "exclusive-cpus", "db").outcome is Outcome.FAILED
    (move,) = [row for row in evidence.cgroup_moves if row.leaves]
    assert (move.pid, move.writer_pid, move.visit, move.from_pods) == (
        run.process.pid,
        os.getpid(),
        False,
        place == "pod",
    )
    assert [row.tid for row in later.left_before] == [run.process.pid]
    assert later.left_before[0].at_ns < 0
    assert not [row for row in back.intruders if row.left]
    if place == "web":
        text = node.verdict(evidence, "cpuset-containment", "web")
        assert text.outcome is Outcome.FAILED
        assert f"mover (pid {run.process.pid}) left its cgroup" in text.reason
        assert f"(pid {os.getpid()}" in text.reason


def test_a_task_that_comes_and_goes_by_itself_is_a_visit(node: Node, mover: Path) -> None:
    """As runtimes do, with one program: what it runs then is a system task's, and no claim is broken; nor is what it
    bears the claim's.
    """
    own = home(os.getpid())
    with Mover(mover, f"pin {IN} ready put {procs(node.web)} 0 work 500 put {own} 0 {WORK}") as run:
        evidence = works(node, run)
        run.end()

    (move,) = [row for row in evidence.cgroup_moves if row.leaves]
    assert move.visit
    assert list(on_out(evidence)) != [], on_out(evidence)
    assert {owner for owner, _ in on_out(evidence)} == {OwnerClass.SYSTEM}
    assert "left" not in node.verdict(evidence, "cpuset-containment", "web").reason
    assert node.verdict(evidence, "exclusive-cpus", "db").outcome is not Outcome.FAILED


@HYBRID
def test_a_task_that_has_the_claims_v1_cpuset_alone_is_the_claims(node: Node, mover: Path) -> None:
    """A runtime that never joins v2: what its processes run on another's own CPU is not a system task's, however short
    each lives; one that was born there counts from its first interval on.
    """
    name = f"{(node.claims.pods_root or '').strip('/')}/only-v1"
    with (
        cgroup(name) as path,
        cpuset(f"{node.claims.pods_root}", CpuSet.of(ONLINE)),
        cpuset(path, CpuSet.of(ONLINE)) as door,
    ):
        claim = Claim(name="only-v1", cgroup=path, cpus=CpuSet.of(ONLINE))
        node.observer.add_claim(claim)
        try:
            with Mover(mover, f"pin {IN} ready put {door} 0 times 50 {{ fork {{ pin {OUT} work 2000 }} }} tell") as run:
                evidence = works(node, run)
                run.end()
        finally:
            node.observer.remove_claim(claim.name)
            wait_for(lambda: not door.read_text(), f"{door} empty")
    times = on_out(evidence)
    assert times[OwnerClass.CLAIM, "only-v1"] >= 50 * 2_000_000 * 0.9, times
    assert sum(ns for (owner, _), ns in times.items() if owner is OwnerClass.SYSTEM) <= 2_000_000, times
    claims = ClaimSet(claims=(*node.claims.claims, claim), pods_root=node.claims.pods_root)
    verdict = next(v for v in judge(claims, evidence) if (v.rule, v.subject) == ("exclusive-cpus", "db"))
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.startswith("only-v1 ran")
