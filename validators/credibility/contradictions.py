"""Evidence that cannot have come from a machine: parts greater than their whole, more CPU time than there was.

Such evidence is not incomplete but false (a torn file, a wrong build, a hand that helped), so ``evidence-health`` comes
out ``failed`` by it. Only arithmetic; no thresholds that a busy host could cross. Rows by themselves are judged here,
rows beside each other in :mod:`validators.credibility.adding_up`.

Only parts are compared with their whole, counted at the same place by the same rule. Not compared: how often a claim
was outside with how often its tasks were switched out. A stay outside is counted when it is seen, also by the sampler
or where its task was moved into the claim and out again in the middle of an interval; a switch is counted where an
interval ends, for the claim that the task has then. Nor the longest stay with the sum of stays: one that was cut by a
move goes back to when the task came, also into the window before. Two witnesses of one quantity are a matter of
:mod:`validators.credibility.agreement`: they may differ, and which is wrong is not proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from toolkit.model.evidence import BandwidthUse, Canary, CpuUse, Evidence
from toolkit.model.evidence.masks import of_each
from toolkit.model.verdict import Offender
from validators.credibility import adding_up
from validators.credibility.bounds import CLOCK_SLACK_NS, CLOCK_SLACK_RATIO, beyond, longest_ns
from validators.queries import view
from validators.queries.memo import memoised

UNDERWAY_PERIODS = 2
"""``cpu.stat`` is printed without a lock: at each end of the window a period may be in one of the two counters only."""
SAMPLES_RATIO, SAMPLES_SLACK = 2.0, 10
"""The sampler's period is fixed: twice as many samples as fit into the time cannot be."""
LATENCY_MS = 0.1
"""The two numbers are of the same two moments."""


@memoised
def contradictions(evidence: Evidence) -> tuple[str, ...]:
    """Return what cannot be true, in a fixed order."""
    found = [
        *_ledger(evidence),
        *_cgroups(evidence),
        *_pressure(evidence),
        *_others(evidence),
        *_threads(evidence),
        *_memory(evidence),
        *chain.from_iterable(map(_canary, sorted(evidence.canaries, key=lambda one: (one.positive, one.cpu)))),
        *_node(evidence),
        *adding_up.problems(evidence),
    ]
    return tuple(dict.fromkeys(found))


def _negative(*counters: int | None) -> bool:
    return min(filter(None, counters), default=0) < 0


def _ledger(evidence: Evidence) -> Iterator[str]:
    for row in sorted(evidence.cpu_use, key=lambda row: (row.claim, row.cpu)):
        problem = _row(row, evidence)
        if problem:
            yield f"{row.claim} on CPU {row.cpu}: {problem}"
    for one in sorted(evidence.offenders, key=lambda one: (one.claim, one.cpu, one.tid, one.first_at_ns)):
        problem = _stay(one)
        if problem:
            yield f"{one.comm} ({one.tid}) of {one.claim} on CPU {one.cpu}: {problem}"
    yield from _joinings(evidence)
    slots = (entry for entry in evidence.usage_bins if entry.length_ns < 0 or entry.usage_ns < 0)
    for entry in sorted(slots, key=lambda entry: (entry.claim, entry.start_at_ns)):
        yield f"{entry.claim}: a slot of {entry.length_ns} ns with {entry.usage_ns} ns of CPU time"


def _joinings(evidence: Evidence) -> Iterator[str]:
    """What a claim's tasks ran outside while they were joining is a part of what they ran in transition."""
    transition: Counter[str] = Counter()
    for row in evidence.cpu_use:
        transition[row.claim] += row.transition_ns
    for one in sorted(evidence.joinings, key=lambda one: one.claim):
        if _negative(one.count, one.outside_ns, one.slowest_ns):
            yield f"the joinings of {one.claim}: a negative number"
        if beyond(one.outside_ns, transition[one.claim]):
            yield f"{one.claim}: more time outside in joinings than in transition"


