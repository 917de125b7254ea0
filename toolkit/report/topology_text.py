"""The readable summary of a topology: groups of CPUs, so that 384 of them fit on a screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.topology import PciDevice, Topology
from toolkit.report.layout import fitted, paragraph, plain, table
from toolkit.text.wording import count, first_of

_KINDS = {
    "0x01": "storage",
    "0x02": "network",
    "0x03": "display",
    "0x04": "multimedia",
    "0x07": "serial",
    "0x09": "input",
    "0x0b": "processor",
    "0x0c": "bus (USB, InfiniBand, ...)",
    "0x0d": "wireless",
    "0x10": "encryption",
    "0x12": "accelerator",
}
"""PCI base classes worth a row; bridges, system peripherals and the like are counted together (PCI Code and ID)."""
_SHOWN_DEVICES = 6
_LONG_LIST = 48


def render_topology(topology: Topology) -> str:
    """Return the summary as text, without a trailing newline."""
    sections = (_head, _sockets, _nodes, _distances, _caches, _core_types, _devices, _kubelet, _problems)
    return "\n\n".join(text for section in sections if (text := section(topology)))


def human_bytes(size_bytes: int | None) -> str:
    """Write a size in the largest binary unit that leaves at most four digits."""
    if size_bytes is None:
        return "?"
    size, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 100 or size == int(size) else f"{size:.1f} {unit}"


def _head(topology: Topology) -> str:
    cores = topology.cores
    threads = ", ".join(f"{count} with {level}" for level, count in topology.threads_per_core.items())
    rows = [
        ("Processor", f"{topology.cpu_model or 'unknown'} ({topology.arch or 'unknown architecture'})"),
        ("CPUs online", _cpus(topology.online)),
        ("offline", _cpus(topology.offline)),
        ("isolated", _cpus(topology.isolated)),
        ("nohz_full", _cpus(topology.nohz_full)),
        ("Sockets", _count(topology.sockets)),
        ("NUMA nodes", str(len(topology.numa)) if topology.numa else "none in sysfs"),
        ("L3 domains", str(len(topology.l3_groups)) if topology.l3_groups else "none in sysfs"),
        ("Cores", f"{_count(cores)}, by threads: {threads}" if cores else "not reported by the kernel"),
        ("SMT", topology.lists.smt_control or "unknown"),
        ("Memory", human_bytes(topology.mem_total_bytes)),
        ("Hugepages", _hugepages(topology.hugepages_kb)),
    ]
    lone = CpuSet.of(cpu for cpus in cores.values() if len(cpus) < (topology.smt_level or 1) for cpu in cpus)
    if lone:
        rows.insert(
            5, ("fewer threads", f"{_cpus(lone)} (threads of cores with fewer than {topology.smt_level} online)")
        )
    return plain(rows)


def _sockets(topology: Topology) -> str:
    ids = {cpu.cpu: cpu.socket for cpu in topology.cpus}
    return _table(
        ("socket", "CPUs", "cores", "L3 domains", "NUMA nodes", "CPU list"),
        (
            (ids[key], len(cpus), *_within(topology, cpus), _nodes_of(topology, cpus), cpus)
            for key, cpus in topology.sockets.items()
        ),
    )


def _nodes(topology: Topology) -> str:
    rows = [
        (
            str(node.id),
            str(len(node.cpus)),
            str(_within(topology, node.cpus)[0]),
            human_bytes(node.mem_bytes),
            _hugepages(node.hugepages_kb).replace(" ", "").replace(",", ", "),
            short_list(node.cpus) if node.cpus else "memory only",
        )
        for node in topology.numa
    ]
    return fitted(rows, ("NUMA node", "CPUs", "cores", "memory", "hugepages", "CPU list"), (4,), (1.0,)) if rows else ""


def _distances(topology: Topology) -> str:
    if topology.distances is None or len(topology.distances.ids) < 2:
        return ""
    rows = zip(topology.distances.ids, topology.distances.matrix, strict=True)
    width = max(len(row) for row in topology.distances.matrix)
    ids = topology.distances.ids if width == len(topology.distances.ids) else range(width)
    return _table(("distance", *(f"to {node}" for node in ids)), ((f"from {node}", *row) for node, row in rows))


def _caches(topology: Topology) -> str:
    ids = {cpu.cpu: cpu.l3 for cpu in topology.cpus}
    return _table(
        ("L3 domain", "kernel id", "CPUs", "cores", "NUMA nodes", "CPU list"),
        (
            (key, "-" if ids[key] is None else ids[key], len(cpus), _within(topology, cpus)[0],
             _nodes_of(topology, cpus), cpus)
            for key, cpus in topology.l3_groups.items()
        ),
    )  # fmt: skip


def _core_types(topology: Topology) -> str:
    return _table(
        ("core type", "CPUs", "cores", "CPU list"),
        ((kind.name, len(kind.cpus), _within(topology, kind.cpus)[0], kind.cpus) for kind in topology.core_types),
    )


def _devices(topology: Topology) -> str:
    groups: dict[tuple[int, str], list[PciDevice]] = {}
    for device in topology.pci:
        node = -1 if device.numa_node is None else device.numa_node
        groups.setdefault((node, _KINDS.get((device.pci_class or "")[:4], "other")), []).append(device)
    return _table(
        ("PCI devices of node", "kind", "devices", "addresses"),
        (
            ("unknown" if node < 0 else node, kind, len(devices), "" if kind == "other" else _addresses(devices))
            for (node, kind), devices in sorted(groups.items())
        ),
    )


def _kubelet(topology: Topology) -> str:
    view = topology.kubelet
    if view.error is not None:
        return f"Kubelet: its discovery fails here: {view.error}"
    uncore = {cpu.uncore_cache_id for cpu in view.cpus.values()} - {None}
    caches = count(len(uncore), "uncore cache") if uncore else "no uncore cache (alignment falls back to the socket)"
    text = f"Kubelet: sees {count(view.logical_cpus, 'CPU')} in {count(len(view.nodes), 'NUMA node')}, {caches}"
    unseen = topology.online - CpuSet.of(view.cpus)
    return paragraph(text + (f"; does not see {cpus_text(unseen)}" if unseen else ""), "", "  ")


def _problems(topology: Topology) -> str:
    return "\n".join(f"Ignored: {problem}" for problem in topology.problems)


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    filled = [[short_list(cell) if isinstance(cell, CpuSet) else str(cell) for cell in row] for row in rows]
    return table(filled, headers) if filled else ""


def _count(groups: dict[int, CpuSet]) -> str:
    return str(len(groups)) if groups else "not reported by the kernel"


def _cpus(cpus: CpuSet) -> str:
    return f"{len(cpus)}: {short_list(cpus)}" if cpus else "none"


def short_list(cpus: CpuSet) -> str:
    """Write the list format, with strides (``0-60:1/2``) where every second CPU would make it long.

    Still the kernel's format: cpuset(7), "List format".
    """
    whole = str(cpus)
    if len(whole) <= _LONG_LIST:
        return whole
    ids = list(cpus)
    parts = []
    at = 0
    while at < len(ids):
        step = ids[at + 1] - ids[at] if at + 1 < len(ids) else 1
        end = at
        while end + 1 < len(ids) and ids[end + 1] - ids[end] == step:
            end += 1
        if end == at or (step > 1 and end - at < 2):
            parts.append(str(ids[at]))
            at += 1
            continue
        parts.append(f"{ids[at]}-{ids[end]}" + (f":1/{step}" if step > 1 else ""))
        at = end + 1
    strided = ",".join(parts)
    return min(strided, whole, key=len)


def _within(topology: Topology, cpus: CpuSet) -> tuple[int, int]:
    """Count the cores and the L3 domains that have a CPU in the set."""
    members = [cpu for cpu in topology.cpus if cpu.cpu in cpus]
    keys = {cpu.core_key for cpu in members}, {cpu.l3_key for cpu in members}
    return len(keys[0] - {None}), len(keys[1] - {None})


def _nodes_of(topology: Topology, cpus: CpuSet) -> str:
    nodes = CpuSet.of(node.id for node in topology.numa if not node.cpus.isdisjoint(cpus))
    return str(nodes) or "-"


def _hugepages(counts: dict[str, int] | None) -> str:
    if counts is None:
        return "?"
    used = [(int(size), count) for size, count in counts.items() if count]
    return ", ".join(f"{count} x {human_bytes(size * 1024)}" for size, count in sorted(used)) or "none"


def _addresses(devices: Sequence[PciDevice]) -> str:
    return first_of([device.bdf for device in devices], _SHOWN_DEVICES, " ")
