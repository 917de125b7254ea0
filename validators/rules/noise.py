"""Rule ``noise``: what took time on each exclusive CPU besides its owner, by class, against a budget.

Two bounds. Interrupts and steal fall into the interval of whatever task runs, the owner's or an intruder's, so the time
lost is at least the greatest of the three sums (tasks, interrupts, steal), and at most their total. A CPU that took no
timer interrupt may have been in firmware (an SMI), which nothing else reports, or in a long section of the owner's own
with interrupts off: that time counts for the upper bound only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.held import Span
from toolkit.model.interrupts import IrqKind, IrqUse
from toolkit.model.measures import Better, Kind, amounts, gated, levels, words
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from validators.intruders import ownership, placing
from validators.intruders.disturbers import MEASURES, Disturber, disturbers
from validators.placement import groups
from validators.queries import view
from validators.rule import Judgement, Rule, RuleDoc, needs_switches, prose
from validators.witness import Witness
from validators.wording import digits

ID = "noise"
_LONGEST = {name: f"{name.removesuffix('_ns')}_longest_ns" for name in MEASURES}
"""Measure of a class of owners -> that of its longest single stay."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every CPU that is exclusive, or was at some time of the window."""
    owned = _owned(claims, evidence)
    cpus = claims.exclusive_cpus | CpuSet.of(
        cpu for cpu, spans in owned.items() if placing.inside_ns(spans, 0, evidence.duration_ns)
    )
    if not cpus:
        reason = "no CPU is exclusive"
        return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)
    return tuple(_judge(cpu, owned.get(cpu, ()), claims, evidence) for cpu in cpus)


