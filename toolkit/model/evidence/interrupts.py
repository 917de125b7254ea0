"""What the witness of interrupts gives; its rows are in :mod:`toolkit.model.interrupts`."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.interrupts import IrqUse
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, kw_only=True)
class InterruptEvidence:
    """Of one window."""

    irq_use: tuple[IrqUse, ...] | None = None
    """Interrupts on the exclusive CPUs; ``None``: not observed."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class InterruptCoverage:
    """How much of it was seen."""

    softirqs_judged: int = 0
    softirqs_kernel: int = 0
    softirqs_skew: int = 0
    """Softirqs on watched CPUs by the interrupt ledger and by the kernel's own count (/proc/softirqs), as for switches;
    all 0 where interrupts are not observed."""
