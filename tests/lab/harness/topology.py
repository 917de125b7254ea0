"""The lab's machines as frozen values, each with the truth that the guest must show.

QEMU numbers CPUs with the thread fastest, then core, die, socket; Linux keeps that order, so the expected place of
each CPU is arithmetic. An Intel vendor string is needed: software emulation drops SMT and dies for AMD models. One
last-level cache per die, which gives the shape (not the names) of chiplet machines.
Source: QEMU invocation manual, ``-smp`` and ``-numa``; ACPI 6.4 section 5.2.17 (SLIT: 10 is local).
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.cpuset import CpuSet

LOCAL_DISTANCE = 10
PORT_BUS = 0x40
"""Numbers of the PCI buses of ports: this for the first, twice this for the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One NUMA node; ``cpus`` is empty for a memory-only node."""

    memory_mib: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlace:
    """Where one CPU sits. ``core_key`` and ``l3_key`` are the lowest CPU of the core and of the cache."""

    cpu: int
    socket: int
    die: int
    core_key: int
    l3_key: int
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A machine to emulate.

    :param distances: node distance matrix; empty means the firmware gives none.
    :param online: CPUs that are online when a test begins; ``None`` means all. Offline ones were never started, which
        makes machines with high and sparse CPU ids affordable.
    :param cmdline: words for the kernel command line.
    :param ports: NUMA nodes with a PCI root port of their own, behind a bridge of which the firmware names the node.
    """

    name: str
    sockets: int
    dies: int
    cores: int
    threads: int
    nodes: tuple[Node, ...]
    distances: tuple[tuple[int, ...], ...] = ()
    online: CpuSet | None = None
    cmdline: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()

    @property
    def cpu_count(self) -> int:
        """Number of CPUs present, online or not."""
        return self.sockets * self.dies * self.cores * self.threads

    @property
    def cpus(self) -> CpuSet:
        """CPUs present."""
        return CpuSet.of(range(self.cpu_count))

    @property
    def online_cpus(self) -> CpuSet:
        """CPUs that are online when a test begins."""
        return self.cpus if self.online is None else self.online

    @property
    def memory_mib(self) -> int:
        """Memory of all nodes."""
        return sum(node.memory_mib for node in self.nodes)

    def place(self, cpu: int) -> CpuPlace:
        """Say where a CPU sits."""
        per_die = self.cores * self.threads
        return CpuPlace(
            cpu=cpu,
            socket=cpu // (per_die * self.dies),
            die=cpu // per_die % self.dies,
            core_key=cpu - cpu % self.threads,
            l3_key=cpu - cpu % per_die,
            node=next(i for i, node in enumerate(self.nodes) if cpu in node.cpus),
        )

    def siblings(self, cpu: int) -> CpuSet:
        """Return the hardware threads of a CPU's core, itself included."""
        first = self.place(cpu).core_key
        return CpuSet.of(range(first, first + self.threads))

    def l3(self, cpu: int) -> CpuSet:
        """Return the CPUs that share a CPU's last-level cache."""
        first = self.place(cpu).l3_key
        return CpuSet.of(range(first, first + self.cores * self.threads))

    def qemu_args(self) -> list[str]:
        """Return the QEMU arguments that make this machine."""
        shape = f"sockets={self.sockets},dies={self.dies},cores={self.cores},threads={self.threads}"
        args = ["-smp", f"{self.cpu_count},{shape}", "-m", f"{self.memory_mib}M"]
        for i, node in enumerate(self.nodes):
            cpus = "".join(f",cpus={part}" for part in str(node.cpus).split(",") if part)
            args += ["-object", f"memory-backend-ram,id=mem{i},size={node.memory_mib}M"]
            args += ["-numa", f"node,nodeid={i},memdev=mem{i}{cpus}"]
        for i, row in enumerate(self.distances):
            for j, distance in enumerate(row):
                args += ["-numa", f"dist,src={i},dst={j},val={distance}"]
        for chassis, node in enumerate(self.ports, 1):
            bridge = f"pxb-pcie,id=bridge{chassis},bus=pcie.0,bus_nr={PORT_BUS * chassis},numa_node={node}"
            port = f"pcie-root-port,id=port{chassis},bus=bridge{chassis},chassis={chassis}"
            args += ["-device", bridge, "-device", port]
        return args

    def kernel_args(self) -> list[str]:
        """Return the kernel command line words that this machine needs."""
        start_few = [] if self.online is None else ["maxcpus=1", f"lab.online={self.online}"]
        return [*start_few, *self.cmdline]


def even_nodes(count: int, cpus: int, memory_mib: int) -> tuple[Node, ...]:
    """Divide consecutive CPUs evenly over nodes of equal memory."""
    each = cpus // count
    return tuple(Node(memory_mib=memory_mib, cpus=CpuSet.of(range(i * each, (i + 1) * each))) for i in range(count))


