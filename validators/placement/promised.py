"""When in a window a claim was promised something about where its CPUs lie: a resize may end that, or begin it.

Source: docs/principles.md ("Each claim has an epoch"); KEP-1287: a container that asks for whole CPUs may cease to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from toolkit.model.claim_changes import ClaimChange, versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.held import FOREVER_NS
from toolkit.timeline.saved import PLANNED_CAUSES
from validators.queries import view
from validators.wording import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """A promise about alignment, and when it stood.

    :param claim: as it was then, at last. :param earlier: CPU sets that it had before, of other lives too.
    """

    claim: Claim
    begin_ns: int = -FOREVER_NS
    end_ns: int = FOREVER_NS
    earlier: tuple[CpuSet, ...] = ()

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

    def sets(self, evidence: Evidence) -> Iterator[CpuSet]:
        """Yield the CPU sets that were promised then, one that was so again too."""
        yield from self.earlier
        since_ns = -FOREVER_NS
        changes = view.mask_changes(self.name, evidence.transitions)
        for epoch, change in enumerate((*changes, None)):
            until_ns = FOREVER_NS if change is None else change.start_at_ns
            promised = view.set_at_epoch(self.claim, changes, epoch)
            if promised is not None and max(since_ns, self.begin_ns) < min(until_ns, self.end_ns):
                yield promised
            since_ns = until_ns if change is None else change.end_at_ns


def stands(
    claims: ClaimSet, claim: Claim, transitions: tuple[Transition, ...], asked: Callable[[Claim], bool]
) -> tuple[Stand, ...]:
    """Return when a claim was promised it, and what it was then. :param asked: whether it is, as it is at one time."""
    every = versions(claims, claim)
    if len(every) == 1:  # most of hundreds
        return (_stand(list(every), claim),) if asked(claim) else ()
    runs = [list(run) for _, run in groupby(every, key=lambda one: _terms(one.claim))]
    if len(runs) == 1:
        return (_stand(runs[0], claim),) if asked(claim) else ()
    mine = [one for one in view.changes_of(claim.name, transitions) if one.cause in PLANNED_CAUSES]
    found = []
    for index, run in enumerate(runs):
        begin_ns, end_ns = -FOREVER_NS, FOREVER_NS
        if index:
            begin_ns = _edge(runs[index - 1][-1], run[0], mine)[1]
        if index + 1 < len(runs):
            end_ns = _edge(run[-1], runs[index + 1][0], mine)[0]
        if asked(run[-1].claim):
            found.append(_stand(run, run[-1].claim, begin_ns, end_ns))
    return tuple(found)


def _stand(run: list[ClaimChange], claim: Claim, begin_ns: int = -FOREVER_NS, end_ns: int = FOREVER_NS) -> Stand:
    earlier = tuple(dict.fromkeys(one.claim.cpus for one in run[:-1] if one.claim.cpus))
    return Stand(claim=claim, begin_ns=begin_ns, end_ns=end_ns, earlier=earlier)


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
