"""One loaded ledger for many observers: what one saw, watched or could not see says nothing in the next one's evidence.

A run that compiles its programs anew makes hundreds of runs unaffordable in an emulator; a run that inherits anything
from the one before would be worthless.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from probes.interrupts.reader import Interrupts
from probes.loaded import observing
from probes.observer import ObserveOptions
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import switches_on, without_the_moment
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import Planter, cgroup, join, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.verdict import Outcome
from toolkit.session.engine.canary import fit
from toolkit.session.engine.prepared import prepared
from toolkit.session.engine.session import watched
from toolkit.session.engine.window import Window
from validators.credibility.trust import PLANTED_SKEW_RATIO, PLANTED_SKEW_SWITCHES
from validators.registry import judge

pytestmark = [pytest.mark.integration, pytest.mark.beside]

ONLINE = CpuSet.of(os.sched_getaffinity(0))
FIRST, LAST = ONLINE.first(), max(ONLINE)


@contextlib.contextmanager
def busy(planter: Path, path: str = "") -> Iterator[int]:
    """A process that computes on the last CPU without a system call, in a cgroup where one is given."""
    with Planter(planter, "stay", LAST, LAST, 1, 10**11) as run:
        if path:
            join(path, run.process.pid)
        run.go()
        yield run.process.pid


def watch(claims: ClaimSet, ledger: Ledger | None, pid: int) -> tuple[Evidence, int, float]:
    """Watch while a process uses 50 ms of CPU time.

    Returns the evidence, how many violations were told live, and how much of the time must have been seen: all but 10 %
    and what the ledger cannot know.
    """
    clock = ~pid << 3 | 2
    with observing(claims, ledger=ledger) as observer, PerfAccount(pid, LAST, observer) as perf:
        observer.open_window()
        began = time.clock_gettime_ns(clock)
        wait_for(lambda: time.clock_gettime_ns(clock) > began + 50_000_000, "it runs")
        told = len(observer.poll(0.2))
        evidence = observer.close_window()
        perf.close()
        return evidence, told, 45_000_000 - perf.lost_ns(switches_on(evidence, LAST))


def claim(path: str, cpus: CpuSet, isolation: Isolation = Isolation.HOST) -> Claim:
    """A claim about a cgroup."""
    return Claim(name="db", cgroup=path, cpus=cpus, isolation=isolation)


def outside(evidence: Evidence) -> int:
    """CPU time outside, of all claims."""
    return sum(row.out_of_set_ns for row in evidence.cpu_use)


@pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs")
def test_a_violation_is_not_in_the_next_evidence(ledger: Ledger, planter: Path) -> None:
    """The same task in the same cgroup: outside for the first observer, inside for the second, outside again."""
    wrong, right = CpuSet.of([FIRST]), ONLINE
    with cgroup(f"pinproof-reuse-{os.getpid()}") as path, busy(planter, path) as pid:
        first, told_first, least_first = watch(ClaimSet(claims=(claim(path, wrong),)), ledger, pid)
        second, told_second, least_second = watch(ClaimSet(claims=(claim(path, right),)), ledger, pid)
        third, told_third, least_third = watch(ClaimSet(claims=(claim(path, wrong),)), ledger, pid)
    for evidence, told, least in ((first, told_first, least_first), (third, told_third, least_third)):
        assert outside(evidence) >= least
        assert {(row.claim, row.tid, row.cpu) for row in evidence.offenders} == {("db", pid, LAST)}
        assert told > 0
    assert (outside(second), second.offenders, told_second) == (0, (), 0)
    assert sum(row.run_ns for row in second.cpu_use) >= least_second
    assert sum(row.out_of_set_samples + row.transition_switches for row in second.cpu_use) == 0


@pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs")
def test_evidence_is_that_of_an_observer_of_its_own(ledger: Ledger, planter: Path) -> None:
    """Twice through one ledger and once each on its own: the same evidence, but for times and numbers of threads."""

    def portrait(shared: Ledger | None) -> dict[str, Any]:
        with cgroup(f"pinproof-same-{os.getpid()}") as path:
            claims = ClaimSet(
                claims=(claim(path, CpuSet.of([FIRST]), Isolation.CONTAINER),), reserved_cpus=CpuSet.of([LAST])
            )
            with (
                observing(claims, ledger=shared) as observer,
                Planter(planter, "hop", FIRST, LAST, 200, 20_000) as run,
            ):
                join(path, run.process.pid)
                observer.open_window()
                run.go()
                truth = run.truth()
                evidence = observer.close_window()
                run.end()
        coverage = evidence.coverage
        rows = {row.cpu: row for row in evidence.cpu_use}
        return {
            "cpus": sorted(rows),
            "every escape": rows[LAST].out_of_set_switches >= truth.escapes,
            "nothing else": rows[FIRST].out_of_set_switches + rows[LAST].transition_switches,
            "offenders": [(row.claim, row.tid == truth.tid, row.comm, row.cpu) for row in evidence.offenders],
            "files": [(row.cgroup, row.cpus, row.cpus_effective) for row in evidence.files_before],
            "levels": [row.cgroup for row in evidence.bandwidth],
            "transitions": evidence.transitions,
            "moves": [(row.from_claim, row.to_claim) for row in evidence.cgroup_moves],
            "interrupts": evidence.irq_use is not None,
            "affinity": evidence.affinity_changes is not None,
            "loss": (coverage.lost_events, coverage.map_full, coverage.missed_runs),
            "cpus seen": (coverage.cpus_seen, coverage.cpus_unsampled, coverage.sampler_hz),
            "complete": abs(coverage.switches_kernel - coverage.switches_judged - coverage.switches_untraced)
            <= coverage.switches_skew + coverage.switches_kernel // 1000,
            "blind": list(without_the_moment(evidence).coverage.blind_spots),
        }

    alone, again = portrait(None), portrait(None)
    first, second = portrait(ledger), portrait(ledger)
    assert alone == again
    assert first == alone
    assert second == alone
    assert alone["every escape"]
    assert alone["complete"]


def test_a_claim_inside_is_forgotten(ledger: Ledger, planter: Path) -> None:
    """A nested claim of the first observer does not take its tasks from the outer claim of the second."""
    with cgroup(f"pinproof-nest-{os.getpid()}") as path:
        inner = f"{path}/inner"
        cgroupfs.identity_dir(cgroupfs.detect(), inner).mkdir()
        with busy(planter, inner) as pid:
            watch(ClaimSet(claims=(claim(inner, ONLINE),)), ledger, pid)
            evidence, _, least = watch(ClaimSet(claims=(claim(path, ONLINE),)), ledger, pid)
    assert sum(row.run_ns for row in evidence.cpu_use) >= least


def test_what_the_node_was_told_is_forgotten(ledger: Ledger, planter: Path) -> None:
    """Reserved CPUs and the pods' root are of one observer: the next one asks nothing, or anew."""
    reserved = CpuSet.of([LAST])
    with cgroup(f"pinproof-pods-{os.getpid()}") as path, busy(planter, path) as pid:
        pods, _, _ = watch(ClaimSet(claims=(), reserved_cpus=reserved, pods_root=path), ledger, pid)
        nothing, _, _ = watch(ClaimSet(claims=()), ledger, pid)
        again, _, _ = watch(ClaimSet(claims=(), reserved_cpus=reserved), ledger, pid)
    assert {row.owner for row in pods.intruders if row.tid == pid} == {OwnerClass.FOREIGN_POD}
    assert pods.irq_use is not None
    assert (nothing.intruders, nothing.irq_use, nothing.coverage.softirqs_judged) == ((), None, 0)
    assert {row.owner for row in again.intruders if row.tid == pid} == {OwnerClass.SYSTEM}
    assert again.irq_use is not None


