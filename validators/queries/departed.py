"""Claims of a followed node whose cgroup was gone before the window opened: its source said so a moment later.

Such a claim has nothing to judge, and no evidence; the window before has its last moments.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence
from validators.queries import view


def without_departed(claims: ClaimSet, evidence: Evidence) -> ClaimSet:
    """Return the claims without those that had gone."""
    if evidence.following is None:
        return claims
    gone = {claim.name for claim in claims.claims if _departed(claim, evidence)}
    if not gone:
        return claims
    gone |= {claim.name for claim in claims.claims if _left_alone(claim, claims, gone, evidence)}
    return replace(claims, claims=tuple(claim for claim in claims.claims if claim.name not in gone))


def _left_alone(claim: Claim, claims: ClaimSet, gone: AbstractSet[str], evidence: Evidence) -> bool:
    """Return whether it is the own cgroup of a pod of which nothing else was left, and which was going itself."""
    inside = {one.name for one in claims.claims if one.pod == claim.pod and one.kind.carries_tasks}
    return inside <= gone and view.uncounted_pod(claim, claims, evidence)


def _departed(claim: Claim, evidence: Evidence) -> bool:
    """It was removed, never made again, its cgroup or a part of it had no file when the window opened, and no task ran.

    On a hybrid host a cgroup goes in one hierarchy after the other.
    """
    changes = {change.what for change in view.changes_of(claim.name, evidence.transitions)}
    if changes not in ({"claim-removed"}, {"claim-removed", "cgroup-gone"}):
        return False  # most: of hundreds of claims nothing else is looked for
    first = view.files_of(evidence.files_before, claim.cgroup)
    own = view.by_claim(evidence.bandwidth).get(claim.name, ())
    ran = view.by_claim(evidence.cpu_use).get(claim.name, ())
    return (
        (first is None or first.empty or view.level(own, 0) is None)
        and not any(row.switches or row.run_ns or row.samples for row in ran)
        and claim.name not in view.by_claim(evidence.thread_masks)
    )
