"""Each promise of a claim, broken in the evidence: which rule must say ``failed``, and the evidence edited for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from tests.unit.catalogue.edit import LEVELS, MS, Edit, edit, intruded, quota_word, with_files
from tests.unit.catalogue.stand import Stand
from tests.unit.catalogue.usage_edits import of_node, used
from toolkit.model.claims import Alignment, Claim, Isolation, Preference
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuUse, Evidence
from validators.placement import groups


def edits(stand: Stand) -> Iterator[Edit]:
    """Yield an edit for each promise of each claim, and for those of the node."""
    for claim in stand.claims.claims:
        yield from _files(stand, claim)
        if claim.cpus is not None:
            yield from _places(stand, claim)
        if claim.mems is not None:
            outside = CpuSet.of([max(stand.nodes) + 1])
            masks = tuple(
                replace(row, mems_allowed=outside) if row.claim == claim.name else row
                for row in stand.evidence.thread_masks
            )
            yield edit("memory nodes", "mems-containment", claim, replace(stand.evidence, thread_masks=masks))
        if claim.hugepages:
            rows = tuple(replace(row, limit_bytes=-1) for row in stand.evidence.hugetlb or ())
            yield edit("huge pages", "hugepages", claim, replace(stand.evidence, hugetlb=rows))
        if claim.devices:
            moved = tuple(replace(row, numa_node=max(stand.nodes) + 1) for row in stand.evidence.devices or ())
            yield edit("devices on its NUMA node", "device-numa", claim, replace(stand.evidence, devices=moved))
        yield from used(stand, claim)
    yield from of_node(stand)
    if stand.claims.strict_reservation:
        yield Edit(
            promise="strict reservation",
            rule="reserved-cpus",
            subject="node",
            evidence=intruded(stand.evidence, stand.claims.reserved_cpus.first()),
        )


def _files(stand: Stand, claim: Claim) -> Iterator[Edit]:
    """Another value in the cgroup's files."""
    wanted: list[tuple[str, dict[str, object]]] = []
    level = LEVELS.get(claim.kind, "")
    if claim.quota_us is not None:
        wanted.append((quota_word(claim), {"quota_us": 12_345 if claim.quota_us < 0 else claim.quota_us * 100}))
    if claim.shares is not None:
        wanted.append((f"weight {level}".rstrip(), {"shares": 200_000}))
    if claim.memory_bytes is not None:
        wanted.append((f"memory limit {level}".rstrip(), {"memory_max_bytes": -1}))
    if claim.cpus is not None:
        wanted.append(("CPU set", {"cpus": CpuSet.of([5000])}))
    if claim.mems is not None:
        wanted.append(("memory nodes", {"mems": CpuSet.of([500])}))
    for promise, values in wanted:
        yield edit(promise, "applied", claim, with_files(stand.evidence, claim, **values))


def _places(stand: Stand, claim: Claim) -> Iterator[Edit]:
    """A task outside, a mask outside, a stranger inside, a set that is not aligned."""
    evidence, cpus = stand.evidence, claim.cpus or CpuSet()
    stray = max((stand.online - cpus) | CpuSet.of([max(stand.online) + 1]))
    row = CpuUse(claim=claim.name, cpu=stray, switches=1, run_ns=MS, out_of_set_switches=1, out_of_set_ns=MS, samples=0)
    yield edit("CPU set", "cpuset-containment", claim, replace(evidence, cpu_use=(*evidence.cpu_use, row)))
    wide = tuple(
        replace(mask, cpus_allowed=cpus | CpuSet.of([stray])) if mask.claim == claim.name else mask
        for mask in evidence.thread_masks
    )
    yield edit("CPU set", "affinity-mask", claim, replace(evidence, thread_masks=wide))
    if claim.isolation is not Isolation.HOST:
        yield edit(f"CPUs of the {claim.isolation} alone", "exclusive-cpus", claim, intruded(evidence, cpus.first()))
    if Alignment.SMT_POD in claim.alignments:
        core = _siblings(evidence, claim)
        yield edit("alignment smt-pod", "smt-alignment", claim, intruded(evidence, core.first()))
    for promise, rule, granted in _misplaced(stand, claim):
        yield edit(promise, rule, claim, with_files(evidence, claim, cpus_effective=granted))


def _misplaced(stand: Stand, claim: Claim) -> Iterator[tuple[str, str, CpuSet]]:
    """CPUs that break what is promised about places, where the machine has such CPUs."""
    evidence, cpus = stand.evidence, claim.cpus or CpuSet()
    cores = groups.cpu_groups(evidence, groups.CORES) or ()
    nodes = [own for own in (groups.nodes(evidence) or {}).values() if own]
    if Alignment.SMT in claim.alignments and any(len(core) > 1 for core in cores if core & cpus):
        first = next(core for core in cores if len(core) > 1 and core & cpus)
        yield "alignment smt", "smt-alignment", cpus - CpuSet.of([first.first()])
    if Alignment.NUMA in claim.alignments and len(nodes) > 1:
        yield "alignment numa", "numa-alignment", _one_of_each(nodes, len(nodes))
    if claim.max_numa_nodes is not None and claim.max_numa_nodes < len(nodes):
        yield "fewest NUMA nodes", "numa-alignment", _one_of_each(nodes, claim.max_numa_nodes + 1)
    if Alignment.NUMA_EVEN in claim.alignments and max(map(len, nodes)) > 3 and len(nodes) > 1:
        yield "alignment numa-even", "numa-alignment", nodes[0] | CpuSet.of([nodes[1].first()])
    for preference, rule, kind in (
        (Preference.LLC, "llc-alignment", groups.L3),
        (Preference.SOCKET, "socket-alignment", groups.SOCKETS),
    ):
        parts = groups.cpu_groups(evidence, kind) or ()
        if preference in claim.preferences and len(parts) > 1 and sum(1 for part in parts if part & cpus) == 1:
            yield f"preference {preference}", rule, _one_of_each(parts, len(parts))

    if Alignment.NUMA_POD in claim.alignments and len(nodes) > 1:
        yield "alignment numa-pod", "numa-alignment", _one_of_each(nodes, len(nodes))
    crowded = next((core for core in cores if len(core) > 1), None)
    if Preference.CORES in claim.preferences and crowded is not None and len(cpus) > 1:
        yield "preference distinct-cores", "smt-alignment", crowded
    if Preference.CLOSEST in claim.preferences:
        yield "preference closest-nodes", "numa-alignment", _far_apart(evidence)


def _siblings(evidence: Evidence, claim: Claim) -> CpuSet:
    """Return every thread of the cores on which a claim has CPUs."""
    cores = groups.cpu_groups(evidence, groups.CORES) or ()
    return CpuSet.union(core for core in cores if core & (claim.cpus or CpuSet()))


def _far_apart(evidence: Evidence) -> CpuSet:
    """Return a CPU of each of the two nodes that are farthest from each other."""
    distances, machine = groups.distances(evidence) or {}, groups.nodes(evidence) or {}
    one, other = max(combinations(sorted(machine), 2), key=lambda pair: distances[pair[0]][pair[1]])
    return CpuSet.of([machine[one].first(), machine[other].first()])


def _one_of_each(parts: Sequence[CpuSet], count: int) -> CpuSet:
    return CpuSet.of(part.first() for part in parts[:count])
