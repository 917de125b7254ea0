"""Change under observation: restart, delete, create, shrink and grow are transitions with windows, no violations."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.apply_support import container, need_runtime, request
from tests.integration.probe_lab import wait_for
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.apply.sandbox import sandbox
from toolkit.errors import InputError
from toolkit.faults.injection import Injection
from toolkit.faults.planting import planted
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpu_units import MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.sandbox import Workload, WorkloadKind

pytestmark = [pytest.mark.integration, pytest.mark.beside]

ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
LAST = CpuSet.of([max(ONLINE)])
needs_two_cpus = pytest.mark.skipif(len(ONLINE) < 2, reason="a set that changes needs two CPUs")


def claim_of(live: LiveSandbox, name: str, cpus: CpuSet, isolation: Isolation = Isolation.HOST) -> Claim:
    """The claim of a container that stands."""
    place = next(one.cgroup for one in live.value.containers if one.claim == name)
    return Claim(name=name, pod=name, cgroup=place, cpus=cpus, isolation=isolation)


def outside(evidence: Evidence) -> int:
    """Switches outside of any claim's set."""
    return sum(row.out_of_set_switches for row in evidence.cpu_use)


@pytest.mark.parametrize("runtime", ["cgroupfs", "runc"])
def test_restart_is_a_transition_and_the_claim_goes_on(runtime: str, ledger: Ledger) -> None:
    """Before and after a restart the claim's tasks are counted as its own, also where runc makes a new cgroup."""
    need_runtime(runtime)
    name = f"restart-{runtime}-{os.getpid()}"
    with sandbox(request(container("db", WorkloadKind.SPIN, cpus=LAST)), run_id=name, runtime=runtime) as live:
        claim = claim_of(live, "db", LAST)
        with observing(ClaimSet(claims=(claim,)), ledger=ledger) as observer:
            observer.open_window()
            with observer.restarting("db"):
                live.restart("db")
            before = sum(row.run_ns for row in observer.snapshot().cpu_use)
            wait_for(
                lambda: sum(row.run_ns for row in observer.snapshot().cpu_use) > before + 20_000_000,
                "the restarted container is seen to run",
            )
            evidence = observer.close_window()
    (restart,) = [change for change in evidence.transitions if change.what == "restart"]
    assert restart.claim == "db"
    assert 0 <= restart.start_at_ns < restart.end_at_ns <= evidence.duration_ns
    assert outside(evidence) == 0


@needs_two_cpus
def test_create_and_delete_are_transitions(ledger: Ledger) -> None:
    """A container that comes and goes inside the window is judged for as long as it was there."""
    with (
        sandbox(request(), run_id=f"come-{os.getpid()}") as live,
        observing(ClaimSet(claims=()), ledger=ledger) as observer,
    ):
        observer.open_window()
        live.create(container("web", WorkloadKind.SPIN, cpus=LAST))
        observer.add_claim(claim_of(live, "web", LAST))
        wait_for(lambda: sum(row.run_ns for row in observer.snapshot().cpu_use) > 10_000_000, "it runs")
        observer.remove_claim("web")
        live.remove("web")
        evidence = observer.close_window()
    kinds = [(change.claim, change.what) for change in evidence.transitions]
    assert kinds == [("web", "claim-added"), ("web", "claim-removed")]
    assert all(change.end_at_ns >= change.start_at_ns for change in evidence.transitions)
    assert outside(evidence) == 0


@needs_two_cpus
def test_shrink_and_grow_are_transitions_without_violation(ledger: Ledger) -> None:
    """A busy container follows its set through both directions; each change has a window of its own.

    It has the lowest weight: one of the usual weight on both CPUs may starve all else (docs/facts.md K34).
    """
    loads = (WorkloadKind.SPIN, WorkloadKind.AFFINITY_ESCAPER)
    busy = container("web", *loads, threads=2, cpus=ONLINE, shares=MIN_SHARES)
    with (
        sandbox(request(busy), run_id=f"resize-{os.getpid()}") as live,
        observing(ClaimSet(claims=(claim_of(live, "web", ONLINE),)), ledger=ledger) as observer,
    ):
        observer.open_window()
        for cpus in (ONLINE - LAST, ONLINE, LAST, ONLINE):
            with observer.changing("web", cpus):
                live.set_cpus("web", cpus)
        evidence = observer.close_window()
    changes = [change for change in evidence.transitions if change.what == "mask-change"]
    assert [change.cpus_after for change in changes] == [ONLINE - LAST, ONLINE, LAST, ONLINE]
    assert outside(evidence) == 0


@needs_two_cpus
def test_cpus_that_become_exclusive_are_watched_from_then_on(ledger: Ledger) -> None:
    """A rogue task on the CPU of a claim that came later is recorded; it was not before the claim came."""
    with sandbox(request(container("db", WorkloadKind.PULSE, cpus=LAST)), run_id=f"late-{os.getpid()}") as live:
        claim = claim_of(live, "db", LAST, Isolation.CONTAINER)
        with observing(ClaimSet(claims=(), pods_root=live.value.root), ledger=ledger) as observer:
            observer.open_window()
            rogue = Injection(fault="rogue-task", targets=(claim.cgroup,))
            with planted(rogue, run_id=f"late-{os.getpid()}-fault") as fault:
                assert not [row for row in observer.snapshot().intruders if row.tid == fault.pid]
                observer.add_claim(claim)
                wait_for(
                    lambda: any(row.tid == fault.pid for row in observer.snapshot().intruders), "the rogue is seen"
                )
                live.spawn("db", Workload(kind=WorkloadKind.PULSE))
                evidence = observer.close_window()
    (row,) = [row for row in evidence.intruders if row.tid == fault.pid]
    assert row.owner is OwnerClass.FOREIGN_POD
    added = next(change for change in evidence.transitions if change.what == "claim-added")
    assert row.first_at_ns >= added.start_at_ns


def test_only_watched_claims_restart(ledger: Ledger) -> None:
    """A name that is not watched is refused before anything is done."""
    done: list[int] = []
    with (
        observing(ClaimSet(claims=()), ledger=ledger) as observer,
        pytest.raises(InputError, match="not watched"),
        observer.restarting("absent"),
    ):
        done.append(1)
    assert not done
