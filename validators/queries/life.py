"""The lives of a claim in a window: the present one, and the one of when the window opened, where that is over.

A rule judges the life before as it judges one that goes on: the claim as it was, in its own cgroup, by what is known up
to its end. The evidence is one for both; a life says what of it is its own. One that began in the window, too, came and
went in it, and is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from toolkit.model.claim_changes import ClaimChange, versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence, ThreadMask, Transition
from toolkit.model.evidence.following import EndedLife
from toolkit.model.held import FOREVER_NS, Held
from toolkit.model.layers import Layer, LayerView
from toolkit.model.verdict import Verdict
from validators.queries import promised_anew, timeline, view
from validators.wording import seconds

STARTS = frozenset({"cgroup-made", "claim-added", "restart"})
ENDS = frozenset({"cgroup-gone", "claim-removed"})
"""After these nothing of what was promised before has to hold any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A life of a claim, and what of a window's evidence is its own.

    :param claim: as it was at its end. :param end_ns: of it, or of the window. :param transitions: what happened to it.
    :param layers: what was stated of it. :param masks: of its threads. :param owed, forgotten: as in
        :mod:`validators.queries.timeline`. :param before: what it promised, and from when on, where it is over.
    """

    claim: Claim
    evidence: Evidence
    end_ns: int
    transitions: Sequence[Transition]
    layers: Sequence[LayerView]
    masks: Sequence[ThreadMask]
    owed: Sequence[Held]
    forgotten: Sequence[Held]
    before: tuple[ClaimChange, ...] = ()

    @property
    def renewed(self) -> tuple[ClaimChange, ...]:
        """What it was promised by the first readings after the window."""
        return () if self.before else promised_anew.renewed(self.claim, self.evidence)

    def promised(self, claims: ClaimSet) -> tuple[ClaimChange, ...]:
        """Return what it promised, and from when on; the last may be in force only after the window."""
        return (*(self.before or versions(claims, self.claim)), *self.renewed)

    @property
    def passing(self) -> bool:
        """Whether its claim is followed, and came or went in the window, as far as that is of this life."""
        came_or_went = (row.what in ("claim-added", "claim-removed") for row in self.transitions)
        return self.evidence.following is not None and any(came_or_went)

    @property
    def layered(self) -> bool:
        """Whether layers of a followed node state its CPUs: ``layers-agree`` judges them in time.

        A container that came or went within the window may be gone before any layer was read of it: its pool's promise
        may have grown meanwhile, which nothing has to follow at once.
        """
        spoken = (
            row.layer in (Layer.CHECKPOINT, Layer.PLUGIN, Layer.RUNTIME) for row in self.layers if row.cpus is not None
        )
        return self.evidence.following is not None and (self.passing or any(spoken))

    def named(self, verdict: Verdict) -> Verdict:
        """Say of which life a verdict is."""
        when = f"in its life until {seconds(self.end_ns)}, in {self.claim.cgroup}"
        return replace(verdict, reason=f"{when}: {verdict.reason}")


def whole(claim: Claim, evidence: Evidence) -> Life:
    """Return all that is known of a claim in a window."""
    return Life(
        claim=claim,
        evidence=evidence,
        end_ns=evidence.duration_ns,
        transitions=view.changes_of(claim.name, evidence.transitions),
        layers=view.by_claim(evidence.layers).get(claim.name, ()),
        masks=view.by_claim(evidence.thread_masks).get(claim.name, ()),
        owed=view.by_claim(timeline.owed(evidence)).get(claim.name, ()),
        forgotten=view.by_claim(timeline.forgotten(evidence)).get(claim.name, ()),
    )


def ended(
    claim: Claim, evidence: Evidence, end_ns: int, *, from_ns: int = -FOREVER_NS, before: tuple[ClaimChange, ...] = ()
) -> Life:
    """Return a life that is over. :param claim: as it was at its end. :param from_ns: when it began, where it did in
    the window. :param before: what it promised.
    """
    every, stated = whole(claim, evidence), _stated(claim, evidence)
    return replace(
        every,
        end_ns=end_ns,
        transitions=tuple(
            one for one in every.transitions if from_ns <= one.start_at_ns <= end_ns and one.what not in ENDS
        ),
        layers=tuple(row for life in stated for row in life.layers if from_ns <= row.at_ns <= end_ns),
        masks=tuple(one for one in every.masks if one.first_at_ns <= end_ns and one.last_at_ns >= from_ns),
        owed=tuple(one for one in every.owed if one.from_ns < end_ns and one.to_ns > from_ns),
        forgotten=tuple(one for one in every.forgotten if one.from_ns < end_ns and one.to_ns > from_ns),
        before=before,
    )


def _stated(claim: Claim, evidence: Evidence) -> list[EndedLife]:
    """Return the ends that its source stated of a claim's life in this cgroup."""
    return [life for life in view.by_claim(evidence.ended_lives).get(claim.name, ()) if life.cgroup == claim.cgroup]


def lives(claim: Claim, claims: ClaimSet, evidence: Evidence) -> tuple[Life, Life | None]:
    """Return the present life, and the one before; ``None``: that goes on, or there was none.

    One that nothing followed is known where a source stated its end (:attr:`Evidence.ended_lives`).
    """
    now, every = whole(claim, evidence), versions(claims, claim)
    first = every[0].claim
    stated = _stated(first, evidence)
    if every[0].at_ns > 0 or (first.cgroup == claim.cgroup and not stated):
        return now, None
    mine = tuple(takewhile(lambda one: one.claim.cgroup == first.cgroup, every))
    known_ns = every[len(mine)].at_ns if len(mine) < len(every) else stated[-1].until_ns
    end_ns = _end_ns(now.transitions, known_ns)
    earlier = ended(mine[-1].claim, evidence, end_ns, before=mine)
    owed, forgotten = (tuple(one for one in rows if one.from_ns >= end_ns) for rows in (now.owed, now.forgotten))
    return replace(now, owed=owed, forgotten=forgotten), earlier


def _end_ns(transitions: Sequence[Transition], known_ns: int) -> int:
    """Return when a life ended: its cgroup went, or its follower knew. :param known_ns: when the next one was."""
    before = [one for one in transitions if one.start_at_ns <= known_ns]
    last = [max((one.start_at_ns for one in before if one.what == what), default=known_ns) for what in ENDS]
    return min(last)
