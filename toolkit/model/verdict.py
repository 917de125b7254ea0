"""Verdicts: four outcomes as values, each with a reason, measures with units, and named offenders.

Source: docs/principles.md. "Incomplete evidence can prove ``failed``, never ``passed``."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from toolkit.model.serde import stage_value

Measure = int | float | str | bool
"""A measured value; the unit is the end of its name (``_ns``, ``_us``, ``_ms``, ``_cpus``, ``_ratio``, ``_count``)."""


class Outcome(StrEnum):
    """The outcome of a rule for one subject."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"

    def __bool__(self) -> bool:
        raise TypeError("an outcome is not a truth value: compare it with Outcome.PASSED or another member")


_WORST_FIRST = (Outcome.FAILED, Outcome.UNDECIDED, Outcome.PASSED, Outcome.SKIPPED)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Offender:
    """What broke a claim: a thread on a CPU, when first, for how long.

    :param first_at_ns: nanoseconds since the observation began.
    :param last_at_ns: until when it was seen there, of the ledger's rows; ``None``: not known.
    :param longest_at_ns: when its longest stay there ended; ``None``: not known.
    """

    claim: str
    tid: int
    comm: str
    cpu: int
    first_at_ns: int
    total_ns: int
    longest_ns: int
    switches: int = 1
    last_at_ns: int | None = None
    longest_at_ns: int | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one rule says about one subject (a claim's name, ``cpu N`` or ``node``)."""

    rule: str
    subject: str
    outcome: Outcome
    reason: str
    measures: dict[str, Measure]
    offenders: tuple[Offender, ...] = ()
    weakened_by: tuple[str, ...] = ()
    """Texts of the blind spots that concern a witness on which it rests."""

    def __bool__(self) -> bool:
        raise TypeError("a verdict is not a truth value: look at its outcome")


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Sum outcomes up: failed beats undecided beats passed beats skipped; nothing at all is skipped."""
    return min(outcomes, key=rank, default=Outcome.SKIPPED)


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict about several times, or lives, of one subject: the worst of them, with the reasons of all that
    came out so.
    """
    found = min(verdicts, key=lambda one: rank(one.outcome))
    same = [one.reason for one in verdicts if one.outcome is found.outcome]
    return replace(found, reason="; ".join(dict.fromkeys(same)))


def rank(outcome: Outcome) -> int:
    """Return the place of an outcome among all, the worst first: 0 is failed."""
    return _WORST_FIRST.index(outcome)


def exit_code(outcome: Outcome) -> int:
    """Return the process exit code of an outcome (docs/principles.md)."""
    return {Outcome.PASSED: 0, Outcome.SKIPPED: 0, Outcome.FAILED: 1, Outcome.UNDECIDED: 3}[outcome]
