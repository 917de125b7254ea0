"""A still picture of a kubelet's node: what one reading of each source can say beside the layers. Facts only."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import MissingPart
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPod:
    """A pod that the kubelet did not admit. :param reason, message: of its status."""

    pod: str
    reason: str
    message: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted:
    """A cgroup in a pod in which something runs and which the runtime does not list, although its list was read.

    :param claim: the name of its claim, which promises nothing.
    :param doubt: why it may be normal; empty: CPUs were written there that are not those of the cgroup above, which
        nothing does for a pod sandbox, and the runtime misses no container of that pod.
    """

    claim: str
    doubt: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One moment of a node.

    :param ended: claims whose pod the kubelet lists no more, or as ended.
    :param being_made: claims of containers that the runtime is still making, or that ended while it made them.
    :param perhaps_made: claims of containers in which all threads have the names of a runtime's, or which have neither
        a thread nor a set yet, and of which it is not known whether they run.
    :param behind: claims of shared containers whose cgroup may be of before a reconcile that the runtime's word is of
        after: its threads have the new set, all cgroups have an old one, or the cgroup is as the state file says.
    :param overdue_s: claims of containers for which a reconcile must have come since the state file was written, with
        for how long it has been possible.
    :param lost: containers that run by the runtime's word and whose cgroup was not found, with where it should be.
    :param unlisted: without those that look as a pod sandbox does, which may be new.
    :param at_once: whether all was read within a second; ``False``: or it is not known.
    :param runtime_read: whether the runtime's word was read at all.
    :param pods_read: whether the kubelet's list of pods was read.
    :param metrics: the kubelet's gauges of its CPU manager, by name with labels.
    :param api_cpus: the exclusive CPUs of all containers by the pod-resources API, which is read with the gauges;
        ``None``: it was not read, or this kubelet reports the shared pool, too.
    :param miscounted: claims of owners that the state file gives another number of CPUs than they ask for: that number.
    :param reserved: reserved CPUs by the configuration; ``None``: not known.
    :param pinners_unread: why it is not known what programs beside the kubelet have pinned; empty: it is.
    :param rejected: pods that the kubelet did not admit. :param topology_policy: of its Topology Manager; ``None``: not
        known.
    """

    ended: tuple[str, ...] = ()
    being_made: tuple[str, ...] = ()
    perhaps_made: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    overdue_s: dict[str, float] = field(default_factory=dict)
    lost: tuple[MissingPart, ...] = ()
    unlisted: tuple[Unlisted, ...] = ()
    at_once: bool = False
    runtime_read: bool = False
    pods_read: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    api_cpus: CpuSet | None = None
    miscounted: dict[str, int] = field(default_factory=dict)
    reserved: CpuSet | None = None
    rejected: tuple[RejectedPod, ...] = ()
    pinners_unread: str = ""
    topology_policy: str | None = None