def _row(row: CpuUse, evidence: Evidence) -> str:
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
        row.standstill_ns,
        row.cuts,
    )
    hz, most_ns = max(0, evidence.coverage.sampler_hz), longest_ns(evidence)
    false = (
        (_negative(*counters), "a counter is negative"),
        (
            beyond(max(row.out_of_set_ns, row.transition_ns, row.out_of_set_ns + row.transition_ns), row.run_ns),
            "more time outside its set than time",
        ),
        (beyond(row.standstill_ns, row.run_ns), "it ran on a CPU that stood still for longer than it ran"),
        (max(row.arrival_lag_ns, row.departure_lag_ns) > most_ns, "switches later than the window is long"),
        (row.idle_wakes > row.switches, "more wake-ups of an idle CPU than switches"),
        (row.arrival_lag_ns > 0 and not row.switches, "a late arrival without a switch"),
        (row.out_of_set_samples > row.samples, "more samples outside its set than samples"),
        (
            row.samples > hz * most_ns / view.NANOSECONDS * SAMPLES_RATIO + (SAMPLES_SLACK if hz else 0),
            f"{row.samples} samples of a sampler of {evidence.coverage.sampler_hz} Hz",
        ),
    )
    return next((text for wrong, text in false if wrong), "")


def _stay(one: Offender) -> str:
    if _negative(one.total_ns, one.longest_ns, one.switches):
        return "a counter is negative"
    if one.last_at_ns is not None and one.last_at_ns < one.first_at_ns:
        return "it was seen last before it was seen first"
    return ""


def _cgroups(evidence: Evidence) -> Iterator[str]:
    cpus = len(view.online(evidence))
    skew_ns = max(0, evidence.coverage.witness_skew_ns)
    read_ns = longest_ns(evidence) + skew_ns
    late_ns = skew_ns + 2 * view.tick_ns(evidence)

    def problems(level: BandwidthUse) -> Iterator[str]:
        if level.nr_periods is not None and (level.nr_throttled or 0) > level.nr_periods + _underway(evidence, level):
            yield f"{level.cgroup}: {level.nr_throttled} throttled of {level.nr_periods} periods"
        # Not the ledger's own: it is a difference of two sums, and compared with the cgroup's.
        if _negative(
            level.usage_ns,
            level.nr_periods,
            level.nr_throttled,
            level.window_ns,
            level.throttled_ns,
            level.nr_bursts,
            level.burst_ns,
            level.system_ns,
            level.unread_ns,
        ):
            yield f"{level.cgroup}: a counter ran backwards"
        if level.lives < 1:
            yield f"{level.cgroup}: read in {level.lives} lives"
        if level.window_ns > read_ns:
            yield f"{level.cgroup}: read over {level.window_ns} ns in a window of {evidence.duration_ns} ns"
        # Several lives are read with gaps between them, and the ledger counts through these.
        own_ns = level.window_ns + CLOCK_SLACK_NS if level.lives == 1 else read_ns
        for usage_ns, within_ns in ((level.usage_ns or 0, own_ns), (level.bpf_usage_ns or 0, read_ns)):
            most_ns = (within_ns + late_ns) * (1 + CLOCK_SLACK_RATIO)
            if cpus and usage_ns > cpus * most_ns:
                yield f"{level.cgroup}: {usage_ns} ns of CPU time, more than {cpus} CPUs have in {within_ns:.0f} ns"

    found = [(level, texts) for level in _levels(evidence) if (texts := tuple(problems(level)))]
    for _, texts in sorted(found, key=lambda one: (one[0].claim, one[0].level)):
        yield from texts


def _pressure(evidence: Evidence) -> Iterator[str]:
    for row in sorted(evidence.pressure, key=lambda row: row.claim):
        if _negative(row.window_ns, row.some_us, row.full_us, row.skew_ns):
            yield f"the pressure of {row.claim}: a counter ran backwards"
        elif beyond((row.full_us or 0) * 1000, row.some_us * 1000):
            yield f"the pressure of {row.claim}: more full than some"


def _levels(evidence: Evidence) -> Iterator[BandwidthUse]:
    yield from evidence.bandwidth
    yield from (level for use in evidence.ended_use for level in use.levels)


