"""The machine as the kubelet's resource managers see it: ids and groups on integer bitmasks, immutable.

It is not the hardware's truth (that is :mod:`toolkit.model.topology`): the identity of a core is its lowest online
logical CPU, a core without an uncore cache takes the id of its socket, and "CPUs per core" is a quotient of totals
even where cores differ. The managers' decisions follow from exactly these simplifications.

Source: ``docs/simulate-format.md`` section "MACHINE"; Kubernetes documentation "Control CPU Management Policies".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.errors import InputError
from toolkit.model.cpuset import MAX_ID, CpuSet
from toolkit.model.topology import KubeletView
from toolkit.text.wording import kind_of

_PAGE_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineNode:
    """One NUMA node's memory. :param hugepages: page size in bytes -> number of pages.

    :param distances: to the nodes in the order of :attr:`Machine.nodes`; ``None``: not reported.
    """

    id: int
    memory_bytes: int
    hugepages: Mapping[int, int]
    distances: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCpu:
    """Where one online CPU sits."""

    cpu: int
    core: int
    socket: int
    numa: int
    uncore: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Machine:
    """The CPU topology and the nodes' memory. Compared by identity, so that it can key caches.

    Every ``*_masks`` maps an id to the bitmask of its online CPUs, in ascending order of the ids.
    ``numa_masks`` has only the nodes with CPUs; ``nodes`` has all of them.
    """

    cpus: CpuSet
    num_cpus: int
    details: Mapping[int, MachineCpu]
    core_masks: Mapping[int, int]
    socket_masks: Mapping[int, int]
    numa_masks: Mapping[int, int]
    uncore_masks: Mapping[int, int]
    nodes: tuple[MachineNode, ...]
    irregular: bool
    """Whether some core or socket differs from the average that the kubelet takes it for."""
    description: str = ""

    @property
    def num_cores(self) -> int:
        """Physical cores."""
        return len(self.core_masks)

    @property
    def num_sockets(self) -> int:
        """Sockets."""
        return len(self.socket_masks)

    @property
    def num_numa(self) -> int:
        """NUMA nodes that have CPUs."""
        return len(self.numa_masks)

    @property
    def num_uncore(self) -> int:
        """Uncore (level 3) caches, or sockets where there is no such information."""
        return len(self.uncore_masks)

    @property
    def cpus_per_core(self) -> int:
        """Threads per core: an integer quotient of totals, whatever the single cores have."""
        return self.num_cpus // self.num_cores if self.core_masks else 0

    @property
    def cpus_per_socket(self) -> int:
        """CPUs per socket: an integer quotient of totals."""
        return self.num_cpus // self.num_sockets if self.socket_masks else 0

    @property
    def cpus_per_uncore(self) -> int:
        """CPUs per uncore cache: an integer quotient of totals."""
        return self.num_cpus // self.num_uncore if self.uncore_masks else 0

    def cpus_in_numa(self, nodes: Iterable[int]) -> CpuSet:
        """Return the CPUs of some NUMA nodes; ids without CPUs add nothing."""
        mask = 0
        for node in nodes:
            mask |= self.numa_masks.get(node, 0)
        return CpuSet(mask)

    def whole_cores(self, cpus: CpuSet) -> CpuSet:
        """Return the CPUs together with all their siblings."""
        mask = 0
        for core in self.core_masks.values():
            if core & cpus.mask:
                mask |= core
        return CpuSet(mask)

    def sockets_of_numa(self, nodes: Iterable[int]) -> frozenset[int]:
        """Return the sockets that some NUMA nodes touch."""
        mask = self.cpus_in_numa(nodes).mask
        return frozenset(socket for socket, cpus in self.socket_masks.items() if cpus & mask)

    @classmethod
    def build(
        cls, cpus: Iterable[MachineCpu], nodes: Iterable[MachineNode], *, num_cpus: int = 0, description: str = ""
    ) -> Machine:
        """Build from CPUs whose ``core`` is any label unique in the machine; it becomes the lowest CPU of the core."""
        rows = sorted(cpus, key=lambda row: row.cpu)
        lowest: dict[int, int] = {}
        for row in rows:
            lowest.setdefault(row.core, row.cpu)
        details = {
            row.cpu: MachineCpu(cpu=row.cpu, core=lowest[row.core], socket=row.socket, numa=row.numa, uncore=row.uncore)
            for row in rows
        }
        core_masks = _group((row.core, row.cpu) for row in details.values())
        socket_masks = _group((row.socket, row.cpu) for row in details.values())
        total = num_cpus or len(details)
        return cls(
            cpus=CpuSet.of(details),
            num_cpus=total,
            details=details,
            core_masks=core_masks,
            socket_masks=socket_masks,
            numa_masks=_group((row.numa, row.cpu) for row in details.values()),
            uncore_masks=_group((row.uncore, row.cpu) for row in details.values()),
            nodes=tuple(sorted(nodes, key=lambda node: node.id)),
            irregular=any(
                mask.bit_count() != total // len(masks)
                for masks in (core_masks, socket_masks)
                for mask in masks.values()
            ),
            description=description,
        )

    @classmethod
    def from_vector(cls, data: object, where: str = "machine") -> Machine:
        """Read a MACHINE of the vectors format.

        :raises InputError: wrong types, CPUs given twice, ids out of range.
        """
        if not isinstance(data, dict) or not isinstance(data.get("cpus"), list):
            raise InputError(where, "no list of CPUs", "cpus: [[cpu, core, socket, numa, l3], ...]")
        rows = [_vector_cpu(row, f"{where}.cpus[{i}]") for i, row in enumerate(data["cpus"])]
        if len({row.cpu for row in rows}) != len(rows):
            raise InputError(f"{where}.cpus", "a CPU twice", "one row per online CPU")
        numa = data.get("numa", [])
        if not isinstance(numa, list):
            raise InputError(f"{where}.numa", kind_of(numa), "a list")
        nodes = [_vector_node(node, f"{where}.numa[{i}]") for i, node in enumerate(numa)]
        if len({node.id for node in nodes}) != len(nodes):
            raise InputError(f"{where}.numa", "a node twice", "one entry per node")
        return cls.build(rows, nodes, description=str(data.get("description", "")))

    @classmethod
    def from_topology(cls, view: KubeletView, where: str = "topology") -> Machine:
        """Take over what the kubelet's discovery finds on a machine.

        :raises InputError: discovery fails there, so that a kubelet would not start either.
        """
        if view.error is not None or not view.cpus:
            raise InputError(where, view.error or "no CPU found", "a machine on which the kubelet starts")
        rows = [
            MachineCpu(
                cpu=cpu,
                core=place.core_key,
                socket=place.socket,
                numa=place.numa,
                uncore=place.socket if place.uncore_cache_id is None else place.uncore_cache_id,
            )
            for cpu, place in view.cpus.items()
        ]
        nodes = [
            MachineNode(
                id=node.id,
                memory_bytes=node.memory,
                hugepages={int(size) * 1024: pages for size, pages in node.hugepages_kb.items()},
                distances=node.distances,
            )
            for node in view.nodes
        ]
        return cls.build(rows, nodes, num_cpus=view.logical_cpus)


def _group(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    masks: dict[int, int] = {}
    for key, cpu in pairs:
        masks[key] = masks.get(key, 0) | 1 << cpu
    return {key: masks[key] for key in sorted(masks)}


def _id(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= MAX_ID:
        raise InputError(where, repr(value)[:40], f"an id from 0 to {MAX_ID}")
    return value


def _count(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise InputError(where, repr(value)[:40], "a number that is not negative")
    return value


def _vector_cpu(row: Any, where: str) -> MachineCpu:
    if not isinstance(row, list) or len(row) != 5:
        raise InputError(where, repr(row)[:60], "[cpu, core, socket, numa, l3]")
    socket = _id(row[2], where)
    return MachineCpu(
        cpu=_id(row[0], where),
        core=_id(row[1], where),
        socket=socket,
        numa=_id(row[3], where),
        uncore=socket if row[4] is None else _id(row[4], where),
    )


def _vector_node(node: Any, where: str) -> MachineNode:
    if not isinstance(node, dict):
        raise InputError(where, kind_of(node), "{id, memory, hugepages, distances}")
    hugepages = node.get("hugepages") or {}
    if not isinstance(hugepages, dict):
        raise InputError(f"{where}.hugepages", kind_of(hugepages), "page size -> number of pages")
    distances = node.get("distances")
    if distances is not None and not isinstance(distances, list):
        raise InputError(f"{where}.distances", kind_of(distances), "a list of numbers")
    return MachineNode(
        id=_id(node.get("id"), f"{where}.id"),
        memory_bytes=_count(node.get("memory", 0), f"{where}.memory"),
        hugepages={
            _page_bytes(size, f"{where}.hugepages"): _count(pages, f"{where}.hugepages")
            for size, pages in hugepages.items()
        },
        distances=None if distances is None else tuple(_count(d, f"{where}.distances") for d in distances),
    )


def _page_bytes(size: Any, where: str) -> int:
    text = str(size)
    if text[-2:] not in _PAGE_UNITS or not text[:-2].isascii() or not text[:-2].isdigit() or len(text) > 12:
        raise InputError(where, repr(text)[:40], "a page size such as 2Mi or 1Gi")
    return int(text[:-2]) * _PAGE_UNITS[text[-2:]]
