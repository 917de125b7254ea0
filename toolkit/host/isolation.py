"""Reads what a machine's configuration says about isolation; of files only, below a root. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolkit.errors import InputError
from toolkit.host.irqbalance import read_irqbalance
from toolkit.host.sysfs import SysTree
from toolkit.model.cgroup_manager import kubepods_below
from toolkit.model.cpuset import CpuSet
from toolkit.model.isolation import InterruptMask, IsolationFacts, Partition, Unread
from toolkit.model.topology import Topology

CPU = "sys/devices/system/cpu"
WORKQUEUES = "sys/devices/virtual/workqueue/cpumask"
DEFAULT_INTERRUPTS = "proc/irq/default_smp_affinity"
CGROUPS = ("sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/cpuset")
DEPTH = 4
MAX_CGROUPS = 4096


def read_isolation(tree: SysTree, topology: Topology, cgroup_root: str = "") -> IsolationFacts:
    """Read the facts. :param topology: of the same machine. :param cgroup_root: the kubelet's; empty: the root."""
    reader = _Reader(tree, _last_cpu(tree, topology))
    cgroups = list(_cgroups(tree))
    reader.known(f"{CPU}/isolated", tree.cpu_list, "which CPUs are isolated")
    reader.known(f"{CPU}/nohz_full", tree.cpu_list, "which CPUs are tickless")
    return IsolationFacts(
        kernel=tree.name("proc/sys/kernel/osrelease") or "",
        kernel_build=tree.name("proc/sys/kernel/version") or "",
        online=topology.online,
        isolated=topology.isolated,
        nohz_full=topology.nohz_full,
        rcu_nocbs=reader.parameter("rcu_nocbs", "which CPUs have their RCU callbacks elsewhere"),
        interrupts=reader.interrupts(),
        default_interrupts=reader.known(DEFAULT_INTERRUPTS, tree.cpu_map, "where interrupts of new devices go"),
        irqbalance=read_irqbalance(tree),
        workqueues=reader.known(WORKQUEUES, tree.cpu_map, "where unbound kernel workers run"),
        partitions=tuple(reader.partitions(cgroups)),
        kubepods=reader.kubepods(kubepods_below(cgroup_root)),
        discovery_error=topology.kubelet.error,
        unread=tuple(reader.unread),
    )


def _last_cpu(tree: SysTree, topology: Topology) -> int:
    """Return the number that ``N`` stands for: of the last CPU that the kernel can have."""
    for name in ("possible", "present"):
        if cpus := tree.cpu_list(f"{CPU}/{name}"):
            return max(cpus)
    return max((cpu.cpu for cpu in topology.cpus), default=0)


class _Reader:
    """Reads lists and masks; what exists and cannot be read is kept, and never taken for an empty set."""

    def __init__(self, tree: SysTree, last: int) -> None:
        self.tree, self.last = tree, last
        self.unread: list[Unread] = []

    def known(self, path: str, read: Callable[[str], CpuSet | None], what: str) -> CpuSet | None:
        """Return what a file says; ``None``: it does not exist, or it is noted. :param what: it is for."""
        found = read(path)
        if found is None and self.tree.exists(path):
            self._note(f"/{path}", self.tree.name(path), what)
        return found

    def _note(self, path: str, text: str | None, what: str) -> None:
        value = "it cannot be read" if text is None else repr(text[:60]) if text else "it is empty"
        self.unread.append(Unread(path=path, value=value, what=what))

    def parameter(self, name: str, what: str) -> CpuSet | None:
        """Return the CPUs of a boot parameter; without a list it stands for none. The last one counts."""
        cmdline = self.tree.name("proc/cmdline")
        if cmdline is None:
            if self.tree.exists("proc/cmdline"):
                self._note("/proc/cmdline", None, what)
            return None
        # What follows -- is for init.
        for word in reversed(f"{cmdline} ".split(" -- ")[0].split()):
            key, _, text = word.partition("=")
            if key.replace("-", "_") != name:
                continue
            try:
                return CpuSet.parse_kernel(text.strip("\"'"), self.last)
            except InputError:
                self._note(f"/proc/cmdline {name}", text, what)
                return None
        return CpuSet()

    def interrupts(self) -> tuple[InterruptMask, ...] | None:
        """Return where interrupts go: the effective mask where the kernel has one, else the one that was asked for."""
        tree = self.tree
        if not tree.is_folder("proc/irq"):
            return None
        found, unread = [], []
        for irq in tree.numbered("proc/irq", ""):
            paths = [f"proc/irq/{irq}/{name}" for name in ("effective_affinity_list", "smp_affinity_list")]
            for path in paths:
                cpus = tree.cpu_list(path)
                if cpus:
                    found.append(InterruptMask(irq=irq, cpus=cpus, path=f"/{path}"))
                    break
            else:
                unread += [path for path in paths if tree.exists(path) and tree.read(path) != ""][:1]
        if unread:
            more = f", and of {len(unread) - 1} other interrupts" if len(unread) > 1 else ""
            self._note(f"/{unread[0]}", tree.name(unread[0]), f"where the interrupt goes{more}")
        return tuple(found)

    def partitions(self, cgroups: list[str]) -> Iterator[Partition]:
        for place in cgroups:
            kind = self.tree.name(f"{place}/cpuset.cpus.partition")
            if kind and kind != "member":
                cpus = self.known(f"{place}/cpuset.cpus", self.tree.cpu_list, "which CPUs the partition has")
                yield Partition(path=f"/{place}/cpuset.cpus.partition", kind=kind, cpus=cpus or CpuSet())

    def kubepods(self, names: tuple[str, ...]) -> dict[str, CpuSet]:
        found = {}
        for root in CGROUPS:
            for name in names:
                for file in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
                    path = f"{root}/{name}/{file}"
                    cpus = self.known(path, self.tree.cpu_list, "which CPUs the pods' cgroup has")
                    if cpus:
                        found[f"/{path}"] = cpus
        return found


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
