"""What a kubelet's node says about itself at one moment: the parts of a capture, as they were found. Facts only.

Every part is optional: ``None`` means that it was not read, and ``missing`` says why. Texts stay texts where the file
may hold nonsense; readers of formats come later. Source: docs/capture-bundle.md; Kubernetes CRI API v1
(``ListContainers``, ``ContainerStatus``), pod-resources API v1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.claims import AssignedDevice
from toolkit.model.serde import stage_value

STATE_WRITTEN = "state_written"
"""In :attr:`NodeReading.read_at_s`: no part, but when the kubelet wrote its CPU manager's file last."""
MEMORY_WRITTEN = "memory_state_written"
"""The same of its memory manager's file."""
STATE_REWRITTEN = "state_rewritten"
"""The same: when it wrote that file again after it had been read, and before the reading ended."""
KUBELET_STARTED = "kubelet_started"
"""The same: when the kubelet's process started; where none is seen, when that was found."""
UNIFIED = "unified"
"""The name of the cgroup v2 hierarchy in :attr:`NodeReading.cgroups`; the others are named by their controller."""
V1 = frozenset({"cpu", "cpuacct", "cpuset", "memory", "hugetlb", "pids", "blkio", "devices", "freezer", "cpu,cpuacct"})
"""Names of v1 hierarchies in it; a node with none of them has one tree of v2."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class NamedText:
    """A file. :param name: where it was read, for messages."""

    name: str
    text: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPart:
    """A part that was not read. :param part: a field of :class:`NodeReading`. :param reason: one line."""

    part: str
    reason: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the kubelet asked the runtime for last; ``None`` or an empty set: it asked for nothing."""

    cpus: str | None = None
    mems: str | None = None
    quota_us: int | None = None
    period_us: int | None = None
    shares: int | None = None
    memory_bytes: int | None = None
    memory_high_bytes: int | None = None
    """``memory.high`` in the files that a specification writes by name (``unified``)."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContainer:
    """A container or a pod's sandbox as the runtime lists it.

    :param name: the container's name in its pod; empty for a sandbox.
    :param state: ``created``, ``running``, ``exited``, ``unknown``; empty: the source does not say.
    :param cgroups_path: as the runtime was given it: a path, or systemd's ``slice:prefix:name``; empty: not said.
    :param asked: ``None``: the source does not say.
    :param huge_sizes: sizes of huge pages (``2MB``) that its specification limits; ``None``: the source does not say.
    :param log_path: of ``ContainerStatus``.
    """

    id: str
    pod_uid: str
    name: str = ""
    pod_name: str = ""
    pod_namespace: str = ""
    sandbox: bool = False
    ready: bool = True
    """Of a sandbox: whether it runs, or the source does not say."""
    sandbox_id: str = ""
    state: str = ""
    pid: int | None = None
    cgroups_path: str = ""
    asked: Asked | None = None
    asked_is_kubelet_word: bool = True
    """``False``: the value is that of the runtime's own specification at creation; updates may be missing in it."""
    huge_sizes: tuple[str, ...] | None = None
    log_path: str = ""
    created_at_ns: int | None = None
    started_at_ns: int | None = None
    """Both since 1970; ``None``: the source does not say, or it has not started."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    dra_cpus: dict[str, str] = field(default_factory=dict)
    """CPUs by UID of the DRA claim, as variables of its environment say."""
    runtime_handler: str = ""
    """Of a sandbox: what the pod's runtime class names; empty: the default one, or not said."""

    @property
    def runs(self) -> bool:
        """Whether it runs by the runtime's word: a list without states is of what runs."""
        return self.state in ("running", "")


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class PodResourcesContainer:
    """One container in the answer of pod-resources ``List``.

    :param cpus: exclusive ones; empty: none.
    :param shared: of those that its pod has as a whole what no container has for itself (v1.37); empty: none.
    """

    pod_name: str
    pod_namespace: str
    container: str
    cpus: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    mems: tuple[int, ...] = ()
    devices: tuple[AssignedDevice, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReading:
    """One thread. :param cgroups: hierarchy (a v1 controller, or :data:`UNIFIED`) to path.

    :param cpus_allowed, mems_allowed: list texts of ``/proc/PID/task/TID/status``; ``None``: not read.
    """

    pid: int
    tid: int
    comm: str
    cgroups: dict[str, str]
    cpus_allowed: str | None = None
    mems_allowed: str | None = None


CgroupHierarchies = dict[str, dict[str, dict[str, str]]]
"""Hierarchy to cgroup path (``/`` is the root) to control file to text, without the line end at its end."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """One moment of a node.

    :param config: ``KubeletConfiguration`` files in the order in which they apply (drop-ins after the main file).
    :param kubelet_flags: the running process's arguments, without the program's name.
    :param cpu_state, memory_state: texts of the state files; bytes that are no UTF-8 are U+FFFD, as for the kubelet.
    :param device_state: text of the Device Manager's file, without what plugins told the runtime.
    :param allocatable_devices: those that plugins have registered, by pod-resources.
    :param containers: containers and sandboxes of the runtime.
    :param pods: pod documents (``kind: Pod`` with status), as the kubelet's ``/pods`` lists them.
    :param pod_folders: UIDs of pods that have a folder below the kubelet's root directory.
    :param allocated_pods: text of ``allocated_pods_state``: resources that the kubelet has allocated to containers.
    :param actuated_pods: text of ``actuated_pods_state``: those that the kubelet has put into force.
    :param static_of: manifests by UID of static pods that ran when their manifests were there.
    :param log_names: container id to (pod uid, pod namespace, pod name, container name), by the kubelet's log symlinks.
    :param nri_cache: text of the cache of an NRI resource policy; ``nri_cache_after``: what it said after the cgroups
        were read, where that is something else. :param cdi: CDI specifications of the DRA CPU driver.
    :param kubelet_version: ``v1.36.2``; empty: not said.
    :param sysfs: lines ``PATH: VALUE``. :param online: the kernel's list of CPUs that are online.
    :param read_at_s: wall-clock second at which a part was read, where that is known.
    """

    config: tuple[NamedText, ...] | None = None
    """The kubelet's configuration file, then its drop-ins in their order."""
    drop_ins_alone: bool = False
    """The configuration file is not among :attr:`config`: it was not read, or the kubelet has none."""
    kubelet_flags: tuple[str, ...] | None = None
    cpu_state: str | None = None
    memory_state: str | None = None
    device_state: str | None = None
    containers: tuple[RuntimeContainer, ...] | None = None
    pods: tuple[dict[str, object], ...] | None = None
    pod_folders: tuple[str, ...] | None = None
    static_pods: tuple[NamedText, ...] = ()
    static_of: dict[str, dict[str, object]] = field(default_factory=dict)
    allocated_pods: str | None = None
    actuated_pods: str | None = None
    pod_resources: tuple[PodResourcesContainer, ...] | None = None
    allocatable_cpus: tuple[int, ...] | None = None
    allocatable_devices: tuple[AssignedDevice, ...] | None = None
    cgroups: CgroupHierarchies | None = None
    threads: tuple[ThreadReading, ...] | None = None
    log_names: dict[str, tuple[str, str, str, str]] | None = None
    sysfs: str | None = None
    online: str | None = None
    node_bytes: dict[int, int] | None = None
    metrics: str | None = None
    nri_cache: str | None = None
    nri_cache_after: str | None = None
    cdi: tuple[NamedText, ...] = ()
    cluster_objects: str | None = None
    """What of objects of the cluster is kept, where they were given."""
    crio: str | None = None
    """What of CRI-O's configuration is kept."""
    cpu_settings: str | None = None
    """Lines ``PATH: VALUE`` of interrupts, idle states and frequencies."""
    kubelet_version: str = ""
    runtime_name: str = ""
    runtime_version: str = ""
    runtime_driver: str = ""
    """The cgroup driver that the runtime names to the kubelet: ``systemd``, ``cgroupfs``; empty: it names none."""
    read_at_s: dict[str, float] = field(default_factory=dict)
    missing: tuple[MissingPart, ...] = ()
