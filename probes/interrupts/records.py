"""The interrupt ledger's records: a mirror of ``interrupts.h``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from probes.records import Record

IRQ_DEVICE, IRQ_VECTOR, IRQ_SOFT = range(1, 4)


@dataclass(frozen=True, slots=True)
class IrqKey(Record):
    """``struct irq_key``."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=Q4I")
    source: int
    window: int
    cpu: int
    vector: int
    kind: int


@dataclass(frozen=True, slots=True)
class IrqSums(Record):
    """One interrupt source on one CPU in one window (``struct irq_sums``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=3Q32s")
    count: int
    ns: int
    longest_ns: int
    name: bytes
