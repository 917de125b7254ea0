"""What a machine's configuration says about its CPUs, and what is wrong with it before any pod runs. Facts only.

Source: Documentation/admin-guide/kernel-parameters.txt (``isolcpus``, ``nohz_full``, ``rcu_nocbs``),
Documentation/core-api/irq/irq-affinity.rst, Documentation/core-api/workqueue.rst,
Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found.

    :param outcome: ``failed``: it breaks a promise; ``undecided``: it disturbs, how much only a run measures;
        ``skipped``: it is without effect, or could not be looked at.
    :param path: the file or setting, ``value`` what is in it. :param breaks: what it breaks. :param remedy: what to do.
    """

    id: str
    outcome: Outcome
    path: str
    value: str
    breaks: str
    remedy: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRoles:
    """What the CPUs are for. :param source: where that is configured.

    :param exclusive: those that containers own, or can come to own. :param pool: those of containers that own none.
    """

    exclusive: CpuSet
    pool: CpuSet
    reserved: CpuSet
    source: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptMask:
    """Where one interrupt may go. :param path: the file that says it."""

    irq: int
    cpus: CpuSet
    path: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A cpuset partition. :param kind: text of ``cpuset.cpus.partition``."""

    path: str
    kind: str
    cpus: CpuSet


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Irqbalance:
    """What is known of irqbalance. :param where: the file that says what it bans. :param value: what is in it.

    :param banned: ``None``: nothing is given, it leaves out what the kernel isolates; or see ``problem``.
    :param problem: why it is not known which CPUs it bans; empty: it is.
    """

    runs: bool
    where: str = ""
    value: str = ""
    banned: CpuSet | None = None
    problem: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A file that exists and does not say what it is for. :param value: what is in it, or why it was not read.

    :param what: that which is not known by that: a clause after "not known".
    """

    path: str
    value: str
    what: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationFacts:
    """What was read; ``None``: there is no such file here, or it says nothing that can be read: see ``unread``.

    :param kernel_build: what names the build; Debian puts the version there. :param rcu_nocbs: of the command line.
    :param irqbalance: ``None``: whether it runs is not known.
    :param kubepods: effective CPUs of the kubelet's cgroup, by path.
    :param unread: files that exist, and what is not known because they could not be read.
    """

    kernel: str
    kernel_build: str = ""
    online: CpuSet
    isolated: CpuSet
    nohz_full: CpuSet
    rcu_nocbs: CpuSet | None = None
    interrupts: tuple[InterruptMask, ...] | None = None
    default_interrupts: CpuSet | None = None
    irqbalance: Irqbalance | None = None
    workqueues: CpuSet | None = None
    partitions: tuple[Partition, ...] = ()
    kubepods: dict[str, CpuSet]
    discovery_error: str | None = None
    unread: tuple[Unread, ...] = ()
