"""A saved session, judged again: each of its packed runs, and what its index says otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.errors import InputError
from toolkit.model.conformance import ControlResult, ScenarioResult, first_problem
from toolkit.model.result import Result
from toolkit.model.session import FILE, Session, SessionControl, SessionScenario
from toolkit.model.verdict import Outcome, worst
from toolkit.packed import MAX_PACKED_BYTES, unpacked
from toolkit.regular_file import read_regular
from toolkit.session.saved import Judged, judge_saved
from toolkit.store import load_session
from toolkit.text.wording import first_lines
from validators.registry import rule_named

MAX_NOTES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSession:
    """A session whose runs were judged again.

    :param notes: where the index, or the ``result.json`` of a run, differs from the evidence: a line each, with file.
    """

    session: Session
    results: tuple[ScenarioResult, ...]
    notes: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of its scenarios."""
        return worst(result.outcome for result in self.results)


Look = Callable[[str, Judged], None]
"""Is given the name of a packed run, and what it comes to: its files and its evidence are gone afterwards."""


def judge_session(path: Path, look: Look | None = None, look_at_controls: Look | None = None) -> JudgedSession:
    """Judge every run of a session again. :param path: its directory, or its ``session.json``.

    :param look: at each scenario's own run. :param look_at_controls: at those in which a promise was broken on purpose.

    A run that is missing, or is not the file that the index names, leaves its scenario undecided.

    :raises InputError: the index cannot be read, or a run is broken.
    """
    folder = path.parent if path.name == FILE else path
    session = load_session(folder / FILE)
    notes: list[str] = []
    looks = (look, look_at_controls)
    results = tuple(_scenario(folder, session, scenario, notes, looks) for scenario in session.scenarios)
    differ = [
        f"{old.name} is saved as {old.outcome}, its runs give {new.outcome}: {new.reason}"
        for old, new in zip(session.scenarios, results, strict=True)
        if old.outcome is not new.outcome
    ]
    total = worst(scenario.outcome for scenario in session.scenarios)
    if session.scenarios and session.outcome is not total:
        differ.append(f"the outcome is saved as {session.outcome}, the worst of its scenarios is {total}")
    notes += [f"{folder / FILE}: {text}" for text in first_lines(differ, MAX_NOTES)]
    return JudgedSession(session=session, results=results, notes=tuple(notes))


def _scenario(
    folder: Path,
    session: Session,
    scenario: SessionScenario,
    notes: list[str],
    looks: tuple[Look | None, Look | None],
) -> ScenarioResult:
    look, look_at_controls = looks
    made = ScenarioResult(
        name=scenario.name,
        title=scenario.name,
        catalogue=scenario.catalogue,
        outcome=scenario.outcome,
        reason=scenario.reason,
        promises=scenario.promises,
        packed=scenario.run,
    )
    controls = tuple(_control(folder, session, control, notes, look_at_controls) for control in scenario.controls)
    if not scenario.run:
        # It never ran: what is known of it is that it could not, or that its plan was wrong.
        return replace(made, controls=controls, outcome=worst([scenario.outcome, Outcome.UNDECIDED]))
    result, problem = _run(folder, session, scenario.run, notes, look)
    outcomes = [control.outcome for control in controls if control.outcome is not Outcome.SKIPPED]
    outcomes = outcomes or [Outcome.UNDECIDED]
    if result is None:
        return replace(made, controls=controls, outcome=worst([*outcomes, Outcome.UNDECIDED]), reason=problem)
    # What the plan says before anything runs has no evidence: its word is the index's.
    planned = [one for one in scenario.others if one.rule not in {verdict.rule for verdict in result.verdicts}]
    outcome = worst([result.outcome, *outcomes, *(one.outcome for one in planned)])
    return replace(
        made,
        controls=controls,
        verdicts=result.verdicts,
        outcome=outcome,
        reason=first_problem(result.verdicts, controls) or scenario.reason,
        run=str(folder / scenario.run),
        blind_spots=result.coverage.blind_spots,
    )


def _control(
    folder: Path, session: Session, control: SessionControl, notes: list[str], look: Look | None
) -> ControlResult:
    made = ControlResult(
        rule=control.rule,
        fault=control.fault,
        subject=control.about,
        outcome=control.outcome,
        reason=control.reason,
        packed=control.run,
    )
    if not control.run:
        return made
    result, problem = _run(folder, session, control.run, notes, look)
    if result is None:
        return replace(made, outcome=Outcome.UNDECIDED, reason=problem)
    of_node = rule_named(control.rule).of_node
    about = [v for v in result.verdicts if v.rule == control.rule and (of_node or v.subject == control.about)]
    failed = [verdict for verdict in about if verdict.outcome is Outcome.FAILED]
    if failed:
        return replace(made, outcome=Outcome.PASSED, reason=failed[0].reason)
    if control.outcome is Outcome.PASSED:
        found = ", ".join(f"{v.subject}: {v.outcome}" for v in about) or "no verdict"
        return replace(made, outcome=Outcome.FAILED, reason=f"{control.rule} does not notice it in its run ({found})")
    return made


def _run(folder: Path, session: Session, name: str, notes: list[str], look: Look | None) -> tuple[Result | None, str]:
    """Judge a packed run again. :returns: its result, or why there is none."""
    path = folder / name
    if path.parent != folder:
        raise InputError(str(folder / FILE), f"run {name[:60]!r}", "the name of a file beside it")
    try:
        found = hashlib.sha256(read_regular(path, MAX_PACKED_BYTES)).hexdigest()
    except OSError as error:
        return None, f"{name}: {error.strerror or error}"
    if found != session.files.get(name):
        return None, f"{name} is not the file that the index names (SHA-256)"
    with unpacked(path) as run:
        judged = judge_saved(run)
        if look is not None:
            look(name, judged)
    notes += [note.replace(str(run), str(path)) for note in judged.notes]
    return judged.result, ""
