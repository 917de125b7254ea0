"""When in a window a claim was promised something about where its CPUs lie: a resize may end that, or begin it.

Source: docs/principles.md ("Each claim has an epoch"); KEP-1287: a container that asks for whole CPUs may cease to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, pairwise

from toolkit.model.claim_changes import ClaimChange, versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Transition
from toolkit.model.held import FOREVER_NS, Why
from toolkit.timeline import saved
from toolkit.timeline.held import Timeline
from validators.queries import view
from validators.wording import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """A promise about alignment, and when it stood: a row of the timeline has CPUs, and not how they should lie.

    :param claim: as it was then, at last. :param held: what the claim was promised through the window.
    """

    claim: Claim
    held: Timeline
    begin_ns: int = -FOREVER_NS
    end_ns: int = FOREVER_NS

    @property
    def name(self) -> str:
        """Of the claim."""
        return self.claim.name

    @property
    def from_begin(self) -> bool:
        """Whether it stood when the window opened."""
        return self.begin_ns == -FOREVER_NS

    @property
    def to_end(self) -> bool:
        """Whether it stood when the window closed, or as long as the claim was there."""
        return self.end_ns == FOREVER_NS

    @property
    def when(self) -> str:
        """For the begin of a sentence; empty: all the time."""
        parts = [] if self.from_begin else [f"from {seconds(self.begin_ns)}"]
        parts += [] if self.to_end else [f"until {seconds(self.end_ns)}"]
        return " ".join(parts) + (" on" if parts and self.to_end else "")

    @property
    def sets(self) -> tuple[CpuSet, ...]:
        """The CPU sets that were promised then, in the order of time."""
        rows = self.held.cut(self.begin_ns, self.end_ns).rows
        return tuple(row.cpus for row in rows if row.why is Why.PROMISED and row.cpus is not None)


def stands(
    claims: ClaimSet, claim: Claim, transitions: tuple[Transition, ...], asked: Callable[[Claim], bool]
) -> tuple[Stand, ...]:
    """Return when a claim was promised it, and what it was then. :param asked: whether it is, as it is at one time."""
    runs = [list(run) for _, run in groupby(versions(claims, claim), key=lambda one: _terms(one.claim))]
    if not any(asked(run[-1].claim) for run in runs):  # most of hundreds
        return ()
    mine = view.changes_of(claim.name, transitions)
    held, planned = saved.promised(claims, claim, mine), [one for one in mine if one.cause in saved.PLANNED_CAUSES]
    begins, ends = [-FOREVER_NS], list[int]()
    for before, after in pairwise(runs):
        until_ns, since_ns = _edge(before[-1], after[0], planned)
        begins.append(since_ns)
        ends.append(until_ns)
    return tuple(
        Stand(claim=run[-1].claim, held=held, begin_ns=begin_ns, end_ns=end_ns)
        for run, begin_ns, end_ns in zip(runs, begins, [*ends, FOREVER_NS], strict=True)
        if asked(run[-1].claim)
    )


def _terms(claim: Claim) -> tuple[object, ...]:
    return claim.alignments, claim.preferences, claim.max_numa_nodes


def _edge(before: ClaimChange, after: ClaimChange, mine: list[Transition]) -> tuple[int, int]:
    """Return until when the promise stood, and from when on the next one does: it is written down just after the change
    of the set that it comes with, or of the life.
    """
    with_it = [one for one in mine if before.at_ns <= one.start_at_ns and one.end_at_ns <= after.at_ns]
    if not with_it:
        return after.at_ns, after.at_ns
    return min(one.start_at_ns for one in with_it), max(one.end_at_ns for one in with_it)
