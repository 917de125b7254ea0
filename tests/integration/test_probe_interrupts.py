"""The interrupt ledger against the kernel's own counts, and its time against a handler's that is known."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from probes.interrupts.decoder import SOFTIRQS
from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.perf_account import HiddenThreads
from tests.integration.probe_lab import switch_storm
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.interrupts import IrqKind

pytestmark = pytest.mark.integration

ONLINE = sorted(os.sched_getaffinity(0))
LAST = ONLINE[-1]


CALLS = (IrqKind.HARD, "call_function_single")
"""The kernel's CAL counts calls to one CPU and to many, together."""
Counts = dict[tuple[IrqKind, str], int]


def kernel_counts() -> Counts:
    """Read what the kernel counted on the last CPU: softirqs by name, local timer and rescheduling interrupts."""
    counts = {}
    column = [int(name[3:]) for name in Path("/proc/softirqs").read_text().split("\n")[0].split()].index(LAST)
    for line in Path("/proc/softirqs").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        counts[(IrqKind.SOFT, name.strip())] = int(rest.split()[column])
    names = {"LOC": "local_timer", "RES": "reschedule", "CAL": "call_function_single"}
    lines = Path("/proc/interrupts").read_text().splitlines()
    column = [int(name[3:]) for name in lines[0].split()].index(LAST)
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        if name.strip() in names:
            counts[(IrqKind.HARD, names[name.strip()])] = int(rest.split()[column])
    return counts


def by_source(evidence: Evidence) -> Counts:
    """Return the ledger's counts on the last CPU."""
    assert evidence.irq_use is not None
    return {(row.kind, row.name): row.count for row in evidence.irq_use if row.cpu == LAST}


def test_counts_are_the_kernels_own(ledger: Ledger) -> None:
    """23 timed wake-ups and a switch storm: every source's count lies between the kernel's counts around the window.

    A kernel that hides threads from its tracepoints hides the interrupts that hit them: as many may be missing as the
    coverage says.
    """
    with observing(ClaimSet(claims=(), reserved_cpus=CpuSet.of([LAST])), ledger=ledger) as observer:
        outer_first = kernel_counts()
        observer.open_window()
        inner_first = kernel_counts()
        subprocess.run(
            ["taskset", "-c", str(LAST), "python3", "-c", "import time\nfor _ in range(23): time.sleep(0.002)"],
            check=True,
        )
        inner_last = kernel_counts()
        evidence = observer.close_window()
        outer_last = kernel_counts()
    found, coverage = by_source(evidence), evidence.coverage
    hidden = any("hides threads" in spot for spot in coverage.blind_spots)
    # PREEMPT_RT runs softirqs as tasks, which can be preempted: their time is the tasks' time, and that is told.
    softirqs = "PREEMPT_RT" not in os.uname().version
    assert softirqs != any("softirqs as tasks" in spot for spot in coverage.blind_spots)
    for source in (one for one in inner_first if one != CALLS and (softirqs or one[0] is IrqKind.HARD)):
        least, most = inner_last[source] - inner_first[source], outer_last[source] - outer_first[source]
        slack = max(3, most // 20) if hidden else 0
        if source[0] is IrqKind.SOFT:  # where no switch to such a thread was in the window
            slack = max(slack, coverage.softirqs_kernel - coverage.softirqs_judged)
        assert least - slack <= found.get(source, 0) <= most, source
    assert found[(IrqKind.HARD, "local_timer")] >= 23
    assert {name for kind, name in found if kind is IrqKind.SOFT} <= set(SOFTIRQS if softirqs else ())
    assert {row.cpu for row in evidence.irq_use or ()} == {LAST}, "only the watched CPU"
    assert (coverage.lost_events, coverage.map_full, coverage.missed_runs) == (0, 0, 0)
    assert coverage.softirqs_judged == sum(count for (kind, _), count in found.items() if kind is IrqKind.SOFT)
    assert coverage.softirqs_kernel - coverage.softirqs_judged <= coverage.softirqs_skew + (
        coverage.softirqs_kernel // 20 + 3 if hidden else 0
    )


def test_known_number_of_function_calls_to_one_cpu(ledger: Ledger) -> None:
    """Calls sent to a CPU by interrupt are in the window in which they were sent, not in the one before.

    The truth is the kernel's count: a CPU that polls in its idle loop is called without an interrupt.
    """
    if len(ONLINE) < 2:
        pytest.skip("a call to another CPU needs two CPUs")
    os.sched_setaffinity(0, {ONLINE[0]})  # a call to one's own CPU needs no interrupt
    try:
        with observing(ClaimSet(claims=(), reserved_cpus=CpuSet.of([LAST])), ledger=ledger) as observer:
            calls, least, most = [], [], []
            for count in (0, 2300):
                hidden, outer = HiddenThreads(), kernel_counts()[CALLS]
                observer.open_window()
                inner = kernel_counts()[CALLS]
                for _ in range(count):
                    observer.ledger.split(CpuSet.of([LAST]))
                least.append(kernel_counts()[CALLS] - inner)
                evidence = observer.close_window()
                most.append(kernel_counts()[CALLS] - outer)
                seen = by_source(evidence)
                calls.append(seen.get(CALLS, 0) + seen.get((IrqKind.HARD, "call_function"), 0))
                hidden_ns = hidden.read(observer.ledger.seen).run_ns
    finally:
        os.sched_setaffinity(0, ONLINE)
    # Threads that a kernel hides from its tracepoints (the build machine's does) hide the interrupts that hit them: of
    # calls that come evenly, their part of the time. They come slower or faster by a factor of two, at most.
    slack = most[1] * min(1.0, 2 * hidden_ns / evidence.duration_ns)
    assert least[0] < 1150 < least[1], "most of the calls were interrupts"
    assert least[1] - slack <= calls[1] <= most[1]
    assert calls[0] <= most[0]


def test_time_is_given_once(planter: Path, ledger: Ledger) -> None:
    """Interrupt time of a CPU never exceeds the window; each source's longest is within its sum."""
    with observing(ClaimSet(claims=(), reserved_cpus=CpuSet.of([LAST])), ledger=ledger) as observer:
        observer.open_window()
        switch_storm(planter, LAST, 5000)
        evidence = observer.close_window()
    rows = evidence.irq_use
    assert rows
    assert 0 < sum(row.ns for row in rows) < evidence.duration_ns
    for row in rows:
        assert row.ns / row.count <= row.longest_ns <= row.ns < evidence.duration_ns
    assert evidence.steal_by_cpu_ns is not None
    assert set(evidence.steal_by_cpu_ns) == set(evidence.coverage.cpus_online)


def test_nothing_is_attached_where_no_cpu_is_watched(ledger: Ledger) -> None:
    """Without exclusive or reserved CPUs interrupts are not observed, and the evidence says so by ``None``."""
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        evidence = observer.close_window()
    assert evidence.irq_use is None
    assert evidence.coverage.softirqs_kernel == 0
