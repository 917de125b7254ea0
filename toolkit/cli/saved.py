"""Saved runs for the verbs that read them: judged again, and what their ``result.json`` says otherwise is printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from toolkit import presence
from toolkit.cli.common import say_line
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.result import Result
from toolkit.model.scenario import Scenario
from toolkit.model.verdict import worst
from toolkit.session.saved import Judged, judge_saved
from toolkit.store import load_result, window_paths


def judged_again(path: Path) -> Judged:
    """Judge a run directory, and report on standard error where its ``result.json`` differs from its evidence.

    :raises InputError: as :func:`toolkit.store.load_run`.
    """
    found = judge_saved(path)
    for note in found.notes:
        say_line(f"pinproof: {note}", err=True)
    return found


class ComparedRun(NamedTuple):
    """What is compared of a run. :param scenario: what was asked for, :param claims: what was promised, if known."""

    result: Result
    scenario: Scenario | None = None
    claims: ClaimSet | None = None


def result_of(path: Path) -> ComparedRun:
    """Return the verdicts of a run directory (judged again) or of a ``result.json``.

    A ``result.json`` without evidence beside it cannot be checked; that is reported on standard error.
    """
    run = path.parent if path.name == "result.json" else path
    evidence = os.path.lexists(run / "evidence.json") or (presence.is_dir(run) and bool(window_paths(run)))
    if presence.is_dir(run) and (evidence or not presence.exists(run / "result.json")):
        found = judged_again(run)
        return ComparedRun(found.result, found.run.scenario, found.run.claims)
    result = load_result(path)
    total = worst(verdict.outcome for verdict in result.verdicts)
    if result.outcome is not total:
        raise InputError(str(path), f"outcome {result.outcome}", f"{total}, the worst of its verdicts")
    say_line(f"pinproof: {path}: there is no evidence beside it: its verdicts are taken as they are", err=True)
    return ComparedRun(result)
