"""Which cgroups competed for CPU time as siblings: same parent, same CPUs, and each with work for every one of them.

The scheduler divides each CPU's time between the children of one cgroup by their weights, level by level; so only
siblings can be compared, and only those that had a task to run on each shared CPU all the time: a child with one
thread on two CPUs cannot take its share of the second.
Source: Documentation/scheduler/sched-design-CFS.rst, section 7; docs/facts.md K-weight, K24.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Evidence
from validators.queries import file_history, view

LEDGER_RATIO = 0.05
"""Of a cgroup's CPU time: more of it that the ledger has not, or has beyond, and by CPU it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One child of a cgroup with the claims below it. ``problem``: why it cannot be compared; empty: it can.

    :param weight: the scheduler's own weight (v1 shares; v2 weight by the kernel's conversion).
    :param halves_ns: CPU time in the first and second half of the window, where the ledger has slots.
    :param by_cpu_ns: CPU time on each CPU, where the ledger saw all of it.
    """

    cgroup: str
    claims: tuple[str, ...]
    problem: str = ""
    cpus: CpuSet = field(default_factory=CpuSet)
    weight: int = 0
    usage_ns: int = 0
    window_ns: int = 0
    halves_ns: tuple[int, int] | None = None
    by_cpu_ns: dict[int, int] | None = None


def scheduler_weight(files: CgroupFiles) -> int | None:
    """Return the weight in the scheduler's unit (1024 is the normal weight); ``None``: not read.

    ``sched_weight_from_cgroup`` rounds ``weight * 1024 / 100`` to the nearest.
    """
    if files.weight is not None:
        return max(1, (files.weight * 1024 + 50) // 100)
    return files.shares


def families(claims: ClaimSet, evidence: Evidence) -> dict[str, tuple[Child, ...]]:
    """Return the children with claims below them of every cgroup that has several of those, by the parent's path."""
    tree: dict[str, dict[str, list[Claim]]] = {}
    for claim in claims.claims:
        parts = [part for part in claim.cgroup.split("/") if part]
        for length in range(len(parts)):
            parent, child = "/" + "/".join(parts[:length]), "/" + "/".join(parts[: length + 1])
            tree.setdefault(parent, {}).setdefault(child, []).append(claim)
    return {
        parent: tuple(_child(cgroup, below, evidence) for cgroup, below in sorted(children.items()))
        for parent, children in sorted(tree.items())
        if len(children) > 1
    }


def _child(cgroup: str, below: list[Claim], evidence: Evidence) -> Child:
    names = tuple(claim.name for claim in below)

    def no(problem: str) -> Child:
        return Child(cgroup=cgroup, claims=names, problem=problem)

    below = [claim for claim in below if claim.kind.carries_tasks] or below
    sets = {_granted(claim, evidence) for claim in below}
    if None in sets or len(sets) != 1:
        return no(f"the CPUs of {cgroup} are not known, or not the same for all in it")
    cpus = next(iter(sets)) or CpuSet()
    if any(files.idle for _, files in file_history.readings(evidence, cgroup)):
        return no(f"cpu.idle of {cgroup} was 1: it has what others leave")
    weights = [_weight(files, cgroup) for files in (evidence.files_before, evidence.files_after)]
    if weights[0] is None or weights[1] is None:
        return no(f"the weight of {cgroup} was not read")
    between = [scheduler_weight(files) for _, files in file_history.readings(evidence, cgroup)]
    if any(weight not in (None, weights[0]) for weight in (*between, weights[1])):
        return no(f"the weight of {cgroup} changed in the window")
    read = (row for row in view.bandwidth_by_cgroup(evidence).get(cgroup, ()) if row.usage_ns is not None)
    row = min(read, key=lambda row: (row.claim, row.level), default=None)
    if row is None or row.usage_ns is None or row.window_ns <= 0:
        return no(f"the CPU time of {cgroup} was not read")
    own_rows = view.by_claim(evidence.bandwidth)
    if any(own.nr_throttled for name in names for own in own_rows.get(name, ()) if _within(own.cgroup, cgroup)):
        return no(f"{cgroup} was throttled by a quota")
    demands = [claim.demand_cpus for claim in below]
    if any(demand is None for demand in demands):
        return no(f"how much work {cgroup} had is not known (demandCpus of a claim states it)")
    if sum(demand or 0.0 for demand in demands) < len(cpus):
        return no(f"{cgroup} had no work for each of its CPUs")
    return Child(
        cgroup=cgroup,
        claims=names,
        cpus=cpus,
        weight=weights[0],
        usage_ns=row.usage_ns,
        window_ns=row.window_ns,
        halves_ns=_halves(names, evidence),
        by_cpu_ns=_by_cpu(names, row.usage_ns, evidence),
    )


def _within(cgroup: str, above: str) -> bool:
    return (cgroup.rstrip("/") + "/").startswith(above.rstrip("/") + "/")


def _granted(claim: Claim, evidence: Evidence) -> CpuSet | None:
    """CPUs that the kernel granted, the same at both ends and without a change in between; ``None``: not known."""
    if view.mask_changes(claim.name, evidence.transitions):
        return None
    ends = [view.files_of(files, claim.cgroup) for files in (evidence.files_before, evidence.files_after)]
    sets = {None if own is None else own.cpus_effective for own in ends}
    found = next(iter(sets)) if len(sets) == 1 else None
    return found or None


def _weight(files: tuple[CgroupFiles, ...], cgroup: str) -> int | None:
    own = view.files_of(files, cgroup)
    return None if own is None else scheduler_weight(own)


def _by_cpu(names: tuple[str, ...], usage_ns: int, evidence: Evidence) -> dict[int, int] | None:
    """Return the CPU time of claims by CPU; ``None`` where it does not add up to that of their cgroup."""
    found: dict[int, int] = {}
    for name in set(names):
        for row in view.by_claim(evidence.cpu_use).get(name, ()):
            found[row.cpu] = found.get(row.cpu, 0) + row.run_ns
    return found if abs(sum(found.values()) - usage_ns) <= LEDGER_RATIO * usage_ns else None


def _halves(names: tuple[str, ...], evidence: Evidence) -> tuple[int, int] | None:
    middle = evidence.duration_ns // 2
    sums = [0, 0]
    slots = view.by_claim(evidence.usage_bins)
    for name in set(names):
        if name not in slots:
            return None
        for row in slots[name]:
            sums[row.start_at_ns + row.length_ns // 2 >= middle] += row.usage_ns
    return sums[0], sums[1]
