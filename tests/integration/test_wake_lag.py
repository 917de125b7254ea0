"""The kernel charges a woken task from its wake-up on; the ledger says how long that was: both accounts agree."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from probes import kernel_structs
from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import Mover, procs
from tests.integration.probe_lab import cgroup
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from validators.credibility.agreement import cpu_time_tolerance_ns, wakes_ns
from validators.queries import view

ONLINE = sorted(os.sched_getaffinity(0))
CPU = ONLINE[-1]
NAPS = 10_000
DEADLINE_S = 60.0

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="a CPU of its own, and one for the test"),
]


@contextmanager
def elsewhere() -> Iterator[None]:
    """Leave the CPU to the tasks of the test."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {CPU})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def unexplained_ns(evidence: Evidence, claim: str) -> tuple[int, float]:
    """How much more the cgroup has than the ledger and the lag, and what is allowed: both ends, and the switches."""
    rows = [row for row in evidence.cpu_use if row.claim == claim]
    own = view.level([row for row in evidence.bandwidth if row.claim == claim], 0)
    assert own is not None
    assert own.usage_ns is not None
    assert own.bpf_usage_ns is not None
    lag_ns = sum(row.arrival_lag_ns - row.departure_lag_ns for row in rows)
    return own.usage_ns - own.bpf_usage_ns - lag_ns, cpu_time_tolerance_ns(evidence, rows, 0)


def watched(ledger: Ledger, mover: Path, *, busy: bool) -> Evidence:
    """Return what was seen of a claim that naps ten thousand times, and of one that spins there, if it shall."""
    with ExitStack() as stack:
        stack.enter_context(elsewhere())
        homes = {name: stack.enter_context(cgroup(f"pinproof-{name}-{os.getpid()}")) for name in ("naps", "spins")}
        observer = stack.enter_context(observing(ClaimSet(claims=()), ledger=ledger))
        for name, home in homes.items():
            observer.add_claim(Claim(name=name, cgroup=home, cpus=CpuSet.of([CPU])))
        words = f"pin {CPU} put {procs(homes['naps'])} 0 ready times {NAPS} {{ nap 100 burn 20 }} tell"
        run = stack.enter_context(Mover(mover, words))
        if busy:
            hog = subprocess.Popen([mover, *f"pin {CPU} put {procs(homes['spins'])} 0 forever".split()])
            stack.callback(hog.wait)
            stack.callback(hog.kill)
        observer.open_window()
        run.go()
        run.account()
        evidence = observer.close_window()
        run.end()
    return evidence


@pytest.mark.parametrize("busy", [False, True], ids=["idle CPU", "busy CPU"])
def test_what_a_wake_up_costs_is_measured(ledger: Ledger, mover: Path, busy: bool) -> None:
    """Of a task that naps the cgroup has more than it ran, of one that spins there less: both are explained."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        evidence = watched(ledger, mover, busy=busy)
        rows = [row for row in evidence.cpu_use if row.claim == "naps"]
        more_ns, slack_ns = unexplained_ns(evidence, "naps")
        # On a jammed host the two accounts are read far apart: then nothing can be shown.
        if wakes_ns(evidence, rows) > slack_ns:
            break
        nothing = f"no window of {DEADLINE_S:.0f} s could show anything: {rows}, slack {slack_ns / 1e6:.1f} ms"
        assert time.monotonic() < deadline, nothing
    assert sum(row.switches for row in rows) > NAPS * 3 // 4
    assert abs(more_ns) < slack_ns, rows
    if busy:
        more_ns, slack_ns = unexplained_ns(evidence, "spins")
        assert abs(more_ns) < slack_ns, evidence.cpu_use


def test_a_kernel_that_keeps_no_arrivals_is_judged_all_the_same(mover: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CONFIG_SCHED_INFO nothing is known of a lag: the programs load, and count what ran where."""
    monkeypatch.setattr(kernel_structs, "ARRIVAL", {"task_struct": ("no_such_member",)})
    with cgroup(f"pinproof-plain-{os.getpid()}") as home, observing(ClaimSet(claims=())) as observer:
        observer.add_claim(Claim(name="db", cgroup=home, cpus=CpuSet.of([CPU])))
        with Mover(mover, f"pin {CPU} put {procs(home)} 0 ready times 200 {{ nap 100 burn 20 }} tell") as run:
            observer.open_window()
            run.go()
            run.account()
            evidence = observer.close_window()
            run.end()
    (row,) = [row for row in evidence.cpu_use if row.claim == "db"]
    assert row.switches >= 150
    assert row.run_ns > 200 * 20_000
    assert row.arrival_lag_ns == row.departure_lag_ns == 0
