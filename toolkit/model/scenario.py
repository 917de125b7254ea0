"""A scenario: a node's configuration, pods, what they do, and how each promise is broken on purpose.

``kubelet`` and ``pods`` hold the documents as users write them (a ``KubeletConfiguration``, ``v1`` Pods); the
allocation model parses them. Source: docs/principles.md; ``docs/catalogue.md`` for catalogue ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolkit.model.claims import ExclusivePolicy
from toolkit.model.sandbox import Workload
from toolkit.model.serde import stage_value


class Tier(StrEnum):
    """How much of the catalogue a scenario belongs to."""

    CORE = "core"
    """Run by default: one scenario for each kind of promise."""
    FULL = "full"
    """Run with ``--full`` or by name: variants of what the core shows."""


class ResizeBehaviour(StrEnum):
    """What a node does about exclusive CPUs when a pod is resized in place and the gate lets it."""

    V1_36 = "v1.36"
    """What a kubelet v1.36 does: the request is taken, the CPUs stay what they are."""
    KEP_5554 = "kep-5554"
    """What is planned: CPUs come and go, those of the container's creation stay."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What the machine must have for the scenario to make sense: lower bounds but one, counted as kubelets count."""

    cpus: int = 1
    cores: int = 1
    numa_nodes: int = 1
    sockets: int = 1
    threads_per_core: int = 1
    """Threads of each of the ``cores``; others may have less."""
    l3_groups: int = 1
    """L3 groups in the smallest socket."""
    cpus_per_numa_node: int = 1
    """CPUs of the smallest NUMA node that has any."""
    numa_nodes_per_socket: int = 1
    """NUMA nodes with CPUs in the smallest socket."""
    max_numa_nodes: int | None = None
    """The only upper bound: what a kubelet does on one NUMA node it may refuse on several."""
    even_numa_nodes: bool = False
    """All NUMA nodes have the same number of CPUs: what one node leaves must fit any other."""
    device_nodes: bool = False
    """The firmware names the NUMA node of every PCI device of a kind that pods ask for."""
    hugepages_2mib: int = 0
    """Huge pages of 2 MiB that the machine has in its pools."""
    hugepages_1gib: int = 0
    """Huge pages of 1 GiB that the machine has in its pools."""
    hugepages_2mib_a_node: int = 0
    """Huge pages of 2 MiB that each NUMA node with CPUs has in its pool."""
    memory_mib: int = 0
    """Memory that the kubelet's discovery finds."""
    memory_nodes: int = 0
    """NUMA nodes that have memory, with CPUs or without."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeControl:
    """A fault, and the rule that must come out ``failed`` because of it.

    :param fault: a word of the library of faults (:mod:`toolkit.faults`).
    :param target: ``pod/container`` whose promise is broken.
    :param subject: whose verdict must be ``failed``; the target's if empty.
    :param kubelet: settings that replace the scenario's, key by key; ``None`` takes one away.
    :param pods: pods that come after the scenario's; one with a known name takes its place.
    :param requires: what the machine must have for this control on top of what the scenario needs.
    :param quota_us: of ``set-quota`` (-1: none), with ``period_us``. :param shares: of ``set-shares``.
    :param transition_limit_ms: of ``tight-limit``, as is ``noise_budget_ns_per_s``.
    """

    rule: str
    fault: str
    target: str = ""
    subject: str = ""
    quota_us: int | None = None
    period_us: int | None = None
    shares: int | None = None
    transition_limit_ms: float | None = None
    noise_budget_ns_per_s: int | None = None
    kubelet: dict[str, Any] = field(default_factory=dict)
    pods: tuple[dict[str, Any], ...] = ()
    requires: Requirements = field(default_factory=Requirements)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the node must give a container, written by hand from the specification; empty, ``None``: no matter.

    A number that depends on the machine is an amount in text
    (``=numa-1``, :mod:`toolkit.session.planning.machine_amounts`).

    :param quota_us, pod_quota_us: of the container's and of its pod's cgroup, in a period; -1: none.
    :param shares: its weight as cgroup v1 counts. :param memory_max: limit in bytes; -1: none.
    :param mems: a list of the NUMA nodes that its memory may live on, or one of :data:`MEMORY_WORDS`. Empty: any node
        where the Memory Manager's policy is not Static, as its documentation says; no matter where it is.
    :param count: how many CPUs it gets.
    :param cpus: a CPU list, or :data:`ONLINE`. :param same_as: the container that has or had the very same.
    :param cores: on how many cores they lie; ``uncore_caches``, ``numa_nodes`` and ``sockets`` likewise.
    :param whole_numa_nodes: how many NUMA nodes are its own but for reserved CPUs.
    :param nearest_numa_nodes: no two nodes of the machine are nearer to each other than its own.
    """

    cpus: str = ""
    same_as: str = ""
    cores: int | None = None
    uncore_caches: int | None = None
    numa_nodes: int | None = None
    whole_numa_nodes: int | None = None
    nearest_numa_nodes: bool = False
    sockets: int | None = None
    count: int | str | None = None
    mems: str = ""
    quota_us: int | str | None = None
    pod_quota_us: int | str | None = None
    shares: int | str | None = None
    memory_max: int | str | None = None


