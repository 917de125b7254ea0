"""What is promised anew while a window is open. Claims are complete before it opens; this is how they go on.

Source: ``docs/principles.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChange:
    """From ``at_ns`` on (since the window opened) this is what the claim of that name promises.

    :param claim: the whole claim as it is then; one whose name is new begins to be.
    """

    at_ns: int
    claim: Claim


def in_force(claims: ClaimSet, changes: Iterable[ClaimChange]) -> ClaimSet:
    """Return what is promised after the changes, in the order in which they were made.

    Rules judge by this: what bound before a change, and until when, is in the transitions of the evidence.
    """
    named = {claim.name: claim for claim in claims.claims}
    named.update({change.claim.name: change.claim for change in changes})
    return replace(claims, claims=tuple(named.values()))
