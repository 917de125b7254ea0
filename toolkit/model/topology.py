"""The machine's hardware as the kernel describes it: CPUs, cores, sockets, caches, NUMA nodes, PCI devices.

Facts only, with the kernel's own ids beside *keys* (the lowest online CPU of a group), because ``core_id`` repeats
between packages and ``physical_package_id`` between s390 books. The kubelet's view is a separate value
(:class:`KubeletView`): what cAdvisor's discovery makes of the same files, with its gaps.

Source: Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-system-cpu,
Documentation/ABI/stable/sysfs-devices-node; docs/principles.md for the field names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """One logical CPU. Everything but ``cpu`` and ``online`` is ``None`` when offline or when the kernel does not say.

    :param core: ``core_id``, not unique. :param core_key: lowest online CPU of the physical core.
    :param socket: ``physical_package_id``. :param socket_key: lowest online CPU of the package.
    :param die, cluster, book, drawer: the kernel's ids (books and drawers exist on s390).
    :param l3: the kernel's id of the level 3 cache. :param l3_key: lowest online CPU that shares it.
    :param siblings: ``thread_siblings``.
    """

    cpu: int
    online: bool
    core: int | None = None
    core_key: int | None = None
    siblings: CpuSet | None = None
    socket: int | None = None
    socket_key: int | None = None
    numa: int | None = None
    die: int | None = None
    cluster: int | None = None
    book: int | None = None
    drawer: int | None = None
    l3: int | None = None
    l3_key: int | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """One NUMA node.

    :param cpus: online CPUs. :param memory_only: it has no CPU.
    :param hugepages_kb: page size in kB -> ``nr_hugepages``; ``None`` where the kernel has no such folder.
    """

    id: int
    cpus: CpuSet
    mem_bytes: int | None
    memory_only: bool
    hugepages_kb: dict[str, int] | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """``matrix[i]`` is the ``distance`` file of node ``ids[i]``."""

    ids: tuple[int, ...]
    matrix: tuple[tuple[int, ...], ...]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLists:
    """The kernel's lists as text, unparsed (``nohz_full`` may be the words ``(null)``); ``None``: no such file."""

    online: str | None = None
    offline: str | None = None
    present: str | None = None
    possible: str | None = None
    isolated: str | None = None
    nohz_full: str | None = None
    smt_active: str | None = None
    smt_control: str | None = None
    cmdline: str | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """A PCI device and the NUMA node that it hangs on (-1: the firmware does not say).

    In files ``pci_class`` is called ``class``, a word that Python keeps for itself.
    """

    bdf: str
    pci_class: str | None = None
    vendor: str | None = None
    device: str | None = None
    numa_node: int | None = None
    local_cpulist: str | None = None

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {"class" if name == "pci_class" else name: value for name, value in write(self).items()}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        return {"pci_class" if name == "class" else name: value for name, value in data.items()}


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CoreType:
    """CPUs of one kind on a machine with several (``core``/``atom``, Arm part numbers, or capacities)."""

    name: str
    cpus: CpuSet


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCpu:
    """One CPU as cAdvisor's MachineInfo places it.

    :param core_key: lowest thread of the core, which the CPU manager uses as its core id.
    :param uncore_cache_id: ``None``: MachineInfo has no uncore cache for the core (the kubelet then takes the socket).
    """

    core_id: int
    core_key: int
    socket: int
    numa: int
    uncore_cache_id: int | None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletNode:
    """One node of MachineInfo. :param node_l3: ids of the level 3 caches that span exactly the node's threads."""

    id: int
    memory: int
    cpus: CpuSet
    hugepages_kb: dict[str, int]
    distances: tuple[int, ...] | None
    node_l3: tuple[int, ...]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletView:
    """What cAdvisor's ``GetNodesInfo`` returns on this machine; ``error``: why it gives up (no kubelet starts)."""

    error: str | None = None
    cpus: dict[int, KubeletCpu] = field(default_factory=dict)
    logical_cpus: int = 0
    nodes: tuple[KubeletNode, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The whole machine.

    :param smt_level: most online threads of any core. :param threads_per_core: threads -> number of such cores.
    :param isolated, nohz_full: the lists, parsed; empty if there are none.
    :param problems: files whose content makes no sense and was ignored.
    """

    cpus: tuple[Cpu, ...]
    numa: tuple[NumaNode, ...] = ()
    distances: Distances | None = None
    smt_level: int | None = None
    threads_per_core: dict[str, int] = field(default_factory=dict)
    lists: CpuLists = field(default_factory=CpuLists)
    pci: tuple[PciDevice, ...] = ()
    kubelet: KubeletView = field(default_factory=KubeletView)
    arch: str | None = None
    cpu_model: str | None = None
    isolated: CpuSet = field(default_factory=CpuSet)
    nohz_full: CpuSet = field(default_factory=CpuSet)
    core_types: tuple[CoreType, ...] = ()
    mem_total_bytes: int | None = None
    hugepages_kb: dict[str, int] | None = None
    problems: tuple[str, ...] = ()

    @property
    def online(self) -> CpuSet:
        """The online CPUs."""
        return CpuSet.of(cpu.cpu for cpu in self.cpus if cpu.online)

    @property
    def offline(self) -> CpuSet:
        """CPUs that have a directory but are not online."""
        return CpuSet.of(cpu.cpu for cpu in self.cpus if not cpu.online)

    def groups(self, key: Callable[[Cpu], int | None]) -> dict[int, CpuSet]:
        """Group online CPUs, e.g. ``groups(lambda cpu: cpu.l3_key)``; CPUs whose key is ``None`` are left out."""
        masks: dict[int, int] = {}
        for cpu in self.cpus:
            value = key(cpu) if cpu.online else None
            if value is not None:
                masks[value] = masks.get(value, 0) | 1 << cpu.cpu
        return {value: CpuSet(masks[value]) for value in sorted(masks)}

    @property
    def cores(self) -> dict[int, CpuSet]:
        """Physical cores by ``core_key``."""
        return self.groups(lambda cpu: cpu.core_key)

    @property
    def sockets(self) -> dict[int, CpuSet]:
        """Packages by ``socket_key``."""
        return self.groups(lambda cpu: cpu.socket_key)

    @property
    def l3_groups(self) -> dict[int, CpuSet]:
        """Level 3 cache domains by ``l3_key``."""
        return self.groups(lambda cpu: cpu.l3_key)

    @property
    def numa_cpus(self) -> dict[int, CpuSet]:
        """Online CPUs by NUMA node id, nodes without CPUs included."""
        return {node.id: node.cpus for node in self.numa}