AMOUNTS = ("count", "quota_us", "pod_quota_us", "shares", "memory_max")
"""The parts of an :class:`Expectation` that may depend on the machine."""
VALUES = (*AMOUNTS, "mems")
"""Those that do not say which CPUs."""
ONLINE = "online"
"""Every online CPU of the machine."""
OF_CPUS, ONE, ANY = MEMORY_WORDS = ("cpus", "one", "any")
"""Memory on the NUMA nodes of the container's CPUs alone; on one node; on any, so that nothing is promised of it."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """An adjuster between create and start, as an NRI plugin is one. :param name: ``clearcfs`` takes the quota away.

    :param qos_classes: of pods whose containers it changes (``Guaranteed``, ``Burstable``, ``BestEffort``).
    """

    name: str
    qos_classes: tuple[str, ...] = ("Guaranteed",)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario of the catalogue, or a user's own."""

    name: str
    title: str
    shows: str = ""
    catalogue: tuple[str, ...] = ()
    tier: Tier = Tier.FULL
    requires: Requirements = field(default_factory=Requirements)
    policy: ExclusivePolicy = ExclusivePolicy.K8S
    kubelet: dict[str, Any] = field(default_factory=dict)
    of_kubelet: bool = False
    """Whether it is made of a kubelet's own files and a user's own pods, to be planned only. No file says so."""
    kubelet_version: str = ""
    """Of the kubelet that is asked; empty: that of the model. No file says so."""
    pods: tuple[dict[str, Any], ...] = ()
    predicate: bool = True
    """Whether pods must find room beside the others, too, as a kubelet's last admit handler asks. No file says so:
    only runs that earlier versions saved were planned without."""
    devices: tuple[dict[str, Any], ...] = ()
    """Devices of the node: ``{resource, id, numa}``."""
    devices_of_host: bool = False
    """Whether the node's devices are the machine's own PCI devices."""
    cpu_plugins: dict[str, dict[str, Any]] = field(default_factory=dict)
    """CPU Manager plugins and their settings, asked in this order before the static policy."""
    adjusters: tuple[Adjustment, ...] = ()
    """What changes containers between create and start, in order."""
    dra_claims: dict[str, dict[str, str]] = field(default_factory=dict)
    """``pod/container`` -> claim uid -> CPU list that a DRA driver hands over."""
    workloads: dict[str, tuple[Workload, ...]] = field(default_factory=dict)
    """``pod/container`` -> what it runs; containers that are not named sleep."""
    duration_s: float = 3.0
    departures: tuple[str, ...] = ()
    """Pods, and containers of pods (``pod/container``), that end before the pods after the last of them arrive."""
    arrivals: tuple[str, ...] = ()
    """Pods whose containers are all started at once, while they are observed."""
    leaves: tuple[str, ...] = ()
    """Guaranteed pods that come while the others are observed, stay for a while, and leave again."""
    kubelet_restart: dict[str, Any] | None = None
    """Settings that replace the scenario's, key by key, for a kubelet that is started over the state files; ``None``:
    there is no such restart."""
    refused_restart: str = ""
    """Words of the refusal with which that kubelet must not start; empty: it must start."""
    restarts: tuple[str, ...] = ()
    """Containers that are stopped and started again while they are observed."""
    resizes: tuple[dict[str, Any], ...] = ()
    """Pods with other resources: what these become of pods that run, one after the other, while they are observed."""
    resize_behaviour: ResizeBehaviour = ResizeBehaviour.V1_36
    """Which node is asked for the resizes."""
    rejected_resizes: dict[str, str] = field(default_factory=dict)
    """Pods whose resize the node must not do now -> words of its answer (``Infeasible: …``)."""
    pile_ups: tuple[str, ...] = ()
    """Containers whose threads all narrow themselves to the first of their CPUs."""
    weights: bool = False
    """Whether shares of contended CPU time are promised too. A container without a rival cannot be judged by it."""
    state_files: bool = False
    """Whether the state files that the kubelet would have written are judged too."""
    transition_limit_ms: float | None = None
    """How long a change (restart, resize) may take until it holds; ``None``: measured only."""
    noise_budget_ns_per_s: int | None = None
    """What others than pods may take of each exclusive CPU; ``None``: measured only."""
    rejected_pods: dict[str, str] = field(default_factory=dict)
    """Pods that the node must refuse -> the reason that it must give (empty: any)."""
    expect: dict[str, Expectation] = field(default_factory=dict)
    """``pod/container`` -> which CPUs it must get."""
    negative_controls: tuple[NegativeControl, ...] = ()
