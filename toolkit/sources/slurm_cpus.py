"""Which of the kernel's CPUs a number in Slurm's ``CPU_IDs`` is. Pure.

slurmd asks hwloc for the machine as a tree, and counts its sockets, their cores, and their threads in hwloc's logical
order: the tree from the left, siblings by their lowest CPU. What lies between a package and its cores (NUMA nodes,
dies, level 3 caches, clusters) therefore changes the numbers; caches of levels 1 and 2 do not, because Slurm leaves
them out. Where cores differ, each counts with as many threads as the machine has per core, rounded down.

Source: Slurm 22.05.8 src/slurmd/common/xcpuinfo.c (``xcpuinfo_hwloc_topo_get``, ``xcpuinfo_abs_to_mac``),
src/api/job_info.c (``CPU_IDs``), src/slurmd/slurmd/slurmd.c (``_read_config``); 23.02 and 23.11 where they differ;
hwloc 2.9 hwloc/topology.c (``hwloc__find_insert_memory_parent``), hwloc/distances.c (``hwloc__groups_by_distances``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import Cpu, Distances, Topology

PACKAGE, NUMA, L3, CORE, GROUP, DIE, MACHINE = "package", "numa", "l3", "core", "group", "die", "machine"
P_CORE, E_CORE = "core", "atom"
"""Kinds of core of hybrid x86 machines (:mod:`toolkit.host.cpu_kinds`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How a slurmd counts a machine.

    :param block_map: the kernel's CPU at each of Slurm's numbers. :param cores: of the whole machine.
    :param threads: per core, as Slurm takes them.
    """

    block_map: tuple[int, ...]
    cores: int
    threads: int

    def cpus(self, ids: CpuSet, threads: int, stride: int) -> CpuSet | None:
        """Return the CPUs that a job's cpuset has; ``None``: the machine has not so many.

        :param threads: per core, by the node's definition. :param stride: numbers from one core to the next.
        """
        cores = sorted({number // threads for number in ids})
        places = [core * stride + thread for core in cores for thread in range(threads)]
        size = len(self.block_map)
        if places[-1] >= size:
            return None
        return CpuSet.of(self.block_map[place] for place in places)


@dataclass(frozen=True, slots=True)
class _Object:
    kind: str
    cpus: CpuSet


def logical_order(topology: Topology) -> tuple[int, ...]:
    """Return the online CPUs in hwloc's logical order, with the objects that Slurm keeps."""
    return _Tree(topology, topology.online).order


def count(topology: Topology, socket: str = PACKAGE, *, all_cores: bool = True) -> Counted | None:
    """Count as slurmd does.

    :param socket: what Slurm takes for a socket: ``package``, ``l3``, or ``numa`` (the object that a node lies in).
    :param all_cores: ``False``: without the efficiency cores of a hybrid x86 machine.
    :return: ``None``: slurmd would not start (``numa_node_as_socket`` with groups on several levels).
    """
    used = topology.online if all_cores else performance_cores(topology)
    tree = _Tree(topology, used)
    kind = tree.node_kind() if socket == NUMA else socket
    if kind == GROUP and tree.is_nested(GROUP):
        return None
    inside = [[core for core in tree.of(CORE) if core <= one] for one in tree.of(kind)]
    sockets = [cores for cores in inside if cores]
    total, cpus = max(len(tree.of(CORE)), 1), len(used)
    number = max(len(sockets) or len(inside), 1)
    threads = cpus // total
    block_map = list(range(cpus))
    for place, core in enumerate(core for cores in sockets for core in cores):
        for thread, cpu in enumerate([cpu for cpu in tree.order if cpu in core][:threads]):
            at = place * threads + thread
            if cpu < cpus and at < cpus:
                block_map[at] = cpu
    return Counted(block_map=tuple(block_map), cores=total // number * number, threads=threads)


def performance_cores(topology: Topology) -> CpuSet:
    """Return the CPUs that Slurm uses since 23.02: of a hybrid x86 machine its performance cores."""
    kinds = {kind.name: kind.cpus for kind in topology.core_types}
    return kinds[P_CORE] if {P_CORE, E_CORE} <= set(kinds) else topology.online


class _Tree:
    """The objects of a machine that Slurm has hwloc keep; one that cuts through another is left out, as in hwloc."""

    def __init__(self, topology: Topology, used: CpuSet) -> None:
        self._used = used
        self._objects: list[_Object] = []
        cpus = [cpu for cpu in topology.cpus if cpu.cpu in used]
        keys: tuple[tuple[str, Callable[[Cpu], tuple[int | None, ...]]], ...] = (
            (GROUP, lambda cpu: (cpu.drawer,)),
            (GROUP, lambda cpu: (cpu.drawer, cpu.book)),
            (PACKAGE, lambda cpu: (cpu.socket_key,)),
            (DIE, lambda cpu: (cpu.socket_key, cpu.die)),
            (L3, lambda cpu: (cpu.l3_key,)),
            (CORE, lambda cpu: (cpu.core_key,)),
            (GROUP, lambda cpu: (cpu.socket_key, cpu.die, cpu.cluster)),
        )
        for kind, key in keys:
            for found in _groups(cpus, key):
                self._insert(kind, found)
        nodes = {node.id: node.cpus & used for node in topology.numa}
        self._nodes = tuple(found for found in nodes.values() if found)
        for found in (*_by_distance(nodes, topology.distances), *self._nodes):
            # A node hangs on the highest object of its CPUs; where there is none, a group is made.
            if found != used and all(found != one.cpus for one in self._objects):
                self._insert(GROUP, found)
        self.order = tuple(sorted(used, key=self._path))

    def _insert(self, kind: str, cpus: CpuSet) -> None:
        if kind == GROUP and (len(cpus) < 2 or any(one.cpus == cpus for one in self._objects)):
            return
        if all(cpus <= one.cpus or one.cpus <= cpus or not cpus & one.cpus for one in self._objects):
            self._objects.append(_Object(kind, cpus))

    def _path(self, cpu: int) -> tuple[int, ...]:
        """Return the lowest CPU of each object that holds it, from the root down."""
        holding = sorted((one.cpus for one in self._objects if cpu in one.cpus), key=len, reverse=True)
        return (*(cpus.first() for cpus in holding), cpu)

    def of(self, kind: str) -> list[CpuSet]:
        """Return the objects of one kind in their logical order."""
        if kind == MACHINE:
            return [self._used]
        place = {cpu: number for number, cpu in enumerate(self.order)}
        found = {one.cpus for one in self._objects if one.kind == kind}
        return sorted(found, key=lambda cpus: min(place[cpu] for cpu in cpus))

    def is_nested(self, kind: str) -> bool:
        """Say whether objects of a kind lie in each other."""
        found = self.of(kind)
        return any(one < other for one in found for other in found)

    def node_kind(self) -> str:
        """Return what the first NUMA node lies in."""
        if not self._nodes:
            return PACKAGE
        place = {cpu: number for number, cpu in enumerate(self.order)}
        first = min(self._nodes, key=lambda cpus: min(place[cpu] for cpu in cpus))
        kinds = {one.kind for one in self._objects if one.cpus == first}
        return next((kind for kind in (PACKAGE, DIE, GROUP, L3, CORE) if kind in kinds), MACHINE)


def _groups(cpus: Iterable[Cpu], key: Callable[[Cpu], tuple[int | None, ...]]) -> list[CpuSet]:
    found: dict[tuple[int | None, ...], list[int]] = {}
    for cpu in cpus:
        ids = key(cpu)
        if ids[-1] is not None:
            found.setdefault(ids, []).append(cpu.cpu)
    return [CpuSet.of(members) for members in found.values()]


def _by_distance(nodes: dict[int, CpuSet], distances: Distances | None) -> list[CpuSet]:
    """Return the groups of nodes that are nearest to each other, then those of such groups, as hwloc makes them."""
    if distances is None or set(distances.ids) != set(nodes):
        return []
    matrix: list[list[Fraction]] = [[Fraction(value) for value in row] for row in distances.matrix]
    size = len(matrix)
    square = all(len(row) == size for row in matrix)
    if not square or any(
        matrix[i][j] != matrix[j][i] or matrix[i][j] <= matrix[i][i] for i in range(size) for j in range(size) if i != j
    ):
        return []
    sets = [nodes[number] for number in distances.ids]
    found: list[CpuSet] = []
    while len(sets) > 2 and (members := _nearest(matrix)):
        sets = [CpuSet.union(sets[one] for one in group) for group in members]
        found += [cpus for cpus in sets if cpus]
        matrix = [
            [sum((matrix[i][j] for i in a for j in b), Fraction(0)) / (len(a) * len(b)) for b in members]
            for a in members
        ]
    return found


def _nearest(matrix: Sequence[Sequence[Fraction]]) -> list[list[int]]:
    """Return groups of two and more that are connected by the smallest distance; one group of all is none."""
    size = len(matrix)
    least = min(matrix[i][j] for i in range(size) for j in range(size) if i != j)
    seen: set[int] = set()
    groups = []
    for start in range(size):
        if start in seen:
            continue
        group = [start]
        seen.add(start)
        for one in group:
            near = [other for other in range(size) if other not in seen and matrix[one][other] == least]
            seen.update(near)
            group += near
        if len(group) > 1:
            groups.append(sorted(group))
    return [] if len(groups) == 1 and len(groups[0]) == size else groups
