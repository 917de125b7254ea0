"""Saved runs, judged again: ``result.json`` is compared with the evidence, never trusted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from toolkit import presence
from toolkit.cli.common import say_line
from toolkit.cli.lost_claims import lost, lost_of_run, promised_names, subjects, with_lost
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.result import Result, make_result, with_stages, with_verdicts
from toolkit.model.scenario import Scenario
from toolkit.model.verdict import Outcome, Verdict, worst
from toolkit.session.one_run import OneWatch, facts_that_differ, not_of_one, of_one_run
from toolkit.session.windows.sums import Sums
from toolkit.store import StoredRun, load_result, load_run, reread, stage_paths, window_paths
from validators.registry import judge

MAX_NOTES = 5
"""Disagreements that are reported one by one."""


def judged_again(run: StoredRun) -> Result:
    """Judge a run by its claims and evidence; report on standard error where its ``result.json`` differs.

    A new rule is not reported: the run may be older than the rule. Claims that were taken out are undecided, and so
    are files that are not of one run.
    """
    now = make_result(run.evidence, judge(run.claims, run.evidence), run.judged_digests)
    found = [] if run.result is None else disagreements(run.result, now)
    _note(run.path, found)
    return _of_one(with_lost(now, lost_of_run(run)), of_one_run(run, now))


def _of_one(result: Result, found: Iterable[str]) -> Result:
    """Add a verdict that is undecided where parts do not fit."""
    verdict = not_of_one(found)
    return result if verdict is None else with_verdicts(result, (*result.verdicts, verdict))


def _note(path: Path, found: list[str]) -> None:
    """Report on standard error where the ``result.json`` of a run directory differs from its evidence."""
    more = [f"and {len(found) - MAX_NOTES} more"] if len(found) > MAX_NOTES else []
    for text in (*found[:MAX_NOTES], *more):
        say_line(f"pinproof: {path / 'result.json'}: {text}", err=True)


def run_result(path: Path) -> tuple[Result, StoredRun]:
    """Judge a run directory again, with the stages before the last.

    One of several windows is judged window by window, each forgotten before the next is read.

    :returns: the result, and the run (of several windows: the last).
    :raises InputError: as :func:`toolkit.store.load_run`.
    """
    windows = window_paths(path) if presence.is_dir(path) else {}
    result, run = _windows_result(path, windows) if windows else _window_result(path)
    before = sorted(map(load_run, stage_paths(path)), key=lambda one: one.evidence.start_monotonic_ns)
    return with_stages(result, [(one.path.name, judged_again(one)) for one in before]), run


def _window_result(path: Path) -> tuple[Result, StoredRun]:
    run = load_run(path)
    return judged_again(run), run


def _windows_result(path: Path, windows: dict[int, Path]) -> tuple[Result, StoredRun]:
    sums, promised, watch, misfits = Sums(), set[str](), OneWatch(), list[str]()
    for number, folder in windows.items():
        run = load_run(folder)
        promised |= promised_names(run)
        misfits += watch.add(number, run)
        result = judged_again(run)
        sums.add(number, result, run.evidence)
    now = reread(sums.result())
    saved = load_result(path) if os.path.lexists(path / "result.json") else None
    found = [] if saved is None else disagreements(saved, now)
    misfits += [] if saved is None else facts_that_differ(saved, now)
    missing = sorted(set(range(1, max(windows) + 1)) - set(windows))
    lacking = max(0, (saved.windows.count if saved is not None and saved.windows is not None else 0) - len(windows))
    _note(path, found)
    if missing or lacking:
        return _of_one(_incomplete(now, missing, max(lacking, len(missing))), misfits), run
    return _of_one(with_lost(now, () if saved is None else lost(subjects(saved), promised)), misfits), run


def _incomplete(result: Result, missing: list[int], count: int) -> Result:
    """Add a verdict that is undecided: missing windows must not count as passed."""
    named = f" ({', '.join(map(str, missing[:MAX_NOTES]))}{', ...' if len(missing) > MAX_NOTES else ''})"
    verdict = Verdict(
        rule="evidence-health",
        subject="windows",
        outcome=Outcome.UNDECIDED,
        reason=f"{count} of the watched windows are missing{named if missing else ''}",
        measures={"windows_missing_count": count},
    )
    return with_verdicts(result, (*result.verdicts, verdict))


def disagreements(saved: Result, now: Result) -> list[str]:
    """Return where saved verdicts differ from those that the evidence gives."""
    recorded = {(verdict.rule, verdict.subject): verdict for verdict in saved.verdicts}
    today = {(verdict.rule, verdict.subject): verdict for verdict in now.verdicts}
    known = {rule for rule, _ in recorded}
    found = []
    for key, verdict in today.items():
        before = recorded.get(key)
        name = f"{verdict.rule} {verdict.subject}"
        if before is not None and before.outcome is not verdict.outcome:
            found.append(f"{name} is saved as {before.outcome}, its evidence gives {verdict.outcome}: {verdict.reason}")
        elif before is None and verdict.rule in known:
            found.append(f"{name} is missing, its evidence gives {verdict.outcome}: {verdict.reason}")
    found += [
        f"{rule} {subject} is saved as {recorded[rule, subject].outcome}, its evidence gives no such verdict"
        for rule, subject in recorded
        if (rule, subject) not in today
    ]
    if saved.outcome is not worst(verdict.outcome for verdict in saved.verdicts):
        found.append(f"the outcome is saved as {saved.outcome}, which is not the worst of its verdicts")
    for name in ("coverage", "environment", "started_at", "duration_s", "windows"):
        if getattr(saved, name) != getattr(now, name):
            found.append(f"{name} is not that of evidence.json")
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
        found, saved = run_result(run)
        return ComparedRun(found, saved.scenario, saved.claims)
    result = load_result(path)
    total = worst(verdict.outcome for verdict in result.verdicts)
    if result.outcome is not total:
        raise InputError(str(path), f"outcome {result.outcome}", f"{total}, the worst of its verdicts")
    say_line(f"pinproof: {path}: there is no evidence beside it: its verdicts are taken as they are", err=True)
    return ComparedRun(result)
