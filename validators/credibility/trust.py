"""The loss rule, in one place: what makes evidence incomplete, and what incomplete evidence does to a verdict.

Incomplete evidence can prove ``failed``, never ``passed``: :func:`withhold_passes` turns ``passed`` into ``undecided``
and touches nothing else. Each doubt names the witness it is about, so that a full ring buffer does not weaken what a
cgroup file said. Source: docs/principles.md; docs/facts.md K22-K32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from toolkit.model.blind_spots import NO_PROGRAMS, BlindSpot
from toolkit.model.claims import ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Canary, Evidence
from toolkit.model.evidence.following import LIMITS
from toolkit.model.verdict import Outcome, Verdict
from toolkit.text.wording import and_more
from validators.credibility.agreement import disagreements
from validators.credibility.contradictions import contradictions
from validators.credibility.uncounted import uncounted
from validators.queries import file_history, leaves, timeline, view
from validators.queries.memo import memoised
from validators.witness import Witness

ALL = frozenset(Witness)
LEDGER = frozenset({Witness.SWITCHES})
FILES = frozenset({Witness.FILES})

MISSING_SWITCHES_RATIO = 1e-4
"""Judged/kernel switches must reach 0.9999 beyond the read skew (docs/principles.md, "Verdicts")."""
POSITIVE_CONTROL_LIMIT_MS = 250.0
"""Stated latency of the positive control: one sampler period (10.1 ms at 99 Hz), one look of user space (at most
100 ms at 10 looks a second), and the wait of our own process behind up to 40 runnable tasks of one 3 ms slice each on a
loaded CPU (120 ms): 231 ms, rounded up."""
FOLLOW_GAP_NS = 15 * view.NANOSECONDS
"""A node that is followed is read every 2 s; a runtime that hangs costs 10 s, and one reading more."""
PLANTED_SKEW_SWITCHES = 3
PLANTED_SKEW_RATIO = 0.05
"""/proc and the ledger count a canary's switches some milliseconds apart, at both ends of the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A reason why evidence of some witnesses is not enough to pass; ``claim`` ``None``: for every subject."""

    witnesses: frozenset[Witness]
    text: str
    claim: str | None = None
    blind_spot: bool = False
    cpus: CpuSet | None = None
    """Where the claim's tasks may have run unseen: whose own these are is in doubt, too."""


def is_still(evidence: Evidence) -> bool:
    """Return whether evidence is one reading of a node's files and nothing else.

    The evidence's own statement is not enough: with it, what a ledger has seen could avoid every doubt.
    """
    coverage = evidence.coverage
    return (
        evidence.picture is not None
        and evidence.duration_ns == 0
        and not (coverage.switches_judged or coverage.switches_kernel or coverage.lost_events or coverage.blindness)
        and not (evidence.cpu_use or evidence.bandwidth or evidence.usage_bins or evidence.canaries)
    )


@memoised
def doubts(claims: ClaimSet, evidence: Evidence) -> tuple[Doubt, ...]:
    """Return everything that makes this evidence incomplete, in a fixed order."""
    if is_still(evidence):
        return ()  # One reading of files: no window, no ledger, no control could be incomplete.
    found = [Doubt(witnesses=ALL, text=text) for text in _window(evidence)]
    if evidence.picture is not None:
        found.append(
            Doubt(witnesses=ALL, text="it claims to be one reading of a node, but tasks were observed for a time")
        )
    found += [
        Doubt(witnesses=frozenset(spot.witnesses), text=spot.text, claim=spot.claim, blind_spot=True, cpus=spot.cpus)
        for spot in blindness(evidence)
        if spot.witnesses
    ]
    found += [
        Doubt(witnesses=ALL, text=f"the evidence contradicts itself: {text}") for text in contradictions(evidence)
    ]
    # Where there is no ledger the spot that says so is the reason; what it would have shown is not missing besides.
    lost = () if view.without_programs(evidence) else (*_loss(evidence), *_controls(evidence))
    found += [Doubt(witnesses=LEDGER, text=text) for text in lost]
    found += [Doubt(witnesses=FILES, text=text) for text in _files(evidence)]
    found += [Doubt(witnesses=ALL, text=text) for text in _followed(evidence)]
    found += [
        Doubt(witnesses=frozenset(split.witnesses), text=split.text, claim=split.claim)
        for split in (*disagreements(claims, evidence), *uncounted(claims, evidence))
    ]
    found += [
        Doubt(witnesses=frozenset(witnesses), text=text, claim=claim.name)
        for claim, text, witnesses in leaves.doubts(claims, evidence)
    ]
    return tuple(found)


def blindness(evidence: Evidence) -> tuple[BlindSpot, ...]:
    """Return what was not seen, and what ran when nothing was known of promises any more."""
    unknown = timeline.asked(evidence).unknown
    return evidence.coverage.blindness if unknown is None else (*evidence.coverage.blindness, unknown)


