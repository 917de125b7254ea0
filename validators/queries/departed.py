"""Claims of a followed node whose cgroup was gone before the window opened: its source said so a moment later.

Such a claim has nothing to judge, and no evidence; the window before has its last moments.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence
from validators.queries import view


def without_departed(claims: ClaimSet, evidence: Evidence) -> ClaimSet:
    """Return the claims without those that had gone."""
    if evidence.following is None:
        return claims
    kept = tuple(claim for claim in claims.claims if not _departed(claim, evidence))
    return claims if len(kept) == len(claims.claims) else replace(claims, claims=kept)


def _departed(claim: Claim, evidence: Evidence) -> bool:
    """It was removed, never made again, its cgroup or a part of it had no file when the window opened, and no task ran.

    On a hybrid host a cgroup goes in one hierarchy after the other.
    """
    if {change.what for change in view.changes_of(claim.name, evidence.transitions)} != {"claim-removed"}:
        return False  # most: of hundreds of claims nothing else is looked for
    first = view.files_of(evidence.files_before, claim.cgroup)
    own = view.by_claim(evidence.bandwidth).get(claim.name, ())
    ran = view.by_claim(evidence.cpu_use).get(claim.name, ())
    return (
        (first is None or first.empty or view.level(own, 0) is None)
        and not any(row.switches or row.run_ns or row.samples for row in ran)
        and claim.name not in view.by_claim(evidence.thread_masks)
    )
