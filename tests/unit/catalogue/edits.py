"""Each promise of a claim, broken in the evidence: which rule must say ``failed``, and the evidence edited for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.unit.catalogue.stand import Stand
from toolkit.model.claims import Alignment, Claim, Isolation, Preference
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, CpuUse, Evidence, Intruder, OwnerClass
from validators import groups

MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A promise that is broken. :param subject: whose verdict of the rule must be ``failed``."""

    promise: str
    rule: str
    subject: str
    evidence: Evidence


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
            yield _edit("mems", "mems-containment", claim, replace(stand.evidence, thread_masks=masks))
        if claim.hugepages:
            rows = tuple(replace(row, limit_bytes=-1) for row in stand.evidence.hugetlb or ())
            yield _edit("hugepages", "hugepages", claim, replace(stand.evidence, hugetlb=rows))
    if stand.claims.strict_reservation:
        yield Edit(
            promise="strict reservation",
            rule="reserved-cpus",
            subject="node",
            evidence=_intruded(stand.evidence, stand.claims.reserved_cpus.first()),
        )


def _files(stand: Stand, claim: Claim) -> Iterator[Edit]:
    """Another value in the cgroup's files."""
    wanted: list[tuple[str, dict[str, object]]] = []
    if claim.quota_us is not None:
        wanted.append(("quota", {"quota_us": 12_345 if claim.quota_us < 0 else claim.quota_us * 100}))
    if claim.shares is not None:
        wanted.append(("weight", {"shares": 200_000}))
    if claim.memory_bytes is not None:
        wanted.append(("memory", {"memory_max_bytes": -1}))
    if claim.cpus is not None:
        wanted.append(("cpus", {"cpus": CpuSet.of([5000])}))
    if claim.mems is not None:
        wanted.append(("mems", {"mems": CpuSet.of([500])}))
    for promise, values in wanted:
        yield _edit(promise, "applied", claim, with_files(stand.evidence, claim, **values))


def _places(stand: Stand, claim: Claim) -> Iterator[Edit]:
    """A task outside, a mask outside, a stranger inside, a set that is not aligned."""
    evidence, cpus = stand.evidence, claim.cpus or CpuSet()
    stray = max((stand.online - cpus) | CpuSet.of([max(stand.online) + 1]))
    row = CpuUse(claim=claim.name, cpu=stray, switches=1, run_ns=MS, out_of_set_switches=1, out_of_set_ns=MS, samples=0)
    yield _edit("cpus", "cpuset-containment", claim, replace(evidence, cpu_use=(*evidence.cpu_use, row)))
    wide = tuple(
        replace(mask, cpus_allowed=cpus | CpuSet.of([stray])) if mask.claim == claim.name else mask
        for mask in evidence.thread_masks
    )
    yield _edit("cpus", "affinity-mask", claim, replace(evidence, thread_masks=wide))
    if claim.isolation is not Isolation.HOST:
        yield _edit("exclusive", "exclusive-cpus", claim, _intruded(evidence, cpus.first()))
    for promise, rule, granted in _misplaced(stand, claim):
        yield _edit(promise, rule, claim, with_files(evidence, claim, cpus_effective=granted))


def _misplaced(stand: Stand, claim: Claim) -> Iterator[tuple[str, str, CpuSet]]:
    """CPUs that break what is promised about places, where the machine has such CPUs."""
    evidence, cpus = stand.evidence, claim.cpus or CpuSet()
    cores = groups.cpu_groups(evidence, groups.CORES) or ()
    nodes = [own for own in (groups.nodes(evidence) or {}).values() if own]
    if Alignment.SMT in claim.alignments and any(len(core) > 1 for core in cores if core & cpus):
        first = next(core for core in cores if len(core) > 1 and core & cpus)
        yield "whole cores", "smt-alignment", cpus - CpuSet.of([first.first()])
    if Alignment.NUMA in claim.alignments and len(nodes) > 1:
        yield "one NUMA node", "numa-alignment", _one_of_each(nodes, len(nodes))
    if claim.max_numa_nodes is not None and claim.max_numa_nodes < len(nodes):
        yield "fewest NUMA nodes", "numa-alignment", _one_of_each(nodes, claim.max_numa_nodes + 1)
    if Alignment.NUMA_EVEN in claim.alignments and max(map(len, nodes)) > 3 and len(nodes) > 1:
        yield "even spread", "numa-alignment", nodes[0] | CpuSet.of([nodes[1].first()])
    for preference, rule, kind in (
        (Preference.LLC, "llc-alignment", groups.L3),
        (Preference.SOCKET, "socket-alignment", groups.SOCKETS),
    ):
        parts = groups.cpu_groups(evidence, kind) or ()
        if preference in claim.preferences and len(parts) > 1 and sum(1 for part in parts if part & cpus) == 1:
            yield str(preference), rule, _one_of_each(parts, len(parts))


def _one_of_each(parts: Sequence[CpuSet], count: int) -> CpuSet:
    return CpuSet.of(part.first() for part in parts[:count])


def with_files(evidence: Evidence, claim: Claim, **values: object) -> Evidence:
    """Change what a claim's files said, at both ends of the window."""

    def changed(files: tuple[CgroupFiles, ...]) -> tuple[CgroupFiles, ...]:
        return tuple(replace(one, **values) if one.cgroup == claim.cgroup else one for one in files)  # type: ignore[arg-type]

    return replace(evidence, files_before=changed(evidence.files_before), files_after=changed(evidence.files_after))


def _intruded(evidence: Evidence, cpu: int) -> Evidence:
    row = Intruder(
        cpu=cpu,
        tid=9,
        comm="stranger",
        owner=OwnerClass.FOREIGN_POD,
        cgroup="/pinproof-stand/other",
        switches=1,
        total_ns=MS,
        longest_ns=MS,
        first_at_ns=0,
    )
    return replace(evidence, intruders=(*evidence.intruders, row))


def _edit(promise: str, rule: str, claim: Claim, evidence: Evidence) -> Edit:
    return Edit(promise=promise, rule=rule, subject=claim.name, evidence=evidence)