def withhold_passes(
    verdicts: tuple[Verdict, ...],
    witnesses: frozenset[Witness],
    claims: ClaimSet,
    evidence: Evidence,
    *,
    of_node: bool = False,
    of_others: bool = False,
) -> tuple[Verdict, ...]:
    """Turn each ``passed`` that rests on a doubted witness into ``undecided``, with the reasons.

    :param of_node: none of the verdicts is about a claim, whatever its subject is called.
    :param of_others: they are about what others ran on the subjects' own CPUs.
    """
    blind = bool(blindness(evidence))
    if not blind and all(verdict.outcome is not Outcome.PASSED for verdict in verdicts):
        return verdicts
    relevant = [doubt for doubt in doubts(claims, evidence) if doubt.witnesses & witnesses]
    if not relevant:
        return verdicts
    names = frozenset[str]() if of_node else _names(claims)
    doubted = {doubt.claim for doubt in relevant}
    wide = [doubt for doubt in relevant if of_others and doubt.claim is not None and doubt.cpus]
    if wide:
        doubted |= {
            owner for doubt in wide for owner, cpus in _owners(claims).items() if doubt.cpus and doubt.cpus & cpus
        }
    # Most of hundreds of claims have no doubt of their own: theirs are put together once.
    shared, every = _Grounds.of([doubt for doubt in relevant if doubt.claim is None]), _Grounds.of(relevant)

    def weighed(verdict: Verdict) -> Verdict:
        if verdict.outcome is Outcome.SKIPPED:
            return verdict
        if verdict.subject not in names:
            return every.weigh(verdict)  # A verdict about the node rests on the evidence of every claim.
        if verdict.subject not in doubted:
            return shared.weigh(verdict)
        own = _owners(claims).get(verdict.subject, CpuSet()) if of_others else CpuSet()
        about = [
            doubt
            for doubt in relevant
            if doubt.claim in (None, verdict.subject) or (doubt.cpus is not None and doubt.cpus & own)
        ]
        return _Grounds.of(about).weigh(verdict)

    return tuple(weighed(verdict) for verdict in verdicts)


@dataclass(frozen=True, slots=True)
class _Grounds:
    """What some doubts do to a verdict.

    :param spots: texts of the blind spots among them. :param why: all of them in a line; ``None``: there are none.
    """

    spots: tuple[str, ...]
    why: str | None

    @classmethod
    def of(cls, about: Sequence[Doubt]) -> _Grounds:
        spots = tuple(dict.fromkeys(doubt.text for doubt in about if doubt.blind_spot))
        return cls(spots, summary(doubt.text for doubt in about) if about else None)

    def weigh(self, verdict: Verdict) -> Verdict:
        weakened_by = self.spots or verdict.weakened_by
        # That a rule found nothing to judge is no news where nothing was there that could have seen it.
        nothing = next((text for text in self.spots if text.startswith(NO_PROGRAMS)), None)
        if nothing is not None and verdict.outcome is Outcome.UNDECIDED and nothing not in verdict.reason:
            return replace(verdict, reason=nothing, weakened_by=weakened_by)
        if self.why is not None and verdict.outcome is Outcome.PASSED:
            return replace(verdict, outcome=Outcome.UNDECIDED, reason=self.why, weakened_by=weakened_by)
        return replace(verdict, weakened_by=weakened_by) if self.spots else verdict


@memoised
def _owners(claims: ClaimSet) -> dict[str, CpuSet]:
    """Return the CPUs of each claim whose CPUs are its own, or its pod's."""
    return {
        claim.name: claim.cpus
        for claim in claims.claims
        if claim.cpus is not None and claim.isolation is not Isolation.HOST
    }


@memoised
def _names(claims: ClaimSet) -> frozenset[str]:
    return frozenset(claim.name for claim in claims.claims)


def summary(texts: Iterable[str]) -> str:
    """Join reasons; the first few are enough on a table's line."""
    unique = list(dict.fromkeys(texts))
    more = and_more(len(unique) - 3, aside=True)
    return "; ".join(unique[:3]) + more


def _window(evidence: Evidence) -> list[str]:
    found = []
    if evidence.duration_ns <= 0:
        found.append("nothing was observed: the window is empty")
    found += [
        f"CPU {event.cpu} went {'online' if event.online else 'offline'} in the window"
        for event in sorted(evidence.hotplug, key=lambda event: (event.at_ns, event.cpu))
    ]
    return found


def _files(evidence: Evidence) -> list[str]:
    gap_ns = file_history.unread_ns(evidence)
    if gap_ns <= file_history.GAP_LIMIT_NS:
        return []
    return [f"the control files were not read for {gap_ns / 1e9:.1f} s: what was put back meanwhile was not seen"]


