"""The interrupt ledger, attached: hard and soft interrupts and local vectors on the watched CPUs, by source.

Attached only when CPUs are watched: interrupts come ten thousand times a second on a busy CPU, and where nobody was
promised a CPU of its own their time is nobody's question. Compiled always, so that watching may begin at any time.

Source: include/trace/events/irq.h; arch/x86/include/asm/trace/irq_vectors.h and asm/irq_vectors.h (vector numbers).
On other architectures timers and inter-processor interrupts pass the ordinary handlers' tracepoints.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from probes.builder import Program
from probes.interrupts.records import IRQ_DEVICE, IRQ_SOFT, IrqKey, IrqSums
from probes.options import ObserveOptions
from probes.programs import Programs, Side
from probes.records import CPU_WORDS, comm
from toolkit.errors import HostUnsupportedError
from toolkit.model.cpuset import CpuSet
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
NEEDED_VECTORS = frozenset(("local_timer", "reschedule", "call_function", "call_function_single", "irq_work"))
"""Every x86 kernel has these; a kernel without one of the others has no such interrupt either."""

# The end of each first: an end without a beginning is ignored, a beginning without an end would be a handler for ever.
_HANDLERS = (("irq_handler_exit", "on_irq_exit"), ("irq_handler_entry", "on_irq_entry"))
_SOFTIRQS = (("softirq_exit", "on_softirq_exit"), ("softirq_entry", "on_softirq_entry"))


class Interrupts(Side):
    """Use :meth:`watch`, then :meth:`rows` of a window."""

    SOURCE = "interrupts/interrupts.bpf.c"
    PROGRAMS = tuple(
        Program(name=f"on_{what}_{end}") for what in ("irq", "vector", "softirq") for end in ("entry", "exit")
    )

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs)
        self._state = programs.table("irq_state", 4, None, per_cpu=True)
        self._sums = programs.table("irqs", IrqKey.LAYOUT.size, IrqSums.LAYOUT.size)
        self._cpus = programs.table("irq_cpus", 4, 8)
        self._attached = self._asked = self._complete = self._softirqs = False
        self._complaints: list[str] = []
        self._accounted: list[str] = []
        self.cpus = CpuSet()

    @staticmethod
    def settings(root: Path, options: ObserveOptions) -> dict[str, int]:
        """Return the number of sources that are kept."""
        del root
        return {"MAX_IRQS": options.max_irqs}

    @property
    def observed(self) -> bool:
        """Whether the time that :meth:`rows` tell is all of it: CPUs were watched, and every handler told."""
        return self._asked and self._complete

    @property
    def counts_softirqs(self) -> bool:
        """Whether softirqs are counted as the kernel counts them."""
        return self._asked and self._softirqs

    @property
    def blind_spots(self) -> tuple[str, ...]:
        """What cannot be seen of interrupts, where anybody asked."""
        return tuple(self._complaints) if self._asked else ()

    @property
    def accounted(self) -> tuple[str, ...]:
        """What is seen otherwise."""
        return tuple(self._accounted) if self._asked else ()

    def watch(self, cpus: CpuSet) -> None:
        """Choose the CPUs; attaches the programs at the first that are not empty."""
        words = (cpus.mask & ((1 << CPU_WORDS * 64) - 1)).to_bytes(CPU_WORDS * 8, "little")
        for index in range(CPU_WORDS):
            self._cpus.update(struct.pack("=I", index), words[index * 8 : index * 8 + 8])
        self.cpus = cpus
        self._asked = self._asked or bool(cpus)
        if cpus and not self._attached:
            self._attached = self._complete = True
            self._attach_all()

    def _attach_all(self) -> None:
        self._needed(_HANDLERS, "hard interrupts")
        if "PREEMPT_RT" in os.uname().version:
            # They can be preempted there: a pair of tracepoints would measure other tasks too.
            self._accounted.append("this PREEMPT_RT kernel runs softirqs as tasks: their time is the tasks' time")
        else:
            self._needed(_SOFTIRQS, "soft interrupts")
            self._softirqs = self._complete
        if platform.machine() != "x86_64":
            return
        for name in VECTORS.values():
            pair = ((f"{name}_exit", "on_vector_exit"), (f"{name}_entry", "on_vector_entry"))
            if name in NEEDED_VECTORS:
                self._needed(pair, f"{name} interrupts")
            else:
                self._try(pair)

    def _needed(self, pair: Iterable[tuple[str, str]], what: str) -> None:
        complaint = self._try(pair)
        if complaint:
            self._complete = False
            self._complaints.append(f"{what} are not observed: {complaint}")

    def _try(self, pair: Iterable[tuple[str, str]]) -> str:
        try:
            for tracepoint, function in pair:
                self.loaded.attach(tracepoint, function)
        except HostUnsupportedError as error:
            return str(error)
        return ""

    def rows(self, window: int) -> tuple[IrqUse, ...] | None:
        """Return what happened in a window; ``None`` where not everything could be observed."""
        if not self.observed:
            return None
        found = ((IrqKey.decode(key), IrqSums.decode(value)) for key, value in self._sums.items())
        return merge(irq_use(key, sums) for key, sums in found if key.window == window & 0xFFFFFFFF)

    def wipe(self, window: int) -> None:
        """Nobody asked, nothing was recorded before this window; the programs stay attached."""
        # A handler that was under way when its CPU ceased to be watched would seem to last for ever.
        self._state.update(bytes(4), bytes(self._state.value_size * self._state.copies))
        self._asked = False
        self.drop_old(window)

    def drop_old(self, window: int) -> None:
        """Forget the windows before this one."""
        for raw in tuple(self._sums.keys()):
            if IrqKey.decode(raw).window != window & 0xFFFFFFFF:
                self._sums.delete(raw)


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
