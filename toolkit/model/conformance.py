"""What a conformance run says about one scenario: its verdicts, and whether each broken promise was caught."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome, Verdict


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ControlResult:
    """Whether a promise broken on purpose was caught.

    :param target: the container whose promise was broken; empty: the node's. :param packed: its run, in a session.
    """

    rule: str
    fault: str
    subject: str
    outcome: Outcome
    reason: str
    run: str = ""
    target: str = ""
    packed: str = ""

    @property
    def name(self) -> str:
        """What tells it from the other controls of its scenario."""
        return " ".join(filter(None, (self.fault, self.target or self.subject, self.rule)))


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """One scenario with all its controls. ``passed``: every promise held, and every broken one was caught.

    :param run: its directory, or its file where it is packed; empty if there is none. :param packed: that file's name.
    :param files: all of its files in its session -> SHA-256, those of runs that were thrown away too.
    :param promises: hash of the scenario and of what was promised. :param blind_spots: what was not seen.
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
    packed: str = ""
    files: dict[str, str] = field(default_factory=dict)
    promises: str = ""
    blind_spots: tuple[str, ...] = ()


def first_problem(verdicts: Sequence[Verdict], controls: Sequence[ControlResult]) -> str:
    """Return in one line the first thing that failed, or else is undecided; empty: everything passed or was skipped."""
    for bad in (Outcome.FAILED, Outcome.UNDECIDED):
        for verdict in verdicts:
            if verdict.outcome is bad:
                return f"{verdict.rule} {verdict.subject}: {verdict.reason}"
        for control in controls:
            if control.outcome is bad:
                return f"negative control {control.rule}/{control.fault}: {control.reason}"
    return ""
