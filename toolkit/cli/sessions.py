"""Sessions and packed runs, for verbs that take a saved run: where it is, and what it comes to when judged again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.cli.common import runs_place, say_line
from toolkit.cli.saved import run_result
from toolkit.errors import InputError
from toolkit.model.conformance import ControlResult, ScenarioResult, first_problem
from toolkit.model.result import Result
from toolkit.model.serde import printable_json, to_data
from toolkit.model.session import FILE, Session, SessionControl, SessionScenario
from toolkit.model.verdict import Outcome, worst
from toolkit.packed import MAX_PACKED_BYTES, unpacked
from toolkit.regular_file import read_regular
from toolkit.report.conformance_junit import render_junit
from toolkit.report.conformance_table import render_conformance
from toolkit.report.text import printable_lines
from toolkit.store import load_session
from validators.registry import rule_named

MAX_NOTES = 5


def located(path: Path) -> Path:
    """Return where a saved run is: the path, or a run of that name where runs are saved unless told otherwise."""
    if not os.path.lexists(path) and path.name == str(path):
        place = runs_place() / path
        if os.path.lexists(place):
            return place
    return path


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Yield the directory of a saved run, which may be packed, or known by its name alone.

    :raises InputError: as :func:`toolkit.packed.unpacked`.
    """
    with unpacked(located(path)) as folder:
        yield folder


def is_session(path: Path) -> bool:
    """Say whether a path is a session: its directory, or its ``session.json``."""
    return path.name == FILE or os.path.lexists(path / FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSession:
    """A session whose runs were judged again."""

    session: Session
    results: tuple[ScenarioResult, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of its scenarios."""
        return worst(result.outcome for result in self.results)


def render_session(judged: JudgedSession, kind: str, *, verbose: bool) -> str:
    """Return a session as ``table``, ``json`` or ``junit``, as `pinproof conformance` prints it."""
    if kind == "junit":
        return render_junit(judged.results, judged.session.identity)
    if kind == "json":
        data = {
            "schema": "pinproof.conformance/1",
            "outcome": judged.outcome.value,
            "session": judged.session.session,
            "scenarios": [to_data(result) for result in judged.results],
        }
        return printable_json(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"
    cut = "" if judged.session.complete else "This session was cut short: not every scenario that fits was run.\n\n"
    head = f"{cut}Session {judged.session.session} on {judged.session.identity.node or 'a node without a name'}\n\n"
    return printable_lines(head + render_conformance(judged.results, judged.session.duration_s, verbose=verbose)) + "\n"


def judged_session(path: Path) -> JudgedSession:
    """Judge every run of a session again; report on standard error where the index says something else.

    A run that is missing, or is not the file that the index names, leaves its scenario undecided.

    :raises InputError: the index cannot be read, or a run is broken.
    """
    folder = path.parent if path.name == FILE else path
    session = load_session(folder / FILE)
    results = tuple(_scenario(folder, session, scenario) for scenario in session.scenarios)
    notes = [
        f"{old.name} is saved as {old.outcome}, its runs give {new.outcome}: {new.reason}"
        for old, new in zip(session.scenarios, results, strict=True)
        if old.outcome is not new.outcome
    ]
    total = worst(scenario.outcome for scenario in session.scenarios)
    if session.scenarios and session.outcome is not total:
        notes.append(f"the outcome is saved as {session.outcome}, the worst of its scenarios is {total}")
    for note in notes[:MAX_NOTES] + ([f"and {len(notes) - MAX_NOTES} more"] if len(notes) > MAX_NOTES else []):
        say_line(f"pinproof: {folder / FILE}: {note}", err=True)
    return JudgedSession(session=session, results=results)


def _scenario(folder: Path, session: Session, scenario: SessionScenario) -> ScenarioResult:
    made = ScenarioResult(
        name=scenario.name,
        title=scenario.name,
        catalogue=scenario.catalogue,
        outcome=scenario.outcome,
        reason=scenario.reason,
        promises=scenario.promises,
        packed=scenario.run,
    )
    controls = tuple(_control(folder, session, control) for control in scenario.controls)
    if not scenario.run:
        # It never ran: what is known of it is that it could not, or that its plan was wrong.
        return replace(made, controls=controls, outcome=worst([scenario.outcome, Outcome.UNDECIDED]))
    result, problem = _run(folder, session, scenario.run)
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


def _control(folder: Path, session: Session, control: SessionControl) -> ControlResult:
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
    result, problem = _run(folder, session, control.run)
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


def _run(folder: Path, session: Session, name: str) -> tuple[Result | None, str]:
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
        return run_result(run)[0], ""