def _underway(evidence: Evidence, level: BandwidthUse) -> int:
    """A timer that is late counts every period that it missed at once: so many more may be in one counter only."""
    period_ns = (level.period_us or 0) * 1000
    stopped_ns = view.stopped_ns(evidence)
    return UNDERWAY_PERIODS + (2 * stopped_ns // period_ns if period_ns > 0 else 0)


def _others(evidence: Evidence) -> Iterator[str]:
    wrong = (one for one in evidence.intruders if _negative(one.total_ns, one.longest_ns, one.switches))
    for one in sorted(wrong, key=lambda one: (one.cpu, one.tid, one.comm, one.first_at_ns)):
        yield f"{one.comm} ({one.tid}) on CPU {one.cpu}: a counter is negative"
    for irq in sorted(evidence.irq_use or (), key=lambda irq: (irq.cpu, irq.kind, irq.vector, irq.name)):
        what = f"interrupt {irq.name} on CPU {irq.cpu}"
        if _negative(irq.ns, irq.count, irq.longest_ns):
            yield f"{what}: a counter is negative"
        elif beyond(irq.longest_ns, irq.ns):
            yield f"{what}: one that took longer than all of them"
        elif irq.ns > 0 and not irq.count:
            yield f"{what}: it took time and never came"


def _threads(evidence: Evidence) -> Iterator[str]:
    never = of_each(mask for mask in evidence.thread_masks if mask.last_at_ns < mask.first_at_ns or mask.times_seen < 1)
    for mask in sorted(never, key=lambda mask: (mask.claim, mask.pid, mask.tid, mask.first_at_ns)):
        yield f"thread {mask.tid} of {mask.claim}: a mask that was read last before it was read first, or never"
    gaps = (gap for gap in evidence.coverage.scan_gaps if _negative(gap.scans, gap.longest_ns, gap.allowed_ns))
    for gap in sorted(gaps, key=lambda gap: gap.claim):
        yield f"readings of the threads of {gap.claim}: a negative number"


def _memory(evidence: Evidence) -> Iterator[str]:
    for reading in sorted(evidence.pages or (), key=lambda reading: reading.claim):
        sizes = (size for page in reading.pages for size in (page.total_bytes, page.process_bytes))
        if _negative(reading.processes, reading.unread, reading.joining, *sizes):
            yield f"the pages of {reading.claim}: a negative number"
    for huge in sorted(evidence.hugetlb or (), key=lambda huge: (huge.claim, huge.page_bytes)):
        if _negative(huge.usage_bytes, huge.failures, *(huge.node_bytes or {}).values()):
            yield f"the huge pages of {huge.claim}: a negative number"


def _canary(one: Canary) -> Iterator[str]:
    """:attr:`Canary.planted_switches` is negative where it ended."""
    kind = "positive control" if one.positive else "clean canary"
    if _negative(one.out_of_set_switches, one.run_ns, one.out_of_set_ns):
        yield f"the {kind}: a counter is negative"
    if beyond(one.out_of_set_ns, one.run_ns):
        yield f"the {kind}: more time outside its set than time"


def _node(evidence: Evidence) -> Iterator[str]:
    coverage = evidence.coverage
    counts = (
        coverage.switches_judged,
        coverage.switches_kernel,
        coverage.lost_events,
        coverage.map_full,
        coverage.missed_runs,
        coverage.proc_scans,
        coverage.sampler_hz,
        coverage.file_readings,
        coverage.file_gap_ns,
        coverage.file_unwatched_ns,
        coverage.softirqs_judged,
        coverage.softirqs_kernel,
        coverage.cgroup_moves_dropped,
        coverage.leaves_dropped,
        coverage.affinity_changes_dropped,
        coverage.control_writes_dropped,
    )
    if _negative(*counts):
        yield "a coverage counter is negative"
    if _negative(evidence.environment.hz, evidence.environment.bandwidth_slice_us, evidence.environment.idle_exit_us):
        yield "a property of the machine is negative"
    for cpu, stood_ns in sorted((evidence.standstill_by_cpu_ns or {}).items()):
        if not 0 <= stood_ns <= longest_ns(evidence):
            yield f"CPU {cpu} stood still for {stood_ns} ns in a window of {evidence.duration_ns} ns"
    latencies = [
        one.reported_at_ns - one.planted_at_ns
        for one in evidence.canaries
        if one.positive and one.reported_at_ns is not None
    ]
    stated_ms = coverage.positive_control_latency_ms
    if stated_ms is not None and latencies and abs(stated_ms - max(latencies) / 1e6) > LATENCY_MS:
        yield f"the planted escape was seen after {max(latencies) / 1e6:.1f} ms, and after {stated_ms:.1f} ms"
