"""A lab machine's kernel files, written down without starting it: what would fit that machine can be computed on the
host, by the same reader and the same rules as in the guest.

Only what the readers ask for: CPUs, their cores, sockets, dies and L3 caches, NUMA nodes with memory and distances, and
of PCI devices the host bridge, of which QEMU names no node, and ports of which it does.
Source: Documentation/ABI/stable/sysfs-devices-system-cpu, sysfs-devices-node.
"""

from __future__ import annotations

from pathlib import Path

from tests.lab.harness.topology import PORT_BUS, Topology
from toolkit.host import topology as reader
from toolkit.model import topology as model
from toolkit.model.cpuset import CpuSet

KERNEL_SHARE = 0.8
"""Part of a node's memory that is left to count when a small guest's kernel has taken its own."""


def expected(topology: Topology, folder: Path) -> model.Topology:
    """Return the machine as the reader should see it in the guest; its files are written below an empty folder."""
    write(topology, folder)
    return reader.read_topology(folder)


def write(topology: Topology, root: Path) -> None:
    """Write the files of a machine."""
    online = topology.online_cpus
    cpus, nodes = root / "sys/devices/system/cpu", root / "sys/devices/system/node"
    for name, some in (("online", online), ("present", topology.cpus), ("possible", topology.cpus)):
        _file(cpus / name, str(some))
    for cpu in topology.cpus:
        place, folder = topology.place(cpu), cpus / f"cpu{cpu}"
        _file(folder / "online", str(int(cpu in online)))
        if cpu not in online:
            continue
        siblings, cache = topology.siblings(cpu) & online, topology.l3(cpu) & online
        _file(folder / "topology/core_id", str(place.core_key))
        _file(folder / "topology/physical_package_id", str(place.socket))
        _file(folder / "topology/die_id", str(place.die))
        for name, group in (("thread_siblings", siblings), ("core_cpus", siblings)):
            _file(folder / f"topology/{name}_list", str(group))
            _file(folder / f"topology/{name}", _map(group))
        level3 = {"level": "3", "type": "Unified", "size": "16384K", "id": str(place.l3_key)}
        for name, text in (*level3.items(), ("shared_cpu_list", str(cache)), ("shared_cpu_map", _map(cache))):
            _file(folder / f"cache/index3/{name}", text)
    for number, node in enumerate(topology.nodes):
        for size, pages in _huge_pages(topology.cmdline).items():
            # The kernel deals them out evenly at boot.
            count = pages // len(topology.nodes) + (number < pages % len(topology.nodes))
            _file(nodes / f"node{number}/hugepages/hugepages-{size}kB/nr_hugepages", str(count))
        here, folder = node.cpus & online, nodes / f"node{number}"
        _file(folder / "cpumap", _map(here))
        _file(folder / "cpulist", str(here))
        _file(folder / "meminfo", f"Node {number} MemTotal: {int(node.memory_mib * 1024 * KERNEL_SHARE)} kB")
        if topology.distances:
            _file(folder / "distance", " ".join(map(str, topology.distances[number])))
        for cpu in here:
            (folder / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")
            (cpus / f"cpu{cpu}/node{number}").symlink_to(f"../../node/node{number}")
    _file(nodes / "online", str(CpuSet.of(range(len(topology.nodes)))))
    devices = [("00:00.0", "0x060000", -1)]
    devices += [(f"{PORT_BUS * number:02x}:00.0", "0x060400", node) for number, node in enumerate(topology.ports, 1)]
    for address, kind, node in devices:
        for name, text in (("class", kind), ("vendor", "0x8086"), ("device", "0x29c0"), ("numa_node", str(node))):
            _file(root / f"sys/bus/pci/devices/0000:{address}/{name}", text)


def _huge_pages(cmdline: tuple[str, ...]) -> dict[int, int]:
    """Return the number of pages by size in KiB: a word of a size is for the numbers that come after it."""
    found, size = {2048: 0}, 2048
    for name, _, value in (word.partition("=") for word in cmdline):
        if name == "hugepagesz":
            size = {"2M": 2048, "1G": 1 << 20}[value]
        elif name == "hugepages":
            found[size] = int(value)
    return found


def _map(cpus: CpuSet) -> str:
    """Write a mask as the kernel does: words of 32 bits, the highest first."""
    digits = f"{cpus.mask:x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[i : i + 8] for i in range(0, len(digits), 8))


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
