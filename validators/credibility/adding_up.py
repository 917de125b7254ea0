"""Sums that must come out, whatever counted: what ran on one CPU, and details beside the row that they are details of.

Source: docs/principles.md; one CPU runs one task at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence
from toolkit.model.interrupts import IrqKind
from validators.credibility.bounds import beyond, longest_ns
from validators.queries import view


def problems(evidence: Evidence) -> Iterator[str]:
    """Yield which sums cannot be, in a fixed order."""
    yield from _per_cpu(evidence)
    yield from _seen(evidence)
    yield from _switches(evidence)
    yield from _details(evidence)
    yield from _softirqs(evidence)
    yield from _twice(evidence)


def _per_cpu(evidence: Evidence) -> Iterator[str]:
    """Each interval is in one row: of the claim nearest above its task, or of the task that has none.

    A row that is too long by itself is named; the sum that it spoils is not another problem.
    """
    most_ns = longest_ns(evidence)
    alone = sorted((row.claim, row.cpu, row.run_ns) for row in evidence.cpu_use if row.run_ns > most_ns)
    for claim, cpu, ns in alone:
        yield f"{claim} ran {ns} ns on CPU {cpu} in a window of {evidence.duration_ns} ns"
    spent: Counter[int] = Counter()
    for row in evidence.cpu_use:
        spent[row.cpu] += row.run_ns
    for task in evidence.intruders:
        spent[task.cpu] += task.total_ns
    handled: Counter[int] = Counter()
    for irq in evidence.irq_use or ():
        handled[irq.cpu] += irq.ns
    for _, cpu, _ in alone:
        del spent[cpu]
    for what, times in (("tasks ran", spent), ("interrupts took", handled)):
        for cpu, ns in sorted(times.items()):
            if ns > most_ns:
                yield f"{what} {ns} ns on CPU {cpu} in a window of {evidence.duration_ns} ns"


def _seen(evidence: Evidence) -> Iterator[str]:
    """Nothing runs on a CPU that was never online. (One that was, and was never seen, is a doubt.)"""
    ran = {row.cpu for row in evidence.cpu_use if row.switches or row.run_ns or row.samples}
    somewhere = CpuSet.of(ran | {task.cpu for task in evidence.intruders}) | evidence.coverage.cpus_seen
    absent = somewhere - view.online(evidence) - CpuSet.of(event.cpu for event in evidence.hotplug)
    if absent and view.online(evidence):
        yield f"tasks ran on {cpus_text(absent)}, which the machine does not have"


def _switches(evidence: Evidence) -> Iterator[str]:
    """A switch ends one interval, which is one claim's at most. (Of tasks without a claim moves are counted, too.)"""
    counted = sum(row.switches for row in evidence.cpu_use)
    judged = evidence.coverage.switches_judged
    if counted > judged + view.kernel_switches(evidence.coverage)[1] and judged > 0:
        yield f"{counted} switches of claims in {judged} that were judged"


def _details(evidence: Evidence) -> Iterator[str]:
    """Offenders are named of what the ledger counted outside."""
    counted: Counter[tuple[str, int]] = Counter()
    for row in evidence.cpu_use:
        counted[row.claim, row.cpu] += row.out_of_set_ns  # a container that restarts has a row for each life
    named: Counter[tuple[str, int]] = Counter()
    for one in evidence.offenders:
        named[one.claim, one.cpu] += one.total_ns
    for (claim, cpu), ns in sorted(named.items()):
        if beyond(ns, counted[claim, cpu]):
            yield f"{claim} on CPU {cpu}: named tasks were outside for {ns} ns, more than were counted"


def _softirqs(evidence: Evidence) -> Iterator[str]:
    """The rows are what was judged; of CPUs that came or went, rows are there and no sum."""
    counted = sum(irq.count for irq in evidence.irq_use or () if irq.kind is IrqKind.SOFT)
    if evidence.irq_use is not None and evidence.coverage.softirqs_judged > counted:
        yield f"{evidence.coverage.softirqs_judged} softirqs judged, {counted} by source"


def _twice(evidence: Evidence) -> Iterator[str]:
    """What is read of one cgroup at one moment is one reading; of two it would depend on chance which is judged."""
    levels = Counter((row.claim, row.level) for row in evidence.bandwidth)
    yield from (
        f"{claim}: the counters of level {level} twice" for (claim, level), n in sorted(levels.items()) if n > 1
    )
    for when, files in (("before", evidence.files_before), ("after", evidence.files_after)):
        twice = (cgroup for cgroup, entries in view.files_by_cgroup(files).items() if len(entries) > 1)
        yield from (f"the files of {cgroup} twice {when} the window" for cgroup in sorted(twice))
