"""Promises that are broken by what was used: CPU time, its division, memory, huge pages; and those of the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tests.unit.catalogue.edit import MS, Edit, edit, quota_word
from tests.unit.catalogue.stand import Stand
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import BandwidthUse, Evidence, Transition, UsageBin
from toolkit.model.placement import PageKind
from validators.queries import view


def used(stand: Stand, claim: Claim) -> Iterator[Edit]:
    """Too much CPU time, throttled periods, another part of contended time, memory on another node."""
    evidence = stand.evidence
    if claim.quota_us is not None and claim.quota_us >= 0:
        # More than every CPU of the machine has: no bound allows it.
        most = 4 * len(stand.online) * evidence.duration_ns
        yield edit(quota_word(claim), "quota-throttling", claim, _used(evidence, claim.cgroup, most))
    if claim.quota_us == -1:
        held = _bandwidth(evidence, claim.cgroup, nr_throttled=7, throttled_ns=7 * MS)
        yield edit(quota_word(claim), "quota-free", claim, held)
    if claim.contended and claim.shares is not None:
        rival = next(one for one in stand.claims.claims if one.contended and one.name != claim.name)
        yield edit("part of contended CPU time", "weight-share", claim, _starved(evidence, claim, rival))
    if claim.mems is not None:
        yield from _pages(stand, claim)


def of_node(stand: Stand) -> Iterator[Edit]:
    """A change that takes too long, a state file that gives a CPU to two."""
    evidence, limit_ms = stand.evidence, stand.claims.transition_limit_ms
    for claim in stand.claims.claims:
        if limit_ms is not None and claim.kind.carries_tasks and claim.cpus is not None:
            slow = Transition(
                claim=claim.name,
                what="mask-change",
                start_at_ns=0,
                end_at_ns=round((limit_ms + 1) * MS),
                cpus_before=claim.cpus,
                cpus_after=claim.cpus,
            )
            late = replace(evidence, transitions=(*evidence.transitions, slow))
            yield edit("time of a change", "transition-window", claim, late)
    for number, reading in enumerate(evidence.state_files):
        if reading.cpu is None:
            continue
        owned = next(claim.cpus for claim in stand.claims.claims if claim.isolation is not Isolation.HOST)
        both = CpuSet.parse(reading.cpu.default) | (owned or CpuSet())
        torn = replace(reading, cpu=replace(reading.cpu, default=str(both)))
        files = (*evidence.state_files[:number], torn, *evidence.state_files[number + 1 :])
        double = replace(evidence, state_files=files)
        yield Edit(promise="state files", rule="checkpoint", subject="cpu_manager_state", evidence=double)


def _bandwidth(evidence: Evidence, cgroup: str, **values: object) -> Evidence:
    """Change what a cgroup's counters said, at whichever claim's level they were read."""
    rows = tuple(replace(row, **values) if row.cgroup == cgroup else row for row in evidence.bandwidth)  # type: ignore[arg-type]
    return replace(evidence, bandwidth=rows)


def _used(evidence: Evidence, cgroup: str, usage_ns: int) -> Evidence:
    """Let a cgroup have used so much, by both witnesses: what one of them says alone is a doubt."""
    rows = tuple(
        replace(row, usage_ns=usage_ns, bpf_usage_ns=None if row.bpf_usage_ns is None else usage_ns)
        if row.cgroup == cgroup
        else row
        for row in evidence.bandwidth
    )
    return replace(evidence, bandwidth=rows)


def _starved(evidence: Evidence, claim: Claim, rival: Claim) -> Evidence:
    """Let a rival have nearly all of a claim's CPU time, in both halves of the window."""
    own = view.level(view.levels_of(claim, evidence), 0)
    assert own is not None
    delta = (own.usage_ns or 0) * 19 // 20
    moved = {claim.name: -delta, rival.name: delta}
    cgroups = {one.name: one.cgroup for one in (claim, rival)}

    def changed(row: BandwidthUse) -> BandwidthUse:
        inside = [name for name, place in cgroups.items() if f"{place}/".startswith(f"{row.cgroup.rstrip('/')}/")]
        # What both are in has the same sum as before.
        return replace(row, usage_ns=(row.usage_ns or 0) + sum(moved[name] for name in inside))

    rows = tuple(changed(row) for row in evidence.bandwidth)
    # On each CPU: what the kernel promises on several CPUs is broken only where it is so on all of them.
    places = Counter(row.claim for row in evidence.cpu_use)
    cpu_use = tuple(
        replace(row, run_ns=row.run_ns + moved.get(row.claim, 0) // places[row.claim]) for row in evidence.cpu_use
    )
    half = evidence.duration_ns // 2
    bins = tuple(
        UsageBin(claim=row.claim, start_at_ns=start, length_ns=half, usage_ns=(row.usage_ns or 0) // 2)
        for row in rows
        if row.level == 0
        for start in (0, half)
    )
    return replace(evidence, bandwidth=rows, cpu_use=cpu_use, usage_bins=bins)


def _pages(stand: Stand, claim: Claim) -> Iterator[Edit]:
    """Pages of each kind on a node that was not promised."""
    evidence, far = stand.evidence, max(stand.nodes) + 1
    for kind, promise, rule in (
        (PageKind.ANON, "memory nodes", "mems-containment"),
        (PageKind.HUGE, "huge pages", "hugepages"),
    ):
        if kind is PageKind.HUGE and not claim.hugepages:
            continue
        readings = tuple(
            replace(one, pages=tuple(replace(row, node=far, kind=kind) for row in one.pages))
            if one.claim == claim.name
            else one
            for one in evidence.pages or ()
        )
        yield edit(promise, rule, claim, replace(evidence, pages=readings))
