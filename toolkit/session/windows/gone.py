"""What is kept of subjects that no window has named for long: one verdict for each rule, one sum for all claims. Pure.

Pods come and go, and each is a subject of its own: what is kept of a watch must not grow with their number. Those that
failed keep their verdicts, up to :data:`MAX_FAILED`; the totals say of how many more that is so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from toolkit.model.blind_spots import ScanGap
from toolkit.model.verdict import Outcome, Verdict, rank
from toolkit.model.windows import ClaimSum
from toolkit.session.windows.throughout import Throughout

GONE = "subjects that are gone"
"""The subject of a total, and the claim of their sums."""
MAX_FAILED = 200
"""Verdicts about subjects that are gone which are kept one by one: those that failed first."""


@dataclass(slots=True)
class Kept:
    """One rule about one subject: its worst verdict, of which window that is, and how many came to what."""

    verdict: Verdict
    window: int
    at: str
    outcomes: Counter[Outcome]
    same: bool = True
    """Whether each window that was as bad has the same reason."""
    throughout: Throughout = field(default_factory=Throughout)

    def take(self, verdict: Verdict, window: int, at: str) -> None:
        """Take a verdict of another window."""
        if rank(verdict.outcome) < rank(self.verdict.outcome):
            self.verdict, self.window, self.at, self.same = verdict, window, at, True
        elif verdict.outcome is self.verdict.outcome:
            self.same = self.same and verdict.reason == self.verdict.reason

    def measures(self) -> dict[str, int]:
        """Return in how many windows there was a verdict, and which."""
        counts = {f"windows_{outcome}_count": self.outcomes[outcome] for outcome in Outcome if self.outcomes[outcome]}
        return {"windows_count": sum(self.outcomes.values()), **counts}


@dataclass(slots=True)
class Total:
    """One rule about all subjects that are gone and have no verdict of their own any more."""

    kept: Kept
    subjects: Counter[Outcome] = field(default_factory=Counter)
    """How many there were, by the worst outcome of each."""

    def add(self, one: Kept) -> None:
        """Add a subject."""
        if self.subjects:
            self.kept.take(one.verdict, one.window, one.at)
            self.kept.outcomes += one.outcomes
        self.subjects[one.verdict.outcome] += 1

    def verdict(self) -> Verdict:
        """Return the verdict about all of them: the worst one's outcome, with which that was."""
        kept, worst = self.kept, self.kept.verdict
        counts = ", ".join(f"{self.subjects[outcome]} {outcome}" for outcome in Outcome if self.subjects[outcome])
        reason = f"{self.subjects.total()} that no window named any more, summed up: {counts}"
        if worst.outcome in (Outcome.FAILED, Outcome.UNDECIDED):
            reason += (
                f"; the first {worst.outcome}: {worst.subject} in window {kept.window} ({kept.at}): {worst.reason}"
            )
        each = {f"subjects_{outcome}_count": self.subjects[outcome] for outcome in Outcome if self.subjects[outcome]}
        measures = {"subjects_count": self.subjects.total(), **each, **kept.measures()}
        return Verdict(rule=worst.rule, subject=GONE, outcome=worst.outcome, reason=reason, measures={**measures})


class Gone:
    """Takes subjects out of what is kept of each one."""

    def __init__(self) -> None:
        self._totals: dict[str, Total] = {}
        self._failed: set[tuple[str, str]] = set()
        self._claims: ClaimSum | None = None

    def verdicts(self, verdicts: dict[tuple[str, str], Kept], subjects: frozenset[str]) -> None:
        """Fold the verdicts about these subjects; what failed stays as long as there is room."""
        for key in [key for key in verdicts if key[1] in subjects and key not in self._failed]:
            one = verdicts[key]
            if one.verdict.outcome is Outcome.FAILED and len(self._failed) < MAX_FAILED:
                self._failed.add(key)
                continue
            del verdicts[key]
            total = self._totals.setdefault(key[0], Total(replace(one, outcomes=Counter(one.outcomes))))
            total.add(one)

    def claims(self, claims: dict[str, ClaimSum], subjects: frozenset[str]) -> None:
        """Fold the sums of these claims, but of those that failed."""
        failed = {subject for _, subject in self._failed}
        for name in [name for name in claims if name in subjects - failed]:
            self._claims = added(self._claims or ClaimSum(claim=GONE), claims.pop(name))

    def totals(self) -> tuple[Verdict, ...]:
        """Return a verdict for each rule that had one about a subject that is gone."""
        return tuple(total.verdict() for total in self._totals.values())

    def claim_sums(self) -> tuple[ClaimSum, ...]:
        """Return the sum of all claims that are gone, if any are."""
        return () if self._claims is None else (self._claims,)


def added(total: ClaimSum, more: ClaimSum) -> ClaimSum:
    """Add counters; the longest is the longer."""
    return ClaimSum(
        claim=total.claim,
        switches=total.switches + more.switches,
        run_ns=total.run_ns + more.run_ns,
        out_of_set_switches=total.out_of_set_switches + more.out_of_set_switches,
        out_of_set_ns=total.out_of_set_ns + more.out_of_set_ns,
        out_of_set_longest_ns=max(total.out_of_set_longest_ns, more.out_of_set_longest_ns),
        transition_ns=total.transition_ns + more.transition_ns,
    )


def gaps_without(gaps: Iterable[ScanGap], subjects: frozenset[str]) -> tuple[ScanGap, ...]:
    """Return the gaps with those of these claims in one: the worst, with the scans of all."""
    found: dict[str, ScanGap] = {}
    for gap in gaps:
        one = replace(gap, claim=GONE) if gap.claim in subjects else gap
        old = found.get(one.claim)
        found[one.claim] = one if old is None else worse_gap(old, one)
    return tuple(found.values())


def worse_gap(one: ScanGap, other: ScanGap) -> ScanGap:
    """Return the gap that exceeds what is allowed by more, with the scans of both."""
    longer = max(one, other, key=lambda gap: gap.longest_ns - gap.allowed_ns)
    return replace(longer, scans=one.scans + other.scans)
