"""The life that a claim had when the window opened, where that has ended since: what is known of it.

A rule judges that life as it judges one that goes on: the claim as it was, in its own cgroup, by the evidence up to its
end. A life that began in the window, too, came and went in it, and is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

from toolkit.model.claim_changes import versions, with_history
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.held import OWING, Why
from toolkit.model.verdict import Verdict
from validators.queries import view
from validators.queries.file_history import ENDS
from validators.wording import seconds

_MISSED = (*OWING, Why.FORGOTTEN)
"""Rows of what a claim had to give back, or lacked, in one life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierLife:
    """A life that is over.

    :param claim: as it was at its end. :param claims: with what it promised through that life.
    :param evidence: of the time up to its end; of what is grouped by claim, the rows of this one alone.
    """

    claim: Claim
    claims: ClaimSet
    evidence: Evidence

    def after(self, evidence: Evidence) -> Evidence:
        """Return the evidence of the window without what the claim had to give back, or lacked, in this life."""
        return replace(
            evidence,
            held=tuple(one for one in evidence.held if one.why not in _MISSED or one not in self.evidence.held),
        )

    def named(self, verdict: Verdict) -> Verdict:
        """Say of which life a verdict is."""
        when = f"in its life until {seconds(self.evidence.duration_ns)}, in {self.claim.cgroup}"
        return replace(verdict, reason=f"{when}: {verdict.reason}")


def earlier_life(claim: Claim, claims: ClaimSet, evidence: Evidence) -> EarlierLife | None:
    """Return the life that a claim had when the window opened; ``None``: it goes on, or there was none.

    One that nothing followed is known where a source stated its end (:attr:`Evidence.ended_lives`).
    """
    every = versions(claims, claim)
    first = every[0].claim
    lives = [life for life in view.by_claim(evidence.ended_lives).get(claim.name, ()) if life.cgroup == first.cgroup]
    if every[0].at_ns > 0 or (first.cgroup == claim.cgroup and not lives):
        return None
    mine = tuple(takewhile(lambda one: one.claim.cgroup == first.cgroup, every))
    known_ns = every[len(mine)].at_ns if len(mine) < len(every) else lives[-1].until_ns
    transitions = tuple(view.changes_of(claim.name, evidence.transitions))
    end_ns = _end_ns(transitions, known_ns)
    return EarlierLife(
        claim=mine[-1].claim,
        claims=with_history(claims, {claim.name: mine}),
        evidence=replace(
            evidence,
            duration_ns=end_ns,
            transitions=tuple(one for one in transitions if one.start_at_ns <= end_ns and one.what not in ENDS),
            thread_masks=tuple(
                one for one in view.by_claim(evidence.thread_masks).get(claim.name, ()) if one.first_at_ns <= end_ns
            ),
            layers=tuple(row for life in lives for row in life.layers if row.at_ns <= end_ns),
            held=tuple(
                one
                for one in evidence.held
                if one.why not in _MISSED or (one.claim == claim.name and one.from_ns < end_ns)
            ),
            renewed=(),
        ),
    )


def _end_ns(transitions: tuple[Transition, ...], known_ns: int) -> int:
    """Return when a life ended: its cgroup went, or its follower knew. :param known_ns: when the next one was."""
    before = [one for one in transitions if one.start_at_ns <= known_ns]
    last = [max((one.start_at_ns for one in before if one.what == what), default=known_ns) for what in ENDS]
    return min(last)
