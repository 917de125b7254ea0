"""The interrupt ledger, attached: hard and soft interrupts and local vectors on the watched CPUs, by source.

Attached only when CPUs are watched: interrupts come ten thousand times a second on a busy CPU, and where nothing was
promised a CPU of its own their time is no rule's question. Compiled always, so that watching may begin at any time.

Source: include/trace/events/irq.h; arch/x86/include/asm/trace/irq_vectors.h and asm/irq_vectors.h (vector numbers).
On other architectures timers and inter-processor interrupts pass the ordinary handlers' tracepoints.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path

from probes.interrupts.decoder import VECTORS
from probes.interrupts.records import IrqKey, IrqSums
from probes.options import ObserveOptions
from probes.program import Program
from probes.programs import Programs, Side
from probes.records import CPU_WORDS
from toolkit.errors import HostUnsupportedError
from toolkit.model.cpuset import CpuSet

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
        """Whether the time that :meth:`rows` report is all of it: CPUs were watched, and every handler reported."""
        return self._asked and self._complete

    @property
    def counts_softirqs(self) -> bool:
        """Whether softirqs are counted as the kernel counts them."""
        return self._asked and self._softirqs

    @property
    def blind_spots(self) -> tuple[str, ...]:
        """What cannot be seen of interrupts, where anything asked."""
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

    def rows(self, window: int) -> tuple[tuple[IrqKey, IrqSums], ...] | None:
        """Return what happened in a window; ``None`` where not everything could be observed."""
        if not self.observed:
            return None
        found = ((IrqKey.decode(key), IrqSums.decode(value)) for key, value in self._sums.items())
        return tuple((key, sums) for key, sums in found if key.window == window & 0xFFFFFFFF)

    def wipe(self, window: int) -> None:
        """Nothing asked, nothing was recorded before this window; the programs stay attached."""
        # A handler that was under way when its CPU ceased to be watched would seem to last for ever.
        self._state.update(bytes(4), bytes(self._state.value_size * self._state.copies))
        self._asked = False
        self.drop_old(window)

    def drop_old(self, window: int) -> None:
        """Forget the windows before this one."""
        for raw in tuple(self._sums.keys()):
            if IrqKey.decode(raw).window != window & 0xFFFFFFFF:
                self._sums.delete(raw)