def _owned(claims: ClaimSet, evidence: Evidence) -> dict[int, tuple[Span, ...]]:
    """Return when each CPU was any owner's own."""
    found: dict[int, list[tuple[Span, ...]]] = {}
    for claim in claims.claims:
        for cpu, spans in ownership.owned(claims, claim, evidence.transitions).spans.items():
            found.setdefault(cpu, []).append(spans)
    return {cpu: placing.union(every) for cpu, every in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """Time that a CPU's owner lost (ns)."""

    counted: tuple[Disturber, ...]
    """What of the tasks that count may have been the owner's time."""
    irqs: tuple[IrqUse, ...]
    steal: int
    standstill: int
    elsewhen: int = 0
    """What of ``counted`` may have been spent when the CPU was no claim's own."""
    not_owned: int = 0
    """For how long it was no claim's: the machine's own counters go on."""
    reserved: bool = False
    """Whether interrupts are recorded then, too."""

    @property
    def tasks(self) -> int:
        """Of tasks that count."""
        return sum(row.stay.total_ns for row in self.counted)

    @property
    def interrupts(self) -> int:
        """Of interrupts."""
        return sum(row.ns for row in self.irqs)

    @property
    def low(self) -> int:
        """What was lost at least."""
        interrupts = self.interrupts - (self.not_owned if self.reserved else 0)
        return max(self.tasks - self.elsewhen, interrupts, self.steal - self.not_owned)

    @property
    def high(self) -> int:
        """What was lost at most."""
        return self.tasks + self.interrupts + max(self.steal, self.standstill)


def _lost(cpu: int, spans: Sequence[Span], claims: ClaimSet, evidence: Evidence) -> _Lost:
    """Return what a CPU's owner lost while it had one.

    Tasks and interrupts are recorded on exclusive CPUs while they are that, and on reserved ones; helpers everywhere.
    What a task ran that came in that time was spent in it, if it can have been.
    """
    end_ns, reserved = evidence.duration_ns, cpu in claims.reserved_cpus
    not_owned = placing.outside_ns(spans, 0, end_ns)
    counted: list[Disturber] = []
    elsewhen = 0
    for row in disturbers(claims, evidence).get(cpu, ()):
        since_ns, total_ns = row.since_ns or 0, row.stay.total_ns
        room_ns = placing.inside_ns(spans, max(0, since_ns), end_ns)
        dated = row.since_ns is not None and not reserved
        came = dated and any(begin <= since_ns < end for begin, end in spans)
        if not not_owned or (came and total_ns <= room_ns):
            counted.append(row)
        elif room_ns:
            least_ns = max(0, total_ns - placing.outside_ns(spans, since_ns, end_ns))
            most_ns = min(total_ns, room_ns)
            counted.append(replace(row, stay=replace(row.stay, total_ns=most_ns)))
            elsewhen += most_ns - least_ns
    return _Lost(
        counted=tuple(counted),
        irqs=tuple(row for row in evidence.irq_use or () if row.cpu == cpu),
        steal=(evidence.steal_by_cpu_ns or {}).get(cpu, 0),
        standstill=(evidence.standstill_by_cpu_ns or {}).get(cpu, 0),
        elsewhen=elsewhen,
        not_owned=not_owned,
        reserved=reserved,
    )


def _judge(cpu: int, spans: Sequence[Span], claims: ClaimSet, evidence: Evidence) -> Verdict:
    lost = _lost(cpu, spans, claims, evidence)
    budget = claims.noise_budget_ns_per_s
    owned_ns = placing.inside_ns(spans, 0, evidence.duration_ns)
    seconds = owned_ns / view.NANOSECONDS
    measures = _measures(cpu, lost, budget, seconds, evidence)
    offenders: list[Offender] = []
    verdict = Judgement(ID, f"cpu {cpu}", measures, offenders)
    guest = groups.virtual(evidence)
    if guest:
        return verdict(Outcome.SKIPPED, f"{groups.VIRTUAL_MACHINE} ({guest}): its noise is not the hardware's")
    shown = f"{lost.tasks / 1e6:.3f} ms of tasks{_longest(lost)}, {_shown(lost.interrupts, evidence)}"
    if lost.standstill:
        shown += f", {lost.standstill / 1e6:.3f} ms without a timer interrupt"
    if evidence.coverage.switches_judged <= 0 or seconds <= 0:
        return verdict(Outcome.UNDECIDED, "no switch was judged: there is no evidence")
    length = f"{digits(seconds)} s"
    if lost.not_owned:
        measures["exclusive_ns"] = owned_ns
        length = f"the {length} of {digits(evidence.duration_ns / view.NANOSECONDS)} s in which it was exclusive"
    if budget is None:
        return verdict(Outcome.PASSED, f"{shown} in {length} (measured only: no budget was set)")
    allowed = budget * seconds
    # A CPU that was exclusive for a moment only may have had a whole second's noise in it.
    if lost.low > (budget * max(seconds, 1.0) if lost.not_owned else allowed):
        offenders += [row.stay for row in lost.counted]
        return verdict(Outcome.FAILED, f"{shown} in {length}, the budget is {budget} ns a second")
    if evidence.irq_use is None:
        return verdict(Outcome.UNDECIDED, "interrupts were not observed: only tasks are known to be within the budget")
    if cpu in evidence.coverage.cpus_unsampled:
        return verdict(Outcome.UNDECIDED, "it carries no sampler: time in firmware is not known there")
    unread = _unread(cpu, evidence)
    if unread:
        return verdict(Outcome.UNDECIDED, f"{unread} of the CPU was not read: only the rest is known to be within")
    if lost.high > allowed:
        unless = "the CPU was its owner's when it stood still" if lost.standstill else "interrupts hit foreign tasks"
        if lost.not_owned:
            unless = f"not all of it was in {length}, or the budget of a second is used up in less"
        return verdict(Outcome.UNDECIDED, f"{shown}: within the budget only if {unless}")
    return verdict(Outcome.PASSED, f"{shown} in {length}, the budget is {budget} ns a second")


def _unread(cpu: int, evidence: Evidence) -> str:
    """Return what is not known of a CPU's own time; the time without a timer interrupt is that of its sampler."""
    if cpu not in (evidence.steal_by_cpu_ns or {}):
        return "the steal"
    return "" if cpu in (evidence.standstill_by_cpu_ns or {}) else "the time without a timer interrupt"


def _measures(cpu: int, lost: _Lost, budget: int | None, seconds: float, evidence: Evidence) -> dict[str, Measure]:
    measures: dict[str, Measure] = {
        name: sum(row.stay.total_ns for row in lost.counted if row.measure == name) for name in MEASURES
    }
    own = [row for row in evidence.intruders if row.cpu == cpu and row.owner is OwnerClass.TOOLKIT]
    measures |= _longest_by_class(lost)
    measures["toolkit_ns"] = sum(row.total_ns for row in own)
    if own:
        measures["toolkit_longest_ns"] = max(row.longest_ns for row in own)
    measures["irqs_observed"] = evidence.irq_use is not None
    for kind, name in ((IrqKind.HARD, "irq"), (IrqKind.SOFT, "softirq")):
        if evidence.irq_use is not None:
            measures[f"{name}_ns"] = sum(row.ns for row in lost.irqs if row.kind is kind)
            measures[f"{name}_count"] = sum(row.count for row in lost.irqs if row.kind is kind)
    if lost.irqs:
        worst = max(lost.irqs, key=lambda row: (row.ns, row.name, row.vector))
        measures["worst_irq"] = f"{worst.name} ({worst.kind} {worst.vector})"
    if evidence.steal_by_cpu_ns is not None:
        measures["steal_ns"] = lost.steal
    if evidence.standstill_by_cpu_ns is not None:
        measures["standstill_ns"] = lost.standstill
    measures["noise_low_ns_per_s"] = lost.low / seconds if seconds > 0 else 0.0
    measures["noise_high_ns_per_s"] = lost.high / seconds if seconds > 0 else 0.0
    if budget is not None:
        measures["budget_ns_per_s"] = budget
    return measures


def _longest_by_class(lost: _Lost) -> dict[str, int]:
    """Return the longest single stay of each class of owners."""
    found: dict[str, int] = {}
    for row in lost.counted:
        if row.stay.longest_ns:
            name = _LONGEST[row.measure]
            found[name] = max(found.get(name, 0), row.stay.longest_ns)
    return found


def _longest(lost: _Lost) -> str:
    """Name the longest single stay of a task."""
    worst = max(lost.counted, key=lambda row: row.stay.longest_ns, default=None)
    if worst is None or not worst.stay.longest_ns:
        return ""
    return f" (at most {worst.stay.longest_ns / 1e6:.3f} ms at a time, {worst.stay.comm} {worst.stay.claim})"


def _shown(interrupts_ns: int, evidence: Evidence) -> str:
    if evidence.irq_use is None:
        return "interrupts not observed"
    return f"{interrupts_ns / 1e6:.3f} ms of interrupts"


def spared(claims: ClaimSet) -> frozenset[Witness]:
    """Without a budget it is measured only: system-tasks and interrupts that were not seen break no promise."""
    if claims.noise_budget_ns_per_s is not None:
        return frozenset()
    return frozenset({Witness.SYSTEM_TASKS, Witness.INTERRUPTS})


RULE = Rule(
    RuleDoc(
        id=ID,
        claim=prose("""
            System tasks, kernel threads, runtime helpers, interrupts and the hypervisor keep to a budget on each
            exclusive CPU.
        """),
        how=prose("""
            Every switch on an exclusive CPU is attributed. The time of system tasks, kernel threads, per-CPU kernel
            threads, pause sandboxes and runtime helpers (of every pod: exclusive-cpus does not fail for them), and
            tasks of unknown owner is summed; hard and soft interrupts by source, and the steal of this CPU, are added
            where they were observed. pinproof's own tasks are reported apart and not counted.

            The time lost is at least the greatest of tasks, interrupts and steal, and at most their sum (an interrupt
            may hit a foreign task). In that sum steal is at least the time for which the CPU took no timer interrupt
            (firmware, an SMI). Above noiseBudgetNsPerS by the lower bound is a failure; within it by the upper bound
            passes; between them, or where interrupts, steal or that time were not observed, the verdict is undecided.

            A CPU that was exclusive for a part of the window is judged for that part, against that part's budget. Noise
            that may belong to another part neither fails nor passes. A part shorter than a second that uses up a whole
            second's budget is undecided. Without a budget noise is measured only. Skipped in a virtual machine.
        """),
        tolerance=prose("""
            None besides the two bounds; a budget of 0 allows nothing.
        """),
        source=prose("""
            Documentation/trace/osnoise-tracer.rst (the classes); docs/failures.md F50, F52, F54, docs/facts.md K13,
            K29, docs/principles.md
        """),
        negative_control=prose("""
            Bind a busy system task, or a device's interrupt, to the CPU: `taskset -c 2 stress-ng --cpu 1`.
        """),
        witnesses=(Witness.SWITCHES, Witness.SYSTEM_TASKS, Witness.INTERRUPTS),
        measures=(
            *gated("noise_high_ns_per_s", Kind.LEVEL, Better.LESS, relative=0.5, absolute=200_000),
            *levels("noise_low_ns_per_s", better=Better.LESS),
            *amounts(*MEASURES, "toolkit_ns", "irq_ns", "irq_count", "softirq_ns", "softirq_count", better=Better.LESS),
            *levels(*_LONGEST.values(), "toolkit_longest_ns", better=Better.LESS),
            *amounts("steal_ns", "standstill_ns", better=Better.LESS),
            *amounts("exclusive_ns"),
            *words("irqs_observed", "worst_irq", "budget_ns_per_s"),
        ),
    ),
    check,
    spared=spared,
    needs=needs_switches,
    of_node=True,
)
