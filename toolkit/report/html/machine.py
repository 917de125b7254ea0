"""The machine that a run was made on: a picture with the owner of each CPU, and how busy it was. Pure.

A group of CPUs that share a level 3 cache is one small SVG, so that a page of any width holds them; sockets and NUMA
nodes are boxes around them. An owner has a colour, a letter in each of its CPUs, and a line in the legend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment, Evidence, OwnerClass
from toolkit.report.html.drawing import box, path, svg, words
from toolkit.report.html.drawing import group as drawn
from toolkit.report.machine_owners import NO_OWNER, RESERVED, RESERVED_SHARED, SHARED, Owner, owners_by_claims
from toolkit.text.wording import brief, count
from toolkit.timeline.ran import Ran

CELL_W, CELL_H, GAP, COLUMNS = 44, 30, 5, 8
SHADES = 12
"""Colours of owners; the thirteenth has the first's again, and another letter."""
FIXED = {SHARED: "shared", RESERVED: "reserved", RESERVED_SHARED: "reserved", NO_OWNER: "none"}
MAX_ROWS = 40
"""CPUs in the table of what ran where; of more those are left out on which only their owners ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """What ran on one CPU, in nanoseconds of the window.

    :param own: by its owner, or a claim that shares it. :param outside: by claims that it was not promised to.
    :param others: class of tasks without a claim -> time. :param named: the tasks that took most of that.
    """

    cpu: int
    owner: Owner | None
    own: int = 0
    outside: int = 0
    others: Mapping[str, int]
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """CPUs that are near each other, with a name; ``picture``: of a level 3 cache's own."""

    name: str
    groups: tuple[Group, ...] = ()
    picture: Markup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a page shows of it. :param legend: class, letter, name, CPUs and number of each owner."""

    sockets: tuple[Group, ...]
    legend: tuple[tuple[str, str, str, str, int], ...]
    rows: tuple[Busy, ...]
    left: int
    columns: tuple[str, ...]


COLUMNS_OF = {
    OwnerClass.FOREIGN_POD: "other pods",
    OwnerClass.SYSTEM: "system tasks",
    OwnerClass.KTHREAD: "kernel threads",
    OwnerClass.PERCPU_KTHREAD: "its kernel threads",
    OwnerClass.TOOLKIT: "pinproof",
    OwnerClass.UNKNOWN: "not known",
}


def machine_of(claims: ClaimSet, evidence: Evidence, ran: Sequence[Ran]) -> Machine:
    """Return the picture of a window. :param ran: what ran in it, by the timeline."""
    online = evidence.environment.cpus_online
    owners = owners_by_claims(claims, online)
    classes = _classes(owners)
    busy = _busy(owners, online, evidence, ran)
    told = [one for one in busy if one.outside or one.others or len(busy) <= MAX_ROWS]
    shown = sorted(told, key=lambda one: (-one.outside, -sum(one.others.values()), one.cpu))[:MAX_ROWS]
    names = {name for one in shown for name in one.others}
    return Machine(
        sockets=_sockets(evidence.environment, {one.cpu: one for one in busy}, classes, evidence.duration_ns),
        legend=tuple((classes[one.name], one.symbol, one.name, str(one.cpus), len(one.cpus)) for one in owners),
        rows=tuple(sorted(shown, key=lambda one: one.cpu)),
        left=len(busy) - len(shown),
        columns=tuple(name for name in COLUMNS_OF.values() if name in names),
    )


def _classes(owners: Iterable[Owner]) -> dict[str, str]:
    found: dict[str, str] = {}
    own = 0
    for one in owners:
        if one.symbol in FIXED:
            found[one.name] = f"o-{FIXED[one.symbol]}"
        else:
            found[one.name] = f"o-{own % SHADES}"
            own += 1
    return found


def _busy(owners: Sequence[Owner], online: CpuSet, evidence: Evidence, ran: Sequence[Ran]) -> list[Busy]:
    owner_of = {cpu: owner for owner in owners for cpu in owner.cpus}
    own, outside = dict.fromkeys(online, 0), dict.fromkeys(online, 0)
    for row in ran:
        out = min(row.out_ns, row.row.run_ns)
        own[row.cpu] = own.get(row.cpu, 0) + row.row.run_ns - out
        outside[row.cpu] = outside.get(row.cpu, 0) + out
    others: dict[int, dict[str, int]] = {}
    tasks: dict[int, list[tuple[int, str]]] = {}
    for one in evidence.intruders:
        name = COLUMNS_OF.get(one.owner)
        if name is not None:
            of_cpu = others.setdefault(one.cpu, {})
            of_cpu[name] = of_cpu.get(name, 0) + one.total_ns
            tasks.setdefault(one.cpu, []).append((-one.total_ns, f"{one.comm} {brief(one.total_ns)}"))
    return [
        Busy(
            cpu=cpu,
            owner=owner_of.get(cpu),
            own=own[cpu],
            outside=outside[cpu],
            others=others.get(cpu, {}),
            named=tuple(text for _, text in sorted(tasks.get(cpu, ()))[:3]),
        )
        for cpu in online
    ]


def _sockets(
    environment: Environment, busy: Mapping[int, Busy], classes: Mapping[str, str], window_ns: int
) -> tuple[Group, ...]:
    """Nest sockets, NUMA nodes and L3 groups; what the environment does not name becomes one group."""
    known = environment.topology
    online = environment.cpus_online
    numa = known.get("numa_nodes")
    nodes = _sets(numa.values() if isinstance(numa, dict) else None)
    names = list(numa) if isinstance(numa, dict) else []
    l3, cores = _sets(known.get("l3_cpus")), _sets(known.get("core_cpus"))
    sockets = []
    for number, socket in enumerate(_covering(_sets(known.get("socket_cpus")), online)):
        inner = []
        for node in _covering([one & socket for one in nodes], socket):
            name = next((f"NUMA node {name}" for name, cpus in zip(names, nodes, strict=False) if node <= cpus), "")
            groups = [
                Group(name=f"L3 {group}" if l3 else "", picture=_picture(group, cores, busy, classes, window_ns))
                for group in _covering([one & node for one in l3], node)
            ]
            inner.append(Group(name=name, groups=tuple(groups)))
        sockets.append(Group(name=f"socket {number}", groups=tuple(inner)))
    return tuple(sockets)


def _sets(value: object) -> list[CpuSet]:
    """Read lists of CPUs that a run's file holds; one that is none is left out."""
    found = []
    for text in value if isinstance(value, Iterable) and not isinstance(value, str) else ():
        try:
            found.append(CpuSet.parse(str(text)))
        except InputError:
            continue
    return found


