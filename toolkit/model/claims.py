"""Claims: what each cgroup was promised. The pivot of everything; everything downstream knows only claims.

Source: docs/principles.md; KEP-5526 "ResourceIsolationLevel" for :class:`Isolation`;
Kubernetes documentation "Control CPU Management Policies" (``docs/specification.md``) for :class:`ExclusivePolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from toolkit.model.cpu_tuning import CpuTuning
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


class Isolation(StrEnum):
    """Which tasks may share the claim's CPUs."""

    CONTAINER = "container"
    """Nothing: the CPUs are exclusive to this container."""
    POD = "pod"
    """Containers of the same pod (pod shared pool)."""
    HOST = "host"
    """The node's shared pool."""


class SubjectKind(StrEnum):
    """What kind of cgroup a claim is about."""

    CONTAINER = "container"
    SANDBOX = "sandbox"
    EPHEMERAL = "ephemeral"
    HELPER = "helper"
    POD = "pod"
    """A pod's own cgroup: it carries quota, weight and limits, no tasks of its own."""
    QOS = "qos"
    """The cgroup of a quality-of-service class (``burstable``, ``besteffort``): it carries a weight, and no quota."""

    @property
    def carries_tasks(self) -> bool:
        """Whether tasks run in such a cgroup itself. Where none do, control files and counters are all of it."""
        return self not in (SubjectKind.POD, SubjectKind.QOS)


class ExclusivePolicy(StrEnum):
    """What may run on exclusive CPUs besides their owner."""

    K8S = "k8s"
    """Foreign pods are violations, system tasks are noise (exclusivity "only extends to other pods")."""
    STRICT_ISOLATION = "strict-isolation"
    """Anything but per-CPU kernel threads is a violation."""


class Alignment(StrEnum):
    """What is guaranteed about where the claim's CPUs lie."""

    SMT = "smt"
    """Whole cores, and no foreign workload on any thread of them."""
    SMT_POD = "smt-pod"
    """Cores that belong to its pod alone; containers of the pod may share one."""
    LLC = "llc"
    NUMA = "numa"
    """One NUMA node."""
    NUMA_POD = "numa-pod"
    """What holds for its NUMA nodes (one, or ``max_numa_nodes``) holds for the CPUs of the pod together."""
    NUMA_EVEN = "numa-even"
    """Where one NUMA node is not enough, each that is used gives as much: differences are less than a CPU (a core)."""
    SOCKET = "socket"


class Preference(StrEnum):
    """What is preferred about where the claim's CPUs lie: reported, and only what was given must stay."""

    LLC = "llc"
    """One level 3 cache."""
    SOCKET = "socket"
    """One socket."""
    CORES = "distinct-cores"
    """As many different cores as possible."""
    CLOSEST = "closest-nodes"
    """Where one NUMA node is not enough, those that are nearest to each other."""


NO_QUOTA = -1
"""``quota_us`` of a claim that was promised *no* CFS quota (cgroup v1's own word for it)."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class HugepageLimit:
    """A limit on one hugepage size."""

    page_bytes: int
    limit_bytes: int


class DeviceScope(StrEnum):
    """With whose CPUs and memory a device is promised to share a NUMA node: the Topology Manager's scopes."""

    CONTAINER = "container"
    POD = "pod"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedDevice:
    """A device that a kubelet has given to a container, by its own word (pod-resources).

    :param id: a plugin's own name of it, often a PCI address; of a claim of DRA ``driver/pool/device``.
    :param resource: of the device plugin; empty: of a claim of DRA. :param claim: that claim, ``namespace/name``.
    :param numa_nodes: those that its plugin states; empty: it states none, as DRA never does there.
    :param cdi: its names for the runtime (CDI).
    :param aligned: ``None``: nothing is promised about where it sits, which is measured only.
    """

    id: str
    resource: str = ""
    claim: str = ""
    numa_nodes: tuple[int, ...] = ()
    cdi: tuple[str, ...] = ()
    aligned: DeviceScope | None = None


def pod_claim_name(pod: str) -> str:
    """Return the name of the claim about a pod's own cgroup."""
    return f"{pod}/(pod)"


