"""Lives of a claim that ended in a window and were followed by another: each is judged by what is known of it alone.

A life that broke its promise failed, whatever its claim did later. One of which too little was read to say that it kept
its promise is skipped, and counted: no doubt of the lives that go on, nor of the node, because nothing that anything
could still read would settle it. How much it used is never unread: the ledger counts up to its last task's end.
Source: docs/principles.md, "Change under observation".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from toolkit.model.claim_changes import versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import BandwidthUse, EndedUse, Evidence, UsageBin
from toolkit.model.verdict import Outcome, Verdict
from validators.queries import view
from validators.queries.life import Life, ended
from validators.wording import plural, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeUse:
    """A life that is over, and what it used.

    :param life: its claim as it was promised last. :param use: what was counted of it.
    :param settled: whether that promise stood for all of its time.
    """

    life: Life
    use: EndedUse
    settled: bool

    @property
    def own(self) -> BandwidthUse:
        """What was counted in its own cgroup."""
        return self.use.own

    @property
    def spent_ns(self) -> int:
        """All that it used, by the ledger."""
        return (self.own.bpf_usage_ns or 0) + self.own.unread_ns

    @property
    def counted(self) -> bool:
        """Whether its counters were read twice."""
        return self.own.window_ns > 0 and self.own.nr_throttled is not None

    def accounts(self) -> list[BandwidthUse]:
        """Return its use by each witness: up to its end by the ledger, up to their last reading by its counters."""
        by_ledger = replace(
            self.own,
            window_ns=self.use.to_ns - self.use.from_ns,
            usage_ns=None,
            nr_periods=None,
            nr_throttled=None,
            bpf_usage_ns=self.spent_ns,
            unread_ns=0,
        )
        return [by_ledger, self.own] if self.counted else [by_ledger]


Judge = Callable[[LifeUse], tuple[Outcome, str]]
"""Failed with its reason, passed, or skipped: not enough was read of it."""


def ended_lives(claim: Claim, claims: ClaimSet, evidence: Evidence) -> tuple[LifeUse, ...]:
    """Return the lives of a claim that ended in the window, the last one apart, in their order."""
    return tuple(_life(use, claim, claims, evidence) for use in view.by_claim(evidence.ended_use).get(claim.name, ()))


def _life(use: EndedUse, claim: Claim, claims: ClaimSet, evidence: Evidence) -> LifeUse:
    mine = [one for one in versions(claims, claim) if one.claim.cgroup == use.own.cgroup and one.at_ns <= use.to_ns]
    promised = mine[-1].claim if mine else replace(claim, cgroup=use.own.cgroup)
    return LifeUse(
        life=ended(promised, evidence, use.to_ns, from_ns=use.from_ns, before=tuple(mine)),
        use=use,
        settled=all(_bandwidth(one.claim) == _bandwidth(promised) for one in mine),
    )


def _bandwidth(claim: Claim) -> tuple[object, ...]:
    return claim.quota_us, claim.period_us, claim.burst_us, claim.exclusive, claim.kept_quota_us


def slots_in(bins: list[UsageBin], from_ns: int, to_ns: int | None = None) -> list[UsageBin]:
    """Return the slots that begin in a time: a life has none before its begin, nor any use after its end."""
    return [entry for entry in bins if entry.start_at_ns >= from_ns and (to_ns is None or entry.start_at_ns < to_ns)]


def last_began_ns(claim: Claim, evidence: Evidence) -> int:
    """Return from when on slots of CPU time are of the claim's last life; since the window opened."""
    return max((use.to_ns for use in view.by_claim(evidence.ended_use).get(claim.name, ())), default=0)


def with_ended_lives(verdict: Verdict, lives: tuple[LifeUse, ...], judge: Judge) -> Verdict:
    """Return a claim's verdict with those of its lives before: what one broke is failed, the others are counted."""
    found = [(life, *judge(life)) for life in lives]
    broken = [
        f"in its life until {seconds(life.use.to_ns)}, in {life.own.cgroup}: {reason}"
        for life, outcome, reason in found
        if outcome is Outcome.FAILED and reason != verdict.reason  # a level above both
    ]
    reasons = [verdict.reason] if verdict.outcome is Outcome.FAILED or not broken else []
    kept, skipped = (sum(one is wanted for _, one, _ in found) for wanted in (Outcome.PASSED, Outcome.SKIPPED))
    if verdict.outcome is not Outcome.SKIPPED or broken:
        reasons += [f"{plural(kept, 'life', 'lives')} before kept it"] * bool(kept)
        reasons += [f"{plural(skipped, 'life', 'lives')} before ended unjudged"] * bool(skipped)
    return replace(
        verdict,
        outcome=Outcome.FAILED if broken else verdict.outcome,
        reason="; ".join([*broken, *reasons]),
        measures={**verdict.measures, "skipped_lives_count": skipped} if found else verdict.measures,
    )
