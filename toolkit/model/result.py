"""The result of a run: verdicts with the coverage and the environment they rest on (``pinproof.result/1``).

What every rendering (table, JSON, JUnit) starts from, and the only thing that ``compare`` needs.
Source: docs/principles.md, "Result".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from toolkit.model.blind_spots import BlindSpot
from toolkit.model.evidence import Coverage, Environment, Evidence
from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome, Verdict, rank, worst
from toolkit.model.windows import WindowSums

BEFORE = "window-before"
"""Key of a digest: of the ``result.json`` of the window before, of several consecutive ones."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Verdicts and what they rest on."""

    schema: Literal["pinproof.result/1"] = "pinproof.result/1"
    outcome: Outcome
    started_at: str
    duration_s: float
    verdicts: tuple[Verdict, ...]
    coverage: Coverage
    environment: Environment
    windows: WindowSums | None = None
    """Of consecutive windows: this result is that of all of them. ``None``: it is that of one window."""
    digests: dict[str, str] = field(default_factory=dict)
    """Stage -> SHA-256 of its file, of what was judged; empty where there is none, and in runs from before it was kept.
    """


def make_result(
    evidence: Evidence,
    verdicts: tuple[Verdict, ...],
    digests: Mapping[str, str] | None = None,
    *,
    unknown: BlindSpot | None,
) -> Result:
    """Put a result together; the worst verdict is the outcome of the whole.

    :param digests: as in :class:`Result`. :param unknown: what judging itself adds to what was not seen
        (:attr:`toolkit.timeline.ran.Asked.unknown`); ``None``: nothing.
    """
    coverage = evidence.coverage
    if unknown is not None:
        spots, texts = (*coverage.blindness, unknown), (*coverage.blind_spots, unknown.text)
        coverage = replace(coverage, blindness=spots, blind_spots=texts)
    if coverage.positive_control_latency_ms is None:
        reported = [
            (canary.reported_at_ns - canary.planted_at_ns) / 1e6
            for canary in evidence.canaries
            if canary.positive and canary.reported_at_ns is not None
        ]
        if reported:
            coverage = replace(coverage, positive_control_latency_ms=max(reported))
    coverage = _named(coverage, verdicts)
    return Result(
        outcome=worst(verdict.outcome for verdict in verdicts),
        started_at=evidence.started_at,
        duration_s=evidence.duration_ns / 1e9,
        verdicts=verdicts,
        coverage=coverage,
        environment=evidence.environment,
        digests=dict(digests or {}),
    )


def with_stages(result: Result, stages: Iterable[tuple[str, Result]]) -> Result:
    """Add what failed or is undecided in the stages before (init containers, the time before a resize).

    Of one rule about one subject the worst verdict counts. :param stages: name -> result, in order of time.
    """
    found = {(verdict.rule, verdict.subject): verdict for verdict in result.verdicts}
    for name, before in stages:
        for verdict in before.verdicts:
            own = found.get((verdict.rule, verdict.subject))
            known = Outcome.PASSED if own is None else own.outcome
            if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED) and rank(verdict.outcome) < rank(known):
                found[verdict.rule, verdict.subject] = replace(verdict, reason=f"stage {name}: {verdict.reason}")
    return with_verdicts(result, found.values())


def with_verdicts(result: Result, verdicts: Iterable[Verdict]) -> Result:
    """Return it with these verdicts instead, and the worst of them as its outcome."""
    verdicts = tuple(verdicts)
    return replace(result, verdicts=verdicts, outcome=worst(verdict.outcome for verdict in verdicts))


def _named(coverage: Coverage, verdicts: tuple[Verdict, ...]) -> Coverage:
    """Let every blind spot name the rules that it weakens: those whose verdicts rest on what it hides."""
    if not coverage.blindness:
        return coverage
    weakens: dict[str, dict[str, None]] = {}
    for verdict in verdicts:
        for text in verdict.weakened_by:
            weakens.setdefault(text, {})[verdict.rule] = None
    spots = tuple(replace(spot, weakens=tuple(weakens.get(spot.text, ()))) for spot in coverage.blindness)
    return replace(coverage, blindness=spots, blind_spots=tuple(dict.fromkeys(map(_shown, spots))))


def _shown(spot: BlindSpot) -> str:
    return f"{spot.text}; weakens {', '.join(spot.weakens)}" if spot.weakens else spot.text
