"""Evidence that cannot have come from a machine: parts greater than their whole, more CPU time than there was.

Such evidence is not incomplete but false (a torn file, a wrong build, a hand that helped), so ``evidence-health`` comes
out ``failed`` by it. Only arithmetic; no thresholds that a busy host could cross.

Only parts are compared with their whole, counted at the same place by the same rule. Not compared: how often a claim
was outside with how often its tasks were switched out. A stay outside is counted when it is seen, also by the sampler
or where its task was moved into the claim and out again in the middle of an interval; a switch is counted where an
interval ends, for the claim that the task has then. Two witnesses of one quantity are a matter of
:mod:`validators.credibility.agreement`: they may differ, and which is wrong is not proved.
"""

from __future__ import annotations

from toolkit.model.evidence import BandwidthUse, CpuUse, Evidence
from validators.queries import view

CLOCK_SLACK_RATIO = 0.01
CLOCK_SLACK_NS = 20_000_000
"""A row's window is the observation's give or take the reading of its maps: 1 % and 20 ms; to it comes how long it took
to end the window on all CPUs, as measured (a jammed host needs hundreds of milliseconds)."""
UNDERWAY_PERIODS = 2
"""``cpu.stat`` is printed without a lock: at each end of the window a period may be in one of the two counters only."""


def contradictions(evidence: Evidence) -> tuple[str, ...]:
    """Return what cannot be true, in a fixed order."""
    longest = evidence.duration_ns * (1 + CLOCK_SLACK_RATIO) + CLOCK_SLACK_NS + evidence.coverage.window_skew_ns
    found = []
    for row in sorted(evidence.cpu_use, key=lambda row: (row.claim, row.cpu)):
        problem = _row(row)
        if problem:
            found.append(f"{row.claim} on CPU {row.cpu}: {problem}")
        elif row.run_ns > longest:
            found.append(f"{row.claim} ran {row.run_ns} ns on CPU {row.cpu} in a window of {evidence.duration_ns} ns")
    for level in sorted(evidence.bandwidth, key=lambda level: (level.claim, level.level)):
        if level.nr_periods is not None and (level.nr_throttled or 0) > level.nr_periods + _underway(evidence, level):
            found.append(f"{level.cgroup}: {level.nr_throttled} throttled of {level.nr_periods} periods")
        if min(level.usage_ns or 0, level.nr_periods or 0, level.nr_throttled or 0, level.window_ns) < 0:
            found.append(f"{level.cgroup}: a counter ran backwards")
    found += [
        f"{one.comm} ({one.tid}) on CPU {one.cpu}: a counter is negative"
        for one in evidence.intruders
        if min(one.total_ns, one.longest_ns, one.switches) < 0
    ]
    found += [
        f"interrupt {irq.name} on CPU {irq.cpu}: a counter is negative"
        for irq in evidence.irq_use or ()
        if min(irq.ns, irq.count, irq.longest_ns) < 0
    ]
    coverage = evidence.coverage
    counts = (
        coverage.switches_judged,
        coverage.switches_kernel,
        coverage.lost_events,
        coverage.map_full,
        coverage.missed_runs,
    )
    if min(counts) < 0:
        found.append("a coverage counter is negative")
    return tuple(found)


def _underway(evidence: Evidence, level: BandwidthUse) -> int:
    """A timer that is late counts every period that it missed at once: so many more may be in one counter only."""
    period_ns = (level.period_us or 0) * 1000
    stopped_ns = view.stopped_ns(evidence)
    return UNDERWAY_PERIODS + (2 * stopped_ns // period_ns if period_ns > 0 else 0)


def _row(row: CpuUse) -> str:
    counters = (
        row.switches,
        row.run_ns,
        row.idle_wakes,
        row.arrival_lag_ns,
        row.departure_lag_ns,
        row.out_of_set_switches,
        row.out_of_set_ns,
        row.out_of_set_longest_ns,
        row.transition_switches,
        row.transition_ns,
        row.samples,
        row.out_of_set_samples,
    )
    if min(counters) < 0:
        return "a counter is negative"
    if max(row.out_of_set_ns, row.transition_ns) > row.run_ns * (1 + CLOCK_SLACK_RATIO) + CLOCK_SLACK_NS:
        return "more time outside its set than time"
    if row.idle_wakes > row.switches:
        return "more wake-ups of an idle CPU than switches"
    if row.arrival_lag_ns and not row.switches:
        return "a late arrival without a switch"
    if row.out_of_set_samples > row.samples:
        return "more samples outside its set than samples"
    return ""
