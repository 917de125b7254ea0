"""What a conformance run says about one scenario: its verdicts, and whether each broken promise was caught."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome, Verdict


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ControlResult:
    """Whether a promise broken on purpose was caught."""

    rule: str
    fault: str
    subject: str
    outcome: Outcome
    reason: str
    run: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """One scenario with all its controls. ``passed``: every promise held, and every broken one was caught.

    :param run: its directory; empty if there is none.
    :param repeated: why runs of it came out undecided that were then repeated: the verdicts are those of the last run.
    :param unsaved: why run directories could not be written; the verdicts do not need them.
    """

    name: str
    title: str
    catalogue: tuple[str, ...]
    outcome: Outcome
    reason: str
    run: str = ""
    verdicts: tuple[Verdict, ...] = ()
    controls: tuple[ControlResult, ...] = ()
    repeated: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
