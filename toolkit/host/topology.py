"""Reads the hardware from sysfs: what the kernel says, of this machine or of an unpacked dump of another.

Every file may be missing. Where the kernel gives both a mask and ids, groups come from the masks (ids repeat) and the
ids are passed on as they are. Masks are read before lists: they are the older interface, and the one that hwloc, lscpu
and cAdvisor read. The kubelet's own reading is :mod:`toolkit.host.kubelet_view`.

Source: Documentation/admin-guide/cputopology.rst; Documentation/ABI/stable/sysfs-devices-system-cpu and
sysfs-devices-node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.cpu_kinds import architecture, cpu_model, read_core_types, read_cpuinfo
from toolkit.host.kubelet_view import read_kubelet_view
from toolkit.host.pci import read_pci
from toolkit.host.sysfs import PROC_BYTES, SysTree
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.topology import Cpu, CpuLists, Distances, NumaNode, Topology

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
_MEM_TOTAL = re.compile(r"MemTotal:\s*(\d{1,18}) kB", re.ASCII)
_HUGEPAGES = re.compile(r"hugepages-(\d{1,12})kB", re.ASCII)


def read_topology(sysroot: Path | SysTree = Path("/"), *, but_not: CpuSet = EMPTY) -> Topology:
    """Read the machine below ``sysroot``.

    :param sysroot: or its files, wherever they are.
    :param but_not: CPUs to take for offline: what is planned for the machine then leaves them alone.
    :raises InputError: there is no CPU folder at all, or a file is larger than any kernel would make it.
    """
    tree = sysroot if isinstance(sysroot, SysTree) else SysTree(sysroot)
    present = tree.numbered(_CPU, "cpu")
    if but_not:
        tree.replaced[f"{_CPU}/online"] = str(_online(tree, present) - but_not).encode()
    if not present:
        raise InputError(
            tree.root or "/", f"no {_CPU}/cpuN folder", "/ or a folder that holds a machine's sys and proc"
        )
    online = _online(tree, present)
    node_of = _nodes_of_cpus(tree, online)
    cpus = _cpus(tree, present, online, node_of)
    threads = Counter(cpu.core_key for cpu in cpus if cpu.core_key is not None)
    histogram = Counter(threads.values())
    cpuinfo = read_cpuinfo(tree)
    arch = architecture(tree, cpuinfo)
    lists = _lists(tree)
    return Topology(
        cpus=cpus,
        numa=_numa(tree, online),
        distances=_distances(tree),
        smt_level=max(histogram, default=None),
        threads_per_core={str(level): histogram[level] for level in sorted(histogram)},
        lists=lists,
        pci=read_pci(tree),
        kubelet=read_kubelet_view(tree, s390x=arch == "s390x"),
        arch=arch,
        cpu_model=cpu_model(cpuinfo),
        isolated=tree.cpu_list(f"{_CPU}/isolated") or CpuSet(),
        nohz_full=tree.cpu_list(f"{_CPU}/nohz_full") or CpuSet(),
        core_types=read_core_types(tree, online),
        mem_total_bytes=_mem_total(tree, "proc/meminfo"),
        hugepages_kb=_hugepages(tree, "sys/kernel/mm/hugepages"),
        problems=tuple(dict.fromkeys(tree.problems)),
    )


def _online(tree: SysTree, present: tuple[int, ...]) -> CpuSet:
    """Return the online CPUs: the list, or each CPU's own file; a CPU without one cannot go offline."""
    listed = tree.cpu_list(f"{_CPU}/online")
    folders = CpuSet.of(present)
    if listed is not None and listed & folders:
        if listed - folders:
            tree.note(f"{_CPU}/online", f"no folder for CPUs {str(listed - folders)[:80]}")
        return listed & folders
    return CpuSet.of(cpu for cpu in present if tree.integer(f"{_CPU}/cpu{cpu}/online") != 0)


def _lists(tree: SysTree) -> CpuLists:
    return CpuLists(
        online=tree.read(f"{_CPU}/online"),
        offline=tree.read(f"{_CPU}/offline"),
        present=tree.read(f"{_CPU}/present"),
        possible=tree.read(f"{_CPU}/possible"),
        isolated=tree.read(f"{_CPU}/isolated"),
        nohz_full=tree.read(f"{_CPU}/nohz_full"),
        smt_active=tree.read(f"{_CPU}/smt/active"),
        smt_control=tree.read(f"{_CPU}/smt/control"),
        cmdline=tree.name("proc/cmdline"),
    )


