"""The kubelet's state files as they were found: the text, and what a reader of that format made of it. Facts only.

CPU sets stay texts where the file may hold nonsense: rule ``checkpoint`` says so instead of a reader that gives up.
Source: docs/facts.md K-kubelet-4, K-kubelet-5; KEP-5526 "State File".
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value

CPU_FILE, MEMORY_FILE, DEVICE_FILE = "cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint"
KUBELETS = ("kubelet", "k3s-server", "k3s-agent", "microshift", "kubelite")
"""Names of the programs that write them by right: a kubelet, and what is one among other things (k3s, MicroShift,
MicroK8s)."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuEntry:
    """CPUs of one container (``container`` ``""``: of a pod as a whole)."""

    pod_uid: str
    container: str
    cpus: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStateFile:
    """``cpu_manager_state``. :param problem: why it is no checkpoint of any version; empty: it is one.

    :param unknown: whether the problem is that it is of a version that is not known here, which may be sound.

    Version 1 knows containers by runtime id only: where the runtime did not name one its entry has an empty
    ``pod_uid``, and the id for its container.
    """

    text: str
    problem: str = ""
    unknown: bool = False
    version: int = 0
    policy: str = ""
    default: str = ""
    checksum_ok: bool = False
    entries: tuple[CpuEntry, ...] = ()
    pods: tuple[CpuEntry, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """One block of a container (``container`` ``""``: of a pod as a whole) on a group of nodes."""

    pod_uid: str
    container: str
    nodes: CpuSet
    kind: str
    size_bytes: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """One kind of memory on one node in ``machineState``."""

    node: int
    kind: str
    total_bytes: int
    system_reserved_bytes: int
    allocatable_bytes: int
    reserved_bytes: int
    free_bytes: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNode:
    """One node in ``machineState``. :param group: the nodes that it is used together with, itself among them."""

    node: int
    assignments: int
    group: CpuSet


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStateFile:
    """``memory_manager_state``. :param problem, unknown: as in :class:`CpuStateFile`."""

    text: str
    problem: str = ""
    unknown: bool = False
    version: int = 0
    policy: str = ""
    checksum_ok: bool = False
    rows: tuple[MemoryRow, ...] = ()
    entries: tuple[MemoryEntry, ...] = ()
    pods: tuple[MemoryEntry, ...] = ()
    nodes: tuple[MemoryNode, ...] = ()
    """Empty in evidence of before they were read."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStateFile:
    """``kubelet_internal_checkpoint``, the Device Manager's. :param problem: as in :class:`CpuStateFile`.

    :param checksum_ok: ``None``: of a capture in which nothing says it.
    :param devices_count: that containers have. :param twice: resource and id of those that several pods have.
    """

    problem: str = ""
    checksum_ok: bool | None = None
    devices_count: int = 0
    twice: tuple[str, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class KnownContainer:
    """A container that the node knows.

    :param running: it has a process now. :param ended: its pod has ended, and the runtime lists it still.
    :param waiting: the kubelet knows its pod, which has no sandbox: it waits for its volumes, or for the version before
        it to end.
    """

    pod_uid: str
    container: str
    running: bool
    ended: bool = False
    waiting: bool = False


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class StateReading:
    """One reading of the state files, and what the node said about itself at the same time.

    :param at_ns: nanoseconds since the observation began; before it: negative.
    :param cpus_online: CPUs that the kubelet's machine has: online ones when it started.
    :param cpu_policy, memory_policy: as configured; ``None``: not known.
    :param containers: of active pods; ``None``: not known.
    :param node_bytes: memory of each NUMA node as the running kernel reports it; ``None``: not read.
    """

    at_ns: int
    cpus_online: CpuSet
    cpu: CpuStateFile | None = None
    memory: MemoryStateFile | None = None
    devices: DeviceStateFile | None = None
    """``None``: not read, or no plugin has registered any."""
    cpu_policy: str | None = None
    memory_policy: str | None = None
    containers: tuple[KnownContainer, ...] | None = None
    node_bytes: dict[int, int] | None = None
    union_known: bool = True
    """Whether it is known which CPUs pool and assignments make up: under strict reservation all but the reserved."""
    reserved_cpus: CpuSet | None = None
    """CPUs that were configured as reserved, as far as known; ``None``: no configuration was read, or not noted yet."""
    strict_reservation: bool = False
    """Whether they are in no set then."""
    cpu_written_at: str = ""
    """When the CPU manager's file was written last, by its own time: ISO 8601, UTC; empty: not read."""
    memory_written_at: str = ""
    """The same of the memory manager's file."""
    modelled: bool = False
    """Whether pinproof's model wrote the files, because no kubelet is here."""