def two_level_distances(nodes: int, per_socket: int, near: int, far: int) -> tuple[tuple[int, ...], ...]:
    """Make a distance matrix: local, same socket, other socket."""
    return tuple(
        tuple(LOCAL_DISTANCE if i == j else near if i // per_socket == j // per_socket else far for j in range(nodes))
        for i in range(nodes)
    )


PAIR = Topology(name="pair", sockets=1, dies=1, cores=2, threads=1, nodes=even_nodes(1, 2, 1024), distances=((10,),))
"""2 CPUs, one node: the cheapest to emulate."""

QUAD = Topology(name="quad", sockets=1, dies=1, cores=2, threads=2, nodes=even_nodes(1, 4, 1024), distances=((10,),))
"""4 CPUs, SMT, one node."""

SMALL = Topology(
    name="small", sockets=1, dies=2, cores=2, threads=2, nodes=even_nodes(2, 8, 768), distances=((10, 20), (20, 10))
)
"""8 CPUs, SMT, two nodes, one L3 each: the default."""

TWO_SOCKETS = Topology(
    name="two-sockets",
    sockets=2,
    dies=2,
    cores=2,
    threads=2,
    nodes=even_nodes(4, 16, 512),
    distances=two_level_distances(4, 2, 12, 21),
)
"""16 CPUs: 2 sockets x 2 nodes x SMT."""

SPLIT_CACHE = Topology(
    name="split-cache", sockets=1, dies=4, cores=2, threads=2, nodes=even_nodes(1, 16, 1536), distances=((10,),)
)
"""16 CPUs in one socket and one node, four L3 domains."""

EIGHT_NODES = Topology(
    name="eight-nodes",
    sockets=2,
    dies=4,
    cores=1,
    threads=2,
    nodes=even_nodes(8, 16, 256),
    distances=two_level_distances(8, 4, 12, 32),
)
"""16 CPUs over 8 nodes, two distances."""

SIXTEEN_NODES = Topology(
    name="sixteen-nodes",
    sockets=16,
    dies=1,
    cores=1,
    threads=1,
    nodes=even_nodes(16, 16, 128),
    distances=two_level_distances(16, 8, 12, 32),
)
"""16 CPUs, each a socket and a node of its own: twice the nodes that a kubelet starts on unless it is told to. Not dies
of two sockets: with one thread and one core in each, Linux takes every CPU for a package of its own."""

MEMORY_ONLY = Topology(
    name="memory-only",
    sockets=1,
    dies=2,
    cores=2,
    threads=2,
    nodes=(*even_nodes(2, 8, 640), Node(memory_mib=256, cpus=CpuSet())),
    distances=((10, 20, 80), (20, 10, 80), (80, 80, 10)),
    ports=(1,),
)
"""8 CPUs, two nodes with CPUs and one that has memory only, far away. The second node has a PCI port."""

WIDE = Topology(
    name="wide",
    sockets=2,
    dies=4,
    cores=4,
    threads=2,
    nodes=even_nodes(2, 64, 1024),
    distances=((10, 21), (21, 10)),
)
"""64 CPUs: the most that boots in reasonable time under software emulation."""

SPARSE = Topology(
    name="sparse",
    sockets=2,
    dies=6,
    cores=4,
    threads=2,
    nodes=even_nodes(2, 96, 768),
    distances=((10, 21), (21, 10)),
    online=CpuSet.parse("0-1,62-65,80-81,94-95"),
)
"""96 CPUs of which ten are online, with ids on both sides of 64."""

ISOLATED = Topology(
    name="isolated",
    sockets=1,
    dies=2,
    cores=2,
    threads=2,
    # A page of 1 GiB begins at a border of 1 GiB: the first node has a free one from 5 GiB on, the kernel is below.
    nodes=even_nodes(2, 8, 4096),
    distances=((10, 20), (20, 10)),
    cmdline=(
        *("isolcpus=managed_irq,domain,6-7", "nohz_full=6-7", "rcu_nocbs=6-7"),
        *("hugepagesz=2M", "hugepages=16", "hugepagesz=1G", "hugepages=2"),
    ),
)
"""The small machine with two CPUs isolated and tickless, and huge pages of both sizes."""

CATALOGUE = (
    PAIR,
    QUAD,
    SMALL,
    TWO_SOCKETS,
    SPLIT_CACHE,
    EIGHT_NODES,
    SIXTEEN_NODES,
    MEMORY_ONLY,
    ISOLATED,
    WIDE,
    SPARSE,
)
BY_NAME = {topology.name: topology for topology in CATALOGUE}
