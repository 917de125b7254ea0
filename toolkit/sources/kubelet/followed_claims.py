"""What holds of a node's promises while it is followed: pods come, go and are resized between two readings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolkit.model.claims import Claim, ClaimSet


def followed(claim: Claim) -> Claim:
    """Nobody says that the pods of a node compete all the time. Limits that a resize changes are known too late."""
    return replace(claim, contended=False, memory_bytes=None, hugepages=())


def claims_above(claims: ClaimSet, running: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the claims of pods and QoS classes that something runs in: of others nothing is read."""
    above = {path for claim in running for path in _above(claim.cgroup)}
    found = (claim for claim in claims.claims if not claim.kind.carries_tasks and claim.cgroup in above)
    return tuple(map(followed, found))


def _above(cgroup: str) -> list[str]:
    parts = cgroup.split("/")
    return ["/".join(parts[:length]) for length in range(2, len(parts))]
