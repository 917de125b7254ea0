"""Time that interrupts took on a CPU, by source: as the interrupt ledger counted it. Facts only.

Source: Documentation/core-api/genericirq.rst, include/trace/events/irq.h (``irq_handler_*``, ``softirq_*``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.serde import CpuId, stage_value


class IrqKind(StrEnum):
    """Which half of interrupt handling."""

    HARD = "hard"
    SOFT = "soft"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class IrqUse:
    """One interrupt source on one CPU during the observation.

    :param name: the handler's name (``eth0-rx-0``, ``local_timer``) or the softirq's (``NET_RX``).
    :param vector: interrupt or softirq number, -1 where there is none.
    :param ns: time in its handlers, time of hard interrupts that came in between left out.
    """

    cpu: CpuId
    kind: IrqKind
    name: str
    vector: int
    count: int
    ns: int
    longest_ns: int = 0