def qos_claim_name(cgroup: str) -> str:
    """Return the name of the claim about the cgroup of a QoS class."""
    return f"{cgroup}/(qos)"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one cgroup was promised. ``None`` means: nothing was promised about it, so nothing is judged.

    :param cgroup: path relative to the cgroup root, starting with ``/``; descendants are covered too.
    :param quota_us: microseconds per period, or :data:`NO_QUOTA`.
    :param weight: ``cpu.weight`` (cgroup v2, 1-10000).
    :param shares: ``cpu.shares`` (cgroup v1, 2-262144).
    :param memory_bytes: or :data:`~toolkit.model.memory_units.NO_LIMIT`.
    """

    name: str
    cgroup: str
    pod: str = ""
    namespace: str = ""
    """Of the pod, where it is one of Kubernetes; its name has the namespace before it unless that is ``default``."""
    pod_uid: str = ""
    """As the pod's cgroup has it; empty: not known. Two pods that follow each other under one name differ in it."""
    container: str = ""
    kind: SubjectKind = SubjectKind.CONTAINER
    cpus: CpuSet | None = None
    isolation: Isolation = Isolation.HOST
    mems: CpuSet | None = None
    quota_us: int | None = None
    period_us: Annotated[int, Field(ge=1)] = 100_000
    burst_us: int = 0
    weight: int | None = None
    shares: int | None = None
    shares_between: tuple[int, int] | None = None
    """The least and the most ``cpu.shares`` that it may have: of a sum that is not known at each moment."""
    memory_bytes: int | None = None
    memory_high_bytes: int | None = None
    """The least that ``memory.high`` may be, from which on its tasks are slowed down; ``NO_LIMIT``: only ``max``."""
    hugepages: tuple[HugepageLimit, ...] = ()
    alignments: tuple[Alignment, ...] = ()
    preferences: tuple[Preference, ...] = ()
    max_numa_nodes: int | None = None
    """The most NUMA nodes that its CPUs may lie on; ``None``: nothing was promised about their number."""
    devices: tuple[str, ...] = ()
    """PCI addresses; they must sit on the NUMA nodes of its CPUs."""
    assigned_devices: tuple[AssignedDevice, ...] = ()
    """What a kubelet gave it; each says whether it must."""
    pod_quota_us: int | None = None
    """Quota of the pod's cgroup just above, where the plan says it (:data:`NO_QUOTA`: none); ``None`` if unknown."""
    kept_quota_us: int | None = None
    """Quota that it may have although none was promised: the kubelet may be one before v1.33. ``None``: no other."""
    demand_cpus: float | None = None
    """CPUs' worth of user-mode work that the workload offers, where pinproof started it; ``None`` if unknown."""
    by_mask: bool = False
    """Whether its CPUs are those of its threads' masks alone (``CPUAffinity=``): no cpuset holds them to it."""
    requested_cpus: CpuSet | None = None
    """What its own cpuset asks for, where cgroups above leave it less: ``cpus``. ``None``: just that."""
    requested_mems: CpuSet | None = None
    """The same of memory nodes."""
    pinned_by: str = ""
    """The program beside the kubelet whose word its CPUs are (``NRI balloons``); empty: there is none."""
    tuning: CpuTuning | None = None
    """What was promised of its CPUs as hardware; ``None``: nothing."""
    contended: bool = True
    """Whether a part of contended CPU time is promised besides the weight; ``False``: nothing says that it competes."""

    @property
    def exclusive(self) -> bool:
        """Whether the CPUs belong to this container alone."""
        return self.isolation is Isolation.CONTAINER

    @property
    def divided(self) -> bool:
        """Whether a part of contended CPU time is promised."""
        return self.contended and (self.weight is not None or self.shares is not None)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSet:
    """All claims of one node, and what holds for the node as a whole."""

    claims: tuple[Claim, ...]
    reserved_cpus: CpuSet = field(default_factory=CpuSet)
    strict_reservation: bool = False
    policy: ExclusivePolicy = ExclusivePolicy.K8S
    pods_root: str | None = None
    """cgroup below which everything is a pod (``/kubepods``): tasks there without a claim are foreign pods."""
    transition_limit_ms: float | None = None
    """How long a change of a claim may take until it holds; ``None``: measured only."""
    noise_budget_ns_per_s: int | None = None
    """Time that system tasks, kernel threads, interrupts and the hypervisor may take on each exclusive CPU."""
    reconcile_period_s: float | None = None
    """The kubelet's reconcile period, within which its layers may differ; ``None``: no kubelet, none may differ."""

    @property
    def exclusive_cpus(self) -> CpuSet:
        """CPUs owned by exactly one container or one pod."""
        return CpuSet.union(
            claim.cpus for claim in self.claims if claim.cpus is not None and claim.isolation is not Isolation.HOST
        )
