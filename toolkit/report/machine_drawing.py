"""The machine, drawn: sockets, NUMA nodes, L3 groups, cores, threads, coloured by owner. SVG and plain text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import Topology
from toolkit.report import page
from toolkit.report.machine_owners import NO_OWNER, RESERVED, RESERVED_SHARED, SHARED, Owner
from toolkit.report.text import printable

FIXED_COLOURS = {SHARED: "#dfe7ef", RESERVED: "#5b6470", RESERVED_SHARED: "#a9b4c0", NO_OWNER: "#ffffff"}
EXCLUSIVE_COLOURS = (
    "#e4572e", "#2e86ab", "#f3a712", "#669900", "#a23b72", "#3bb273", "#7768ae", "#e15554",
    "#4d9de0", "#c17c74", "#8cb369", "#d4a017", "#6a4c93", "#1982c4", "#ff924c", "#52796f",
)  # fmt: skip
ANSI = (41, 44, 43, 42, 45, 46, 101, 104, 103, 102, 105, 106)
CELL_W, CELL_H, GAP, PAD, TITLE, WIDTH = 30, 20, 4, 8, 16, 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class _L3:
    label: str
    cores: tuple[CpuSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    label: str
    groups: tuple[_L3, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Socket:
    label: str
    nodes: tuple[_Node, ...]


def _layout(topology: Topology) -> Iterator[_Socket]:
    """Nest sockets, nodes, L3 groups and cores; levels that the kernel does not report become one group."""
    online = topology.online
    sockets = topology.sockets or {online.first(): online}
    numa = {key: cpus for key, cpus in topology.numa_cpus.items() if cpus}
    cores = topology.cores or {cpu: CpuSet.of([cpu]) for cpu in online}
    by_cpu = {cpu.cpu: cpu for cpu in topology.cpus}
    for key, socket in sockets.items():
        nodes = []
        for node, node_cpus in [*numa.items(), (-1, online - CpuSet.of(c for s in numa.values() for c in s))]:
            inside = socket & node_cpus
            if not inside:
                continue
            groups = []
            l3 = topology.l3_groups
            rest = inside - CpuSet.of(cpu for group in l3.values() for cpu in group)
            for first, group in [*l3.items(), (-1, rest)]:
                members = group & inside
                if members:
                    number = by_cpu[first].l3 if first >= 0 else None
                    label = "" if first < 0 else f"L3 {first if number is None else number}"
                    groups.append(
                        _L3(label=label, cores=tuple(core for core in cores.values() if core.first() in members))
                    )
            nodes.append(_Node(label=f"NUMA {node}" if node >= 0 else "", groups=tuple(groups)))
        number = by_cpu[key].socket if key in by_cpu else None
        yield _Socket(label=f"socket {key if number is None else number}", nodes=tuple(nodes))


def colours(owners: tuple[Owner, ...]) -> dict[str, str]:
    """Return owner name -> fill colour."""
    exclusive = [owner for owner in owners if owner.symbol not in FIXED_COLOURS]
    chosen = {owner.name: EXCLUSIVE_COLOURS[i % len(EXCLUSIVE_COLOURS)] for i, owner in enumerate(exclusive)}
    return {owner.name: FIXED_COLOURS.get(owner.symbol) or chosen[owner.name] for owner in owners}


def _owner_of(owners: tuple[Owner, ...]) -> dict[int, Owner]:
    return {cpu: owner for owner in owners for cpu in owner.cpus}


def text_drawing(topology: Topology, owners: tuple[Owner, ...], *, colour: bool = False) -> str:
    """Draw with one character for each CPU, a core's threads side by side; the legend follows."""
    of = _owner_of(owners)
    exclusive = [owner.symbol for owner in owners if owner.symbol not in FIXED_COLOURS]

    def cell(cpu: int) -> str:
        symbol = of[cpu].symbol if cpu in of else NO_OWNER
        if not colour or symbol not in exclusive:
            return symbol
        return f"\x1b[30;{ANSI[exclusive.index(symbol) % len(ANSI)]}m{symbol}\x1b[0m"

    lines = []
    for socket in _layout(topology):
        lines.append(socket.label)
        for node in socket.nodes:
            for index, group in enumerate(node.groups):
                head = f"  {node.label if index == 0 else '':8} {group.label:7}"
                cells = [f"[{''.join(cell(cpu) for cpu in core)}]" for core in group.cores]
                per_line = max(8, (page.width() - len(head) - 1) // (2 + (topology.smt_level or 1)))
                for start in range(0, len(cells), per_line):
                    prefix = head if start == 0 else " " * len(head)
                    lines.append(f"{prefix} {''.join(cells[start : start + per_line])}")
    lines += ["", *(printable(f"  {owner.symbol}  {owner.name}: {owner.cpus} ({len(owner.cpus)})") for owner in owners)]
    return "\n".join(lines)


def _text(text: str) -> str:
    return escape(printable(text))


def svg_drawing(topology: Topology, owners: tuple[Owner, ...], title: str) -> str:
    """Draw as SVG: cores are boxes with their threads stacked, boxes nest by L3 group, NUMA node and socket."""
    of, fill = _owner_of(owners), colours(owners)
    threads = max((len(core) for core in topology.cores.values()), default=1)
    core_h = threads * CELL_H
    body: list[str] = []
    y = 40

    def box(x: int, top: int, width: int, height: int, label: str, stroke: str) -> None:
        body.append(f'<rect x="{x}" y="{top}" width="{width}" height="{height}" fill="none" stroke="{stroke}" rx="4"/>')
        if label:
            body.append(f'<text x="{x + 6}" y="{top + 12}" font-size="11" fill="#444">{_text(label)}</text>')

    for socket in _layout(topology):
        socket_top = y
        y += TITLE + PAD
        for node in socket.nodes:
            node_top = y
            x, row_top, row_h = PAD * 2, y + TITLE, 0
            for group in node.groups:
                per_row = min(len(group.cores), (WIDTH - 6 * PAD) // (CELL_W + GAP))
                rows = -(-len(group.cores) // max(per_row, 1))
                width, height = per_row * (CELL_W + GAP) + GAP + PAD, rows * (core_h + GAP) + TITLE + PAD
                if x + width > WIDTH - 2 * PAD and x > PAD * 2:
                    x, row_top, row_h = PAD * 2, row_top + row_h + GAP, 0
                box(x, row_top, width, height, group.label, "#9db2c4")
                for i, core in enumerate(group.cores):
                    left = x + PAD // 2 + GAP + i % per_row * (CELL_W + GAP)
                    top = row_top + TITLE + 2 + i // per_row * (core_h + GAP)
                    for j, cpu in enumerate(core):
                        owner = of.get(cpu)
                        shade = fill[owner.name] if owner else "#ffffff"
                        ink = "#ffffff" if owner and owner.symbol not in (SHARED, RESERVED_SHARED, NO_OWNER) else "#333"
                        tip = f"CPU {cpu}: {owner.name if owner else 'no owner'}"
                        body.append(
                            f'<g><title>{_text(tip)}</title><rect x="{left}" y="{top + j * CELL_H}" width="{CELL_W}" '
                            f'height="{CELL_H}" fill="{shade}" stroke="#778"/><text x="{left + CELL_W // 2}" '
                            f'y="{top + j * CELL_H + 14}" font-size="10" text-anchor="middle" fill="{ink}">{cpu}'
                            "</text></g>"
                        )
                x += width + GAP
                row_h = max(row_h, height)
            y = row_top + row_h + PAD
            box(PAD + 2, node_top, WIDTH - 2 * PAD - 4, y - node_top - 2, node.label, "#5b7f9c")
        y += PAD
        box(PAD // 2, socket_top, WIDTH - PAD, y - socket_top - 4, socket.label, "#223")
        y += PAD
    for owner in owners:
        body.append(
            f'<rect x="{PAD}" y="{y}" width="14" height="14" fill="{fill[owner.name]}" stroke="#778"/>'
            f'<text x="{PAD + 20}" y="{y + 12}" font-size="12" fill="#222">'
            f"{_text(f'{owner.name}: {owner.cpus} ({len(owner.cpus)})')}</text>"
        )
        y += 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + PAD}" '
        f'viewBox="0 0 {WIDTH} {y + PAD}" font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<text x="{PAD}" y="24" font-size="16" fill="#111">{_text(title)}</text>\n' + "\n".join(body) + "\n</svg>\n"
    )
