"""Reads what a machine's configuration says about isolation; of files only, below a root. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.errors import InputError
from toolkit.host.sysfs import SysTree
from toolkit.model.cgroup_manager import kubepods_below
from toolkit.model.cpuset import CpuSet
from toolkit.model.isolation import InterruptMask, IsolationFacts, Partition
from toolkit.model.topology import Topology

WORKQUEUES = "sys/devices/virtual/workqueue/cpumask"
DEFAULT_INTERRUPTS = "proc/irq/default_smp_affinity"
CGROUPS = ("sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/cpuset")
IRQBALANCE_FILES = ("etc/default/irqbalance", "etc/sysconfig/irqbalance")
DEPTH = 4
MAX_CGROUPS = 4096
MAX_PROCESSES = 20_000
_BANNED = re.compile(
    r"^\s*(?:export\s+)?IRQBALANCE_BANNED_CPU(S|LIST)=[\"']?([0-9a-fA-F,x-]{1,8192})[\"']?", re.MULTILINE
)


def read_isolation(tree: SysTree, topology: Topology, cgroup_root: str = "") -> IsolationFacts:
    """Read the facts. :param topology: of the same machine. :param cgroup_root: the kubelet's; empty: the root."""
    cmdline = tree.name("proc/cmdline")
    cgroups = list(_cgroups(tree))
    return IsolationFacts(
        kernel=tree.name("proc/sys/kernel/osrelease") or "",
        kernel_build=tree.name("proc/sys/kernel/version") or "",
        online=topology.online,
        isolated=topology.isolated,
        nohz_full=topology.nohz_full,
        rcu_nocbs=None if cmdline is None else _parameter(cmdline, "rcu_nocbs", topology.online),
        interrupts=_interrupts(tree),
        default_interrupts=tree.cpu_map(DEFAULT_INTERRUPTS),
        irqbalance=_runs(tree, "irqbalance"),
        irqbalance_banned=_banned(tree),
        workqueues=tree.cpu_map(WORKQUEUES),
        partitions=tuple(_partitions(tree, cgroups)),
        kubepods=_kubepods(tree, kubepods_below(cgroup_root)),
        discovery_error=topology.kubelet.error,
    )


def _parameter(cmdline: str, name: str, everything: CpuSet) -> CpuSet:
    """Return the CPUs of a boot parameter: a list, or ``all``; what is no list counts as none."""
    for word in reversed(cmdline.split()):
        key, _, text = word.partition("=")
        if key != name:
            continue
        if text == "all":
            return everything
        try:
            return CpuSet.parse(text)
        except InputError:
            return CpuSet()
    return CpuSet()


def _interrupts(tree: SysTree) -> tuple[InterruptMask, ...] | None:
    """Return where interrupts go: the effective mask where the kernel has one, else the one that was asked for."""
    if not tree.is_folder("proc/irq"):
        return None
    found = []
    for irq in tree.numbered("proc/irq", ""):
        for name in ("effective_affinity_list", "smp_affinity_list"):
            cpus = tree.cpu_list(f"proc/irq/{irq}/{name}")
            if cpus:
                found.append(InterruptMask(irq=irq, cpus=cpus, path=f"/proc/irq/{irq}/{name}"))
                break
    return tuple(found)


def _runs(tree: SysTree, name: str) -> bool | None:
    if not tree.exists("proc/cmdline"):
        return None
    return any(tree.name(f"proc/{pid}/comm") == name for pid in tree.numbered("proc", "")[:MAX_PROCESSES])


def _banned(tree: SysTree) -> CpuSet | None:
    for path in IRQBALANCE_FILES:
        found = _BANNED.findall(tree.read(path) or "")
        if found:
            kind, text = found[-1]
            try:
                return CpuSet.parse(text) if kind == "LIST" else CpuSet.parse_mask(text.removeprefix("0x"))
            except InputError:
                tree.note(path, "the CPUs that are banned cannot be read")
    return None


def _cgroups(tree: SysTree) -> Iterator[str]:
    """Walk the v2 hierarchy, a few levels deep: partitions are made near the root."""
    root = next((place for place in CGROUPS[:2] if tree.exists(f"{place}/cgroup.controllers")), None)
    pending = [] if root is None else [(root, 0)]
    seen = 0
    while pending and seen < MAX_CGROUPS:
        place, depth = pending.pop()
        seen += 1
        yield place
        if depth < DEPTH:
            children = (f"{place}/{name}" for name in tree.names(place))
            pending += [(child, depth + 1) for child in children if tree.is_folder(child)]


def _partitions(tree: SysTree, cgroups: list[str]) -> Iterator[Partition]:
    for place in cgroups:
        kind = tree.name(f"{place}/cpuset.cpus.partition")
        if kind and kind != "member":
            cpus = tree.cpu_list(f"{place}/cpuset.cpus") or CpuSet()
            yield Partition(path=f"/{place}/cpuset.cpus.partition", kind=kind, cpus=cpus)


def _kubepods(tree: SysTree, names: tuple[str, ...]) -> dict[str, CpuSet]:
    found = {}
    for root in CGROUPS:
        for name in names:
            for file in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
                cpus = tree.cpu_list(f"{root}/{name}/{file}")
                if cpus:
                    found[f"/{root}/{name}/{file}"] = cpus
    return found