def _cpus(tree: SysTree, present: tuple[int, ...], online: CpuSet, node_of: dict[int, int]) -> tuple[Cpu, ...]:
    facts: dict[int, dict[str, int | None]] = {}
    siblings: dict[int, CpuSet | None] = {}
    packages: dict[int, CpuSet | None] = {}
    l3: dict[int, tuple[int | None, CpuSet | None]] = {}
    for cpu in online:
        folder = f"{_CPU}/cpu{cpu}/topology"
        names = ("core_id", "physical_package_id", "die_id", "cluster_id", "book_id", "drawer_id")
        facts[cpu] = {name: tree.integer(f"{folder}/{name}") for name in names}
        siblings[cpu] = tree.cpus(f"{folder}/thread_siblings", f"{folder}/core_cpus")
        packages[cpu] = tree.cpus(f"{folder}/core_siblings", f"{folder}/package_cpus")
        l3[cpu] = _l3(tree, cpu)

    def package_ids(cpu: int) -> tuple[int | None, ...] | None:
        ids = facts[cpu]
        if ids["physical_package_id"] is None:
            return None
        return ids["drawer_id"], ids["book_id"], ids["physical_package_id"]

    def core_ids(cpu: int) -> tuple[int | None, ...] | None:
        # Core ids restart in every node of some packages (AMD Magny-Cours) and in every die.
        package, ids = package_ids(cpu), facts[cpu]
        return (
            None
            if package is None or ids["core_id"] is None
            else (*package, node_of.get(cpu), ids["die_id"], ids["core_id"])
        )

    core_key = _keys(online, siblings, core_ids)
    socket_key = _keys(online, packages, package_ids)
    l3_key = _keys(online, {cpu: shared for cpu, (_, shared) in l3.items()}, lambda cpu: None)
    return tuple(
        Cpu(
            cpu=cpu,
            online=True,
            core=facts[cpu]["core_id"],
            core_key=core_key[cpu],
            siblings=siblings[cpu],
            socket=facts[cpu]["physical_package_id"],
            socket_key=socket_key[cpu],
            numa=node_of.get(cpu),
            die=facts[cpu]["die_id"],
            cluster=facts[cpu]["cluster_id"],
            book=facts[cpu]["book_id"],
            drawer=facts[cpu]["drawer_id"],
            l3=l3[cpu][0],
            l3_key=l3_key[cpu],
        )
        if cpu in online
        else Cpu(cpu=cpu, online=False)
        for cpu in present
    )


def _keys(
    online: CpuSet, masks: dict[int, CpuSet | None], ids_of: Callable[[int], tuple[int | None, ...] | None]
) -> dict[int, int | None]:
    """Name each CPU's group by its lowest online CPU: from its mask, or else from equal ids."""
    lowest: dict[tuple[int | None, ...], int] = {}
    keys: dict[int, int | None] = {}
    for cpu in online:
        mask = masks[cpu]
        ids = ids_of(cpu)
        if mask is not None and cpu in mask:
            keys[cpu] = (mask & online).first()
        else:
            keys[cpu] = None if ids is None else lowest.setdefault(ids, cpu)
    return keys


def _l3(tree: SysTree, cpu: int) -> tuple[int | None, CpuSet | None]:
    """Return the level 3 cache's id and sharers; a cache that does not name its sharers counts as none."""
    folder = f"{_CPU}/cpu{cpu}/cache"
    for index in tree.numbered(folder, "index"):
        path = f"{folder}/index{index}"
        if tree.integer(f"{path}/level") == 3 and tree.read(f"{path}/type") != "Instruction":
            return tree.integer(f"{path}/id"), tree.cpus(f"{path}/shared_cpu_map", f"{path}/shared_cpu")
    return None, None


def _node_cpus(tree: SysTree, node: int) -> CpuSet:
    folder = f"{_NODE}/node{node}"
    found = tree.cpu_map(f"{folder}/cpumap")
    if found is None:
        found = tree.cpu_list(f"{folder}/cpulist")
    return CpuSet.of(tree.numbered(folder, "cpu")) if found is None else found


def _nodes_of_cpus(tree: SysTree, online: CpuSet) -> dict[int, int]:
    """Return each CPU's node. Emulated nodes (``numa=fake``) can share CPUs: then the CPU's own link decides."""
    found: dict[int, list[int]] = {}
    for node in tree.numbered(_NODE, "node"):
        for cpu in _node_cpus(tree, node) & online:
            found.setdefault(cpu, []).append(node)
    chosen = {}
    for cpu in online:
        nodes = found.get(cpu, [])
        if len(nodes) != 1:
            linked = [node for node in tree.numbered(f"{_CPU}/cpu{cpu}", "node") if not nodes or node in nodes]
            nodes = linked or nodes
        if nodes:
            chosen[cpu] = nodes[0]
    return chosen


def _numa(tree: SysTree, online: CpuSet) -> tuple[NumaNode, ...]:
    nodes = []
    for node in tree.numbered(_NODE, "node"):
        cpus = _node_cpus(tree, node) & online
        nodes.append(
            NumaNode(
                id=node,
                cpus=cpus,
                mem_bytes=_mem_total(tree, f"{_NODE}/node{node}/meminfo"),
                memory_only=not cpus,
                hugepages_kb=_hugepages(tree, f"{_NODE}/node{node}/hugepages"),
            )
        )
    return tuple(nodes)


def _distances(tree: SysTree) -> Distances | None:
    ids = []
    matrix = []
    for node in tree.numbered(_NODE, "node"):
        path = f"{_NODE}/node{node}/distance"
        text = tree.read(path)
        if text is None:
            continue
        row = text.split()
        if not row or not all(re.fullmatch(r"\d{1,9}", word, re.ASCII) for word in row):
            tree.note(path, f"{text[:40]!r} is not a row of distances; ignored")
            continue
        ids.append(node)
        matrix.append(tuple(int(word) for word in row))
    return Distances(ids=tuple(ids), matrix=tuple(matrix)) if ids else None


def _mem_total(tree: SysTree, path: str) -> int | None:
    match = _MEM_TOTAL.search(tree.read(path, PROC_BYTES) or "")
    return None if match is None else int(match[1]) * 1024


def _hugepages(tree: SysTree, folder: str) -> dict[str, int] | None:
    if not tree.is_folder(folder):
        return None
    matches = (_HUGEPAGES.fullmatch(name) for name in tree.names(folder))
    counts = {match[1]: tree.integer(f"{folder}/{match[0]}/nr_hugepages") for match in matches if match}
    return {size: count for size, count in counts.items() if count is not None}