def test_the_ledger_goes_back_empty(ledger: Ledger, planter: Path) -> None:
    """No claim, member, offence, intruder, interrupt, row or sampler is left in the kernel."""
    with cgroup(f"pinproof-empty-{os.getpid()}") as path, busy(planter, path) as pid:
        one = claim(path, CpuSet.of([FIRST]), Isolation.CONTAINER)
        claims = ClaimSet(claims=(one,), reserved_cpus=ONLINE, pods_root=path)
        with observing(claims, ledger=ledger) as observer:
            observer.open_window()
            clock = ~pid << 3 | 2
            began = time.clock_gettime_ns(clock)
            wait_for(lambda: time.clock_gettime_ns(clock) > began + 50_000_000, "it runs")
            tables = (ledger.roots, ledger.threads, ledger.offenders if len(ONLINE) > 1 else ledger.roots)
            assert all(tuple(table.keys()) for table in tables)
            observer.close_window()
            observer.open_window()
        kept = (ledger.roots, ledger.processes, ledger.threads, ledger.offenders, ledger.intruders, ledger.idents)
        assert [len(tuple(table.keys())) for table in kept] == [0] * len(kept)
        assert ledger.side(Interrupts).rows(ledger.window) is None
        assert ledger.sampled() == CpuSet()
        assert not any(row.ns or row.details for window in (0, 1) for row in ledger.rows.of(0, window))


