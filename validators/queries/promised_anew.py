"""What a claim promised through a window, with what a followed source promised anew when the window had just ended.

Whatever promises anew may write a cgroup before it says so: such a promise was carried out within the window.
"""

from __future__ import annotations

from toolkit.model.claim_changes import ClaimChange, versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence
from validators.queries.memo import memoised


def every_version(claim: Claim, claims: ClaimSet, evidence: Evidence) -> tuple[ClaimChange, ...]:
    """Return what it promised, and from when on, in order; the last may be in force only after the window."""
    return (*versions(claims, claim), *renewed(claim, evidence))


def renewed(claim: Claim, evidence: Evidence) -> tuple[ClaimChange, ...]:
    """Return what it was promised by the first readings after the window, while it was in its cgroup."""
    mine = _renewed(evidence).get(claim.name, ())
    return tuple(one for one in mine if one.claim.cgroup == claim.cgroup)


@memoised
def _renewed(evidence: Evidence) -> dict[str, list[ClaimChange]]:
    found: dict[str, list[ClaimChange]] = {}
    for one in evidence.renewed:
        found.setdefault(one.claim.name, []).append(one)
    return found


def quota_renewed_ns(claim: Claim, claims: ClaimSet, evidence: Evidence) -> int | None:
    """Return when another quota was promised, or whether the CPUs are exclusive; ``None``: never.

    What was promised to a life before, in another cgroup, is that life's: its counters are not this one's.
    """
    known = [one for one in every_version(claim, claims, evidence) if one.claim.cgroup == claim.cgroup]
    promised = [(v.quota_us, v.period_us, v.burst_us, v.exclusive) for v in (one.claim for one in known)]
    return next((one.at_ns for one, now in zip(known, promised, strict=True) if now != promised[0]), None)
