"""What a gate answers (``pinproof.comparison/2``): values alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.model.measures import Better
from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome

Status = Literal["same", "better", "worse", "suspect", "undecided"]
SAME: Status = "same"
BETTER: Status = "better"
WORSE: Status = "worse"
SUSPECT: Status = "suspect"
UNDECIDED: Status = "undecided"
GONE = "gone"
NEW = "new"
SCENARIO, SPOT, CONTROL = "scenario", "blind-spot", "negative-control"
"""Words in the place of a rule, of findings that no rule makes."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChange:
    """One verdict that differs. ``before`` may be ``new``, ``after`` may be ``gone``.

    :param rule: of it; or ``scenario`` (it is lost), ``negative-control``, ``blind-spot``.
    :param waived: why it does not count; empty: it does.
    """

    rule: str
    subject: str
    before: str
    after: str
    reason: str
    node: str = ""
    scenario: str = ""
    waived: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentChange:
    """One fact about the machine that differs."""

    name: str
    before: str
    after: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureChange:
    """One measure of both sides.

    :param node: whose it is, or the hardware class of a rollout's nodes. :param base, new: medians.
    :param base_repeats, new_repeats: how many runs, or nodes of a rollout. :param smallest: the smallest effect, in the
        measure's unit. :param shift: Hodges and Lehmann's, new against base; ``low``, ``high``: its interval.
    :param exact: it is compared as it is: any other value is wrong.
    :param status: ``suspect``: worse, not confirmed. ``undecided``: the repeats cannot show it.
    """

    node: str
    scenario: str
    rule: str
    subject: str
    measure: str
    unit: str
    better: Better
    base: float
    new: float
    base_repeats: int
    new_repeats: int
    smallest: float
    status: Status
    shift: float | None = None
    low: float | None = None
    high: float | None = None
    exact: bool = False
    reason: str = ""
    hardware: str = ""
    waived: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverState:
    """What became of a waiver. :param used: how many findings it covers."""

    name: str
    state: Literal["used", "unused", "expired"]
    used: int
    until: str
    owner: str
    issue: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What differs between two groups of results, and the gate's answer.

    :param outcome: ``failed``: regressed, or not what was required. ``undecided``: something is suspect, or cannot be
        shown though the policy wants it. :param required: what is not as ``--require`` wants it.
    :param waived: findings that do not count. :param measures: all that were compared.
    :param scenarios: node -> the scenarios of NEW that were compared.
    :param bases, news: the paths that were compared, as they were given; of older answers they are not known.
    """

    schema: Literal["pinproof.comparison/2"] = "pinproof.comparison/2"
    regressed: bool
    outcome: Outcome = Outcome.PASSED
    environment: tuple[EnvironmentChange, ...] = ()
    regressions: tuple[VerdictChange, ...] = ()
    new_blind_spots: tuple[str, ...] = ()
    improvements: tuple[VerdictChange, ...] = ()
    other_changes: tuple[VerdictChange, ...] = ()
    unchanged: int = 0
    base_runs: int = 1
    new_runs: int = 1
    measures: tuple[MeasureChange, ...] = ()
    required: tuple[VerdictChange, ...] = ()
    waived: tuple[VerdictChange, ...] = ()
    waivers: tuple[WaiverState, ...] = ()
    scenarios: dict[str, tuple[str, ...]] | None = None
    bases: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
