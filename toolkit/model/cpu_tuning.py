"""What was promised about a claim's CPUs as hardware, and what a machine says of its CPUs and interrupts. Facts only.

Source: Documentation/core-api/irq/irq-affinity.rst; Documentation/admin-guide/pm/cpuidle.rst
(``pm_qos_resume_latency_us``), cpufreq.rst (``scaling_governor``); cgroup-v2.rst (``cpuset.cpus.partition``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTuning:
    """What was promised of a claim's CPUs; what is empty was not.

    :param by: what promised it. :param interrupts_elsewhere: no interrupt of a device goes to them.
    :param partition: text of ``cpuset.cpus.partition``. :param resume_latency_us: text of
        ``pm_qos_resume_latency_us`` (``n/a``: no idle state with a latency). :param governor: of their frequency.
    """

    by: str
    interrupts_elsewhere: bool = False
    partition: str = ""
    resume_latency_us: str = ""
    governor: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class IrqAffinity:
    """One interrupt. :param may: CPUs to which it may go. :param goes: those to which it goes; ``None``: not known."""

    irq: int
    may: CpuSet
    goes: CpuSet | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSettings:
    """What a machine's files say at one moment.

    :param interrupts: ``None``: they were not read. :param default_interrupts: where interrupts of new devices go.
    :param resume_latency_us, governors: texts by CPU.
    """

    interrupts: tuple[IrqAffinity, ...] | None = None
    default_interrupts: CpuSet | None = None
    resume_latency_us: dict[int, str] = field(default_factory=dict)
    governors: dict[int, str] = field(default_factory=dict)
