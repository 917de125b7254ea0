"""From the interrupt ledger's records to its part of the evidence: pure.

Source: include/trace/events/irq.h; arch/x86/include/asm/irq_vectors.h (vector numbers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from probes.interrupts.records import IRQ_DEVICE, IRQ_SOFT, IrqKey, IrqSums
from probes.readings import Part, Reading, Readings
from probes.records import comm
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence.interrupts import InterruptCoverage, InterruptEvidence
from toolkit.model.interrupts import IrqKind, IrqUse

SOFTIRQS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
VECTORS = {
    0xEC: "local_timer",
    0xF4: "deferred_error_apic",
    0xF6: "irq_work",
    0xF7: "x86_platform_ipi",
    0xF9: "threshold_apic",
    0xFA: "thermal_apic",
    0xFB: "call_function_single",
    0xFC: "call_function",
    0xFD: "reschedule",
    0xFE: "error_apic",
    0xFF: "spurious_apic",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftirqCounts:
    """The kernel's own counts by CPU, on both sides of the ledger's moment; empty where nothing asks."""

    before: Mapping[int, int] = field(default_factory=dict)
    after: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptReading(Reading):
    """The interrupts of one window.

    :param rows: records by source and CPU; ``None`` where not everything could be observed.
    :param cpus: the watched CPUs.
    :param blind_spots, accounted: what cannot be seen on this kernel, and what is seen otherwise.
    """

    first: SoftirqCounts
    last: SoftirqCounts
    rows: tuple[tuple[IrqKey, IrqSums], ...] | None = None
    cpus: CpuSet = EMPTY
    blind_spots: tuple[str, ...] = ()
    accounted: tuple[str, ...] = ()

    def decode(self, readings: Readings) -> Part:
        """Return the interrupts by source, and how many softirqs passed no tracepoint."""
        del readings
        rows = None if self.rows is None else merge(irq_use(key, sums) for key, sums in self.rows)
        coverage = self._softirqs(rows or ())
        spots = [
            *(BlindSpot(text=text, witnesses=(Witness.INTERRUPTS,)) for text in self.blind_spots),
            *(BlindSpot(text=text) for text in self.accounted),
        ]
        missing = coverage.softirqs_kernel - coverage.softirqs_judged
        if missing > coverage.softirqs_skew:
            text = f"{missing} of {coverage.softirqs_kernel} softirqs on watched CPUs passed no tracepoint"
            spots.append(BlindSpot(text=text, witnesses=(Witness.INTERRUPTS,), cpus=self.cpus))
        return Part(evidence=InterruptEvidence(irq_use=rows), coverage=coverage, spots=spots)

    def _softirqs(self, rows: tuple[IrqUse, ...]) -> InterruptCoverage:
        """Compare with the kernel's own count: as for switches the truth lies between two readings."""
        first, last = self.first, self.last
        everywhere = (first.before, first.after, last.before, last.after)
        cpus = [cpu for cpu in self.cpus if all(cpu in counts for counts in everywhere)]
        least = sum(max(0, last.before[cpu] - first.after[cpu]) for cpu in cpus)
        most = sum(last.after[cpu] - first.before[cpu] for cpu in cpus)
        judged = sum(row.count for row in rows if row.kind is IrqKind.SOFT and row.cpu in cpus) if cpus else 0
        return InterruptCoverage(
            softirqs_judged=judged,
            softirqs_kernel=max(least, (least + most) // 2),
            softirqs_skew=(most - least + 1) // 2,
        )


def irq_use(key: IrqKey, sums: IrqSums) -> IrqUse:
    """Make one row of one record."""
    soft = key.kind == IRQ_SOFT
    if key.kind == IRQ_DEVICE:
        name = comm(sums.name)
    elif soft:
        name = SOFTIRQS[key.vector] if key.vector < len(SOFTIRQS) else f"softirq {key.vector}"
    else:
        name = VECTORS.get(key.vector, f"vector {key.vector:#x}")
    return IrqUse(
        cpu=key.cpu,
        kind=IrqKind.SOFT if soft else IrqKind.HARD,
        name=name,
        vector=key.vector,
        count=sums.count,
        ns=sums.ns,
        longest_ns=sums.longest_ns,
    )


def merge(rows: Iterable[IrqUse]) -> tuple[IrqUse, ...]:
    """Add up rows of one source (a handler that was freed and requested again), the longest time first."""
    found: dict[tuple[int, str, str, int], IrqUse] = {}
    for row in rows:
        key = (row.cpu, row.kind, row.name, row.vector)
        old = found.get(key)
        if old is not None:
            longest = max(old.longest_ns, row.longest_ns)
            row = replace(row, count=old.count + row.count, ns=old.ns + row.ns, longest_ns=longest)
        found[key] = row
    return tuple(sorted(found.values(), key=lambda row: (-row.ns, row.cpu, row.kind, row.vector, row.name)))