def _followed(evidence: Evidence) -> list[str]:
    """A source that does not answer: claims that came, went or changed since then are not known."""
    following = evidence.following
    if following is None:
        return []
    # Limits that nothing promises are no reason why nothing answered.
    missing = [line for line in following.missing if not line.startswith(f"{LIMITS}: ")]
    why = f" ({summary(missing)})" if following.unanswered and missing else ""
    if following.unanswered and not following.readings:
        return [f"{following.source} did not answer in all of the window{why}: what changed is not known"]
    if following.gap_ns <= FOLLOW_GAP_NS:
        return []
    return [f"{following.source} was not read for {following.gap_ns / 1e9:.1f} s{why}: what changed is not known"]


def _loss(evidence: Evidence) -> list[str]:
    coverage = evidence.coverage
    found = []
    if coverage.lost_events > 0:
        found.append(f"{coverage.lost_events} events lost (ring buffer full)")
    if coverage.map_full > 0:
        found.append(f"{coverage.map_full} counts lost (map full)")
    if coverage.missed_runs > 0:
        found.append(f"the kernel skipped {coverage.missed_runs} runs of our program")
    online = view.online(evidence)
    unseen = online - coverage.cpus_seen
    if not online:
        found.append("it is not known which CPUs were online")
    if unseen:
        found.append(f"CPUs {unseen} were never seen")
    found += _switch_count(evidence)
    return found


def _switch_count(evidence: Evidence) -> list[str]:
    coverage = evidence.coverage
    counted, skew = view.kernel_switches(coverage)
    if coverage.switches_kernel <= 0 or coverage.switches_judged <= 0:
        return [f"{coverage.switches_judged} switches judged of {coverage.switches_kernel} that the kernel counted"]
    # A count that may be off by half of itself is no second witness.
    allowed = min(skew, counted // 2) + counted * MISSING_SWITCHES_RATIO
    # Some kernels count switches of threads that they hide from every tracepoint. They are known by name and have no
    # claim, so nothing was missed about any claim; the coverage lists them as blind spots.
    untraced = max(0, coverage.switches_untraced)
    difference = coverage.switches_judged + untraced - counted
    if abs(difference) <= allowed:
        return []
    numbers = f"{coverage.switches_judged} switches judged of {counted} that the kernel counted"
    if untraced:
        numbers += f", {untraced} by threads that it does not trace"
    return [f"{numbers} ({difference:+d}, allowed ±{allowed:.0f})"]


def _controls(evidence: Evidence) -> list[str]:
    positive = [canary for canary in evidence.canaries if canary.positive]
    clean = [canary for canary in evidence.canaries if not canary.positive]
    found = []
    if not positive:
        found.append("no positive control was planted")
    if not clean:
        found.append("no clean canary ran")
    # What a control showed until it ended is no proof of the rest of the window.
    found += [
        f"the {'positive control' if canary.positive else 'clean canary'} did not run to the end where it was put"
        for canary in evidence.canaries
        if canary.planted_switches < 0
    ]
    for canary in positive:
        found += _positive(canary)
    for canary in clean:
        # One that was moved was out of its set indeed.
        if clean_canary_reported(canary) and canary.planted_switches >= 0:
            found.append(
                f"the clean canary was reported ({canary.out_of_set_switches} switches): false alarms possible"
            )
        if canary.run_ns <= 0:
            found.append("the clean canary was never seen to run")
    return found


def clean_canary_reported(canary: Canary) -> bool:
    """Return whether a canary that keeps its claim was reported all the same."""
    return not canary.positive and (
        canary.out_of_set_switches > 0 or canary.out_of_set_ns > 0 or canary.reported_at_ns is not None
    )


def _positive(canary: Canary) -> list[str]:
    if canary.out_of_set_switches <= 0 and canary.out_of_set_ns <= 0:
        return ["the planted escape was not seen"]
    found = []
    skew = max(PLANTED_SKEW_SWITCHES, canary.planted_switches * PLANTED_SKEW_RATIO)
    if canary.out_of_set_switches < canary.planted_switches - skew:
        found.append(f"only {canary.out_of_set_switches} of {canary.planted_switches} planted escapes were seen")
    if canary.reported_at_ns is None:
        found.append("the planted escape was never reported")
    else:
        latency_ms = (canary.reported_at_ns - canary.planted_at_ns) / 1e6
        if not 0 <= latency_ms <= POSITIVE_CONTROL_LIMIT_MS:
            stated = f"{POSITIVE_CONTROL_LIMIT_MS:.0f} ms"
            found.append(f"the planted escape was reported after {latency_ms:.1f} ms (stated: {stated})")
    return found