def _covering(groups: Iterable[CpuSet], whole: CpuSet) -> list[CpuSet]:
    """Return the groups within a set, and what is in none of them."""
    kept: list[CpuSet] = []
    left = whole
    for group in groups:
        if group & left:
            kept.append(group & left)
            left -= group
    return [*kept, *([left] if left else [])]


def _picture(
    group: CpuSet, cores: Sequence[CpuSet], busy: Mapping[int, Busy], classes: Mapping[str, str], window_ns: int
) -> Markup:
    """Draw cores side by side, the threads of a core below each other."""
    mine = _covering([core & group for core in cores], group)
    if not cores:
        mine = [CpuSet.of([cpu]) for cpu in group]
    threads = max(map(len, mine))
    columns = min(COLUMNS, len(mine))
    width = columns * (CELL_W + GAP) - GAP + 2
    height = -(-len(mine) // columns) * (threads * CELL_H + GAP) - GAP + 2
    cells = []
    for index, core in enumerate(mine):
        left = 1 + index % columns * (CELL_W + GAP)
        top = 1 + index // columns * (threads * CELL_H + GAP)
        cells += [_cell(busy[cpu], left, top + row * CELL_H, classes, window_ns) for row, cpu in enumerate(core)]
    return svg("cpus", (width, height), cells, label=_told(group, busy))


def _cell(one: Busy, left: int, top: int, classes: Mapping[str, str], window_ns: int) -> str:
    window = max(1, window_ns)
    shade = classes[one.owner.name] if one.owner else "o-none"
    room = CELL_W - 4
    own = round(min(1.0, one.own / window) * room)
    rest = min(round(min(1.0, sum(one.others.values()) / window) * room), room - own)
    sign = "!" if one.outside else one.owner.symbol if one.owner else NO_OWNER
    parts = [box(left, top, CELL_W, CELL_H, round_by=3)]
    for begin, width, kind in ((left + 2, own, "own"), (left + 2 + own, rest, "rest")):
        if width:
            parts.append(path(f"M{begin} {top + CELL_H - 6}h{width}v4h-{width}z", kind))
    parts += [words(left + 5, top + 16, one.cpu), words(left + CELL_W - 5, top + 16, sign, "sign")]
    return drawn(f"{shade} bad" if one.outside else shade, parts, _tip(one))


def _tip(one: Busy) -> str:
    parts = [f"CPU {one.cpu}: {one.owner.name if one.owner else 'no owner'}"]
    parts.append(f"claims that may run here {brief(one.own)}")
    if one.outside:
        parts.append(f"claims that may not {brief(one.outside)}")
    parts += [f"{name} {brief(ns)}" for name, ns in one.others.items()]
    return "; ".join(parts)


def _told(group: CpuSet, busy: Mapping[int, Busy]) -> str:
    """Say in words what the picture of a group shows."""
    owned: dict[str, list[int]] = {}
    for cpu in group:
        owner = busy[cpu].owner
        owned.setdefault(owner.name if owner else "no owner", []).append(cpu)
    text = ", ".join(f"CPUs {CpuSet.of(cpus)} {name}" for name, cpus in owned.items())
    bad = [cpu for cpu in group if busy[cpu].outside]
    return f"{count(len(group), 'CPU')}: {text}" + (f"; ran outside on CPUs {CpuSet.of(bad)}" if bad else "")
