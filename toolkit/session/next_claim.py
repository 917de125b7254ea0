"""A claim beside what it was: what of a new reading is taken, and what it has got by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet


def pooled(before: Claim, now: Claim) -> Claim:
    """Return a claim as it was, with the CPUs of the shared pool as they are: its source knows these by itself."""
    shared = before.isolation is now.isolation is Isolation.HOST
    known = before.cpus is not None and now.cpus is not None
    return replace(before, cpus=now.cpus) if shared and known else before


def more_of(before: Claim | None, now: Claim) -> CpuSet:
    """Return the CPUs that a claim has got; none if it is new, or was or is without any."""
    if before is None or before.cpus is None or now.cpus is None or before.isolation is not now.isolation:
        return CpuSet()
    return now.cpus - before.cpus


def renewed(present: ClaimSet, later: Iterable[Claim], at_ns: int) -> Iterator[ClaimChange]:
    """Yield what a later reading promises anew to those that are present. :param at_ns: when it was read."""
    known = {claim.name: claim for claim in present.claims}
    for claim in later:
        before = known.get(claim.name)
        if before is not None and before != claim and before.cgroup == claim.cgroup:
            yield ClaimChange(at_ns=at_ns, claim=claim)
