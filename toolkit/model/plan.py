"""The plan: what the resource managers decided for every pod, with the rule that gave each value.

Pure data, made by :mod:`toolkit.allocation`; it holds no paths of this machine and no PIDs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.model.claims import Alignment, HugepageLimit, Isolation, Preference
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


class QosClass(StrEnum):
    """Pod quality of service (Kubernetes documentation, "Pod Quality of Service Classes")."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


QOS_CGROUPS = {QosClass.BURSTABLE: "burstable", QosClass.BEST_EFFORT: "besteffort"}
"""Cgroups that stand for a class, between the node's and the pods'; Guaranteed pods have none above them."""


class ContainerRole(StrEnum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """One container's share.

    :param cpus: CPU set handed to the runtime; empty: none is handed over (the container may run anywhere).
    :param assigned: its own entry in the CPU manager's state, ``None`` if it follows a shared pool.
    :param mems: NUMA nodes handed to the runtime, ``None`` if none are.
    :param quota_us: CFS quota, -1 for none. :param shares: ``cpu.shares`` by the kubelet's formula.
    :param reasons: in words, one line each: which rule gave which value.
    """

    name: str
    role: ContainerRole
    cpus: CpuSet
    assigned: CpuSet | None
    isolation: Isolation
    mems: CpuSet | None
    quota_us: int
    period_us: int
    shares: int
    memory_limit_bytes: int | None = None
    hugepages: tuple[HugepageLimit, ...] = ()
    alignments: tuple[Alignment, ...] = ()
    preferences: tuple[Preference, ...] = ()
    max_numa_nodes: int | None = None
    """The most NUMA nodes that its CPUs may lie on, by its request; ``None``: any."""
    devices: tuple[str, ...] = ()
    """PCI devices of which it is promised that they sit on the NUMA node of its CPUs."""
    reasons: tuple[str, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """One pod: admitted with its containers, or rejected with the kubelet's reason and message.

    ``quota_us``/``shares`` are those of the pod's cgroup; -1 is no quota.
    """

    uid: str
    name: str
    qos_class: QosClass
    admitted: bool
    reason: str = ""
    message: str = ""
    cpus: CpuSet | None = None
    """The pod's own CPU set, where it has one (pod-level resource managers)."""
    quota_us: int = -1
    period_us: int = 100_000
    shares: int = 2
    cpu_request_milli: int | None = None
    """Thousandths of a CPU, overhead included; ``None`` in runs from before it was saved."""
    memory_limit_bytes: int | None = None
    """``memory.max`` of the pod's cgroup; ``None`` for none."""
    containers: tuple[ContainerPlan, ...] = ()
    reasons: tuple[str, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole node after all pods of the scenario."""

    cpu_manager_policy: str
    reserved_cpus: CpuSet
    strict_reservation: bool
    default_cpus: CpuSet
    """The shared pool at the end (every online CPU under policy ``none``)."""
    pods: tuple[PodPlan, ...] = ()
    warnings: tuple[str, ...] = ()
    states: dict[str, str] = field(default_factory=dict)
    """Checkpoint texts: ``cpu_manager_state``, ``memory_manager_state``."""
