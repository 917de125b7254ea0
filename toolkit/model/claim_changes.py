"""What is promised anew while a window is open. Claims are complete before it opens; this is how they go on.

Source: ``docs/principles.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChange:
    """From ``at_ns`` on (since the window opened) this is what the claim of that name promises: all of it, of which a
    row of the timeline has CPUs, memory nodes, quota and weight.

    :param claim: the whole claim as it is then; one whose name is new begins to be.
    """

    at_ns: int
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsInForce(ClaimSet):
    """What is promised at the end of a window. CPU sets have epochs (transitions); what else bound before is kept here.

    :param history: name -> what the claim promised from the window's begin on (0), and from each change on.
    """

    history: dict[str, tuple[ClaimChange, ...]] = field(default_factory=dict)


def in_force(claims: ClaimSet, changes: Iterable[ClaimChange]) -> ClaimSet:
    """Return what is promised after the changes, in the order in which they were made."""
    history = {claim.name: [ClaimChange(at_ns=0, claim=claim)] for claim in claims.claims}
    for change in changes:
        history.setdefault(change.claim.name, []).append(change)
    now = replace(claims, claims=tuple(versions[-1].claim for versions in history.values()))
    return with_history(now, {name: tuple(versions) for name, versions in history.items()})


def with_history(claims: ClaimSet, history: dict[str, tuple[ClaimChange, ...]]) -> ClaimsInForce:
    """Return the claims with what they promised before. :param history: as in :class:`ClaimsInForce`."""
    values = {name: getattr(claims, name) for name in ClaimSet.__dataclass_fields__}
    return ClaimsInForce(**values, history=history)


def versions(claims: ClaimSet, claim: Claim) -> tuple[ClaimChange, ...]:
    """Return what a claim promised through the window, and from when on, in order; the last is in force at its end."""
    known = claims.history.get(claim.name) if isinstance(claims, ClaimsInForce) else None
    return (ClaimChange(at_ns=0, claim=claim),) if known is None else known
