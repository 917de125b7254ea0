"""Which bandwidth periods were throttled, and by which level's quota, in words: it explains, nothing is decided by it.

Counters are read once a second, so that single periods are known where all between two readings were throttled.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model.claims import ClaimSet, SubjectKind
from toolkit.model.evidence import BandwidthUse, ThrottledPeriods
from toolkit.text.wording import and_more, listed

NAMED = 4
"""Stretches that are named of a level."""
_LEVELS = {SubjectKind.POD: "its pod's quota", SubjectKind.QOS: "its class's quota"}


def throttled_periods(levels: Iterable[BandwidthUse], claims: ClaimSet) -> str:
    """Say of each level that was throttled in how many of its periods, and in which; empty: none, or not known.

    :param levels: a claim's own cgroup first.
    """
    kinds = {claim.cgroup: claim.kind for claim in claims.claims}
    said = []
    for row in levels:
        if row.nr_throttled and row.throttled_in:
            above = _LEVELS.get(kinds.get(row.cgroup, SubjectKind.CONTAINER), f"the quota of {row.cgroup}")
            quota = "its own quota" if row.level == 0 else above
            said.append(f"{row.nr_throttled} of {row.nr_periods} by {quota} ({_stretches(row.throttled_in)})")
    return f"throttled in periods {listed(said)}" if said else ""


def _stretches(found: tuple[ThrottledPeriods, ...]) -> str:
    return ", ".join(map(_stretch, found[:NAMED])) + and_more(len(found) - NAMED)


def _stretch(one: ThrottledPeriods) -> str:
    if one.first == one.last:
        return f"{one.first}"
    return f"{'all' if one.throttled == one.last - one.first + 1 else one.throttled} of {one.first}-{one.last}"