def test_a_thread_number_is_not_seen_for_ever(ledger: Ledger) -> None:
    """Threads are hidden if they were never seen; that a number was seen long ago must not excuse its next owner."""
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        child = subprocess.Popen(["sleep", "0.01"])
        child.wait()
        assert ledger.seen(child.pid)
        observer.close_window()
    assert not ledger.seen(child.pid)


def test_one_observer_at_a_time(ledger: Ledger) -> None:
    """A ledger that is lent is refused to a second observer, and to one with other options; it serves afterwards."""
    with observing(ClaimSet(claims=()), ledger=ledger), pytest.raises(RuntimeError, match="another observer"):
        observing(ClaimSet(claims=()), ledger=ledger).__enter__()
    with pytest.raises(ValueError, match="other options"):
        observing(ClaimSet(claims=()), ledger=ledger, options=ObserveOptions(max_claims=3)).__enter__()
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        assert observer.close_window().coverage.switches_judged > 0


def test_an_observer_that_fails_gives_the_ledger_back(ledger: Ledger) -> None:
    """An error while claims are published, or inside the block, leaves an empty ledger behind."""
    missing = ClaimSet(claims=(claim("/no-such-cgroup-of-pinproof", ONLINE),), reserved_cpus=ONLINE)
    with contextlib.suppress(Exception):
        observing(missing, ledger=ledger).__enter__()
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        evidence = observer.close_window()
    assert (evidence.intruders, evidence.irq_use) == ((), None)


def test_canaries_of_one_window_are_not_those_of_the_next() -> None:
    """A canary that escaped on purpose fails its own window only, also where canaries live longer than a window."""
    claims, health, canaries = ClaimSet(claims=()), [], []
    with prepared(f"reuse-{os.getpid()}") as kept:
        for number, escape in enumerate((False, True, False)):
            run_id = f"reuse-{os.getpid()}-{number}"
            window = Window(run_id=run_id, duration_s=0.5, canary_escape=escape, prepared=kept)
            evidence = watched(claims, window, Path(window.run_id)).evidence
            (positive,) = [one for one in evidence.canaries if one.positive]
            assert positive.reported_at_ns is not None
            # What the kernel counted inside the window was seen, but for what happened between the readings of the two;
            # nothing of the windows before was counted again.
            skew = max(PLANTED_SKEW_SWITCHES, positive.planted_switches * PLANTED_SKEW_RATIO)
            assert positive.out_of_set_switches >= positive.planted_switches - skew
            assert min(positive.out_of_set_switches, positive.planted_switches) > 0
            assert 0 < positive.out_of_set_ns < evidence.duration_ns
            health += [verdict.outcome for verdict in judge(claims, evidence) if verdict.rule == "evidence-health"]
            canaries.append({row.claim for row in evidence.cpu_use} | {row.claim for row in evidence.offenders})
    assert [outcome is Outcome.FAILED for outcome in health] == [False, True, False]
    assert canaries == [set(), set(), set()]
    assert not [name for name in cgroupfs.subtree(cgroupfs.detect(), "/") if f"reuse-{os.getpid()}" in name]


def test_a_dead_canary_is_replaced() -> None:
    """Canaries that were killed between two windows do not leave the second without a control."""
    claims = ClaimSet(claims=())
    with prepared(f"dead-{os.getpid()}") as kept:
        with kept.canaries(claims, ONLINE, escape=False) as first:
            pids = [pid for one in first.claims for pid in cgroupfs.pids(first.hierarchy, one.cgroup)]
        with kept.canaries(claims, ONLINE, escape=False) as same:
            assert same is first
        for pid in pids:
            os.kill(pid, 9)
        wait_for(lambda: not fit(first, Path("/")), "both are gone")
        with kept.canaries(claims, ONLINE, escape=False) as second:
            assert second is not first
            assert fit(second, Path("/"))
