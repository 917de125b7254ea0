"""``pinproof status``: how the last window, run or session came out, in one line; for node-problem-detector, too.

It reads what was judged when it was saved, and judges nothing: it is asked every few seconds. What is old is no answer.
Source: node-problem-detector, "Custom Plugin Monitor" (exit code 0: no problem, 1: the problem, else: unknown; 80
characters of output unless it is configured otherwise).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from toolkit.cli.common import SECONDS, json_option, print_json, runs_option, say
from toolkit.errors import InputError
from toolkit.model.session import FILE
from toolkit.model.verdict import Outcome, exit_code, worst
from toolkit.report.text import printable
from toolkit.store import load_result, load_session, window_paths
from toolkit.text import names
from toolkit.verbs import VERBS

WIDTH = 80
WINDOWS = 3
MORE_S = 60.0
"""A watch is late when so many windows and so long have passed, as the alert ``PinproofStale`` says."""
DAY_S = 26 * 3600.0
"""A run that does not go on is an answer for a day, and two hours for the one of the next day."""
AHEAD_S = 60.0
"""A clock may be so much behind the one that it was saved by."""
NPD = {Outcome.PASSED: 0, Outcome.FAILED: 1, Outcome.UNDECIDED: 2, Outcome.SKIPPED: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """What was saved last. :param found: what did not pass. :param goes_on: it is a window of a watch."""

    name: str
    outcome: Outcome
    found: tuple[str, ...]
    started_at: str
    duration_s: float
    goes_on: bool = False


@click.command("status", short_help=VERBS["status"].does)
@click.option("--npd", is_flag=True, help="Exit codes of node-problem-detector: 0 holds, 1 broken, 2 not known.")
@click.option(
    "--max-age",
    "max_age_s",
    type=SECONDS,
    help="Older than this is not known. By default three windows of a watch and a minute, else 26 hours.",
)
@runs_option
@json_option
def command(npd: bool, max_age_s: float | None, runs: Path, as_json: bool) -> None:
    """Print one line of at most 80 characters about the last window of a watch, run or session that is saved.

    Nothing saved, and what is older than it may be, is not known: a watch that died is never taken for one that sees no
    problem.

    Exit code: 0 it passed, 1 something failed, 3 it is undecided or not known, 2 it cannot be read. With --npd: 0 it
    passed, 1 something failed, 2 everything else.
    """
    context = click.get_current_context()
    try:
        outcome, line = _answer(runs, max_age_s)
    except (InputError, OSError) as error:
        if not npd:
            raise
        outcome, line = Outcome.UNDECIDED, f"not known: {error}"
    line = _fitted(line)
    if as_json:
        print_json({"outcome": str(outcome), "line": line})
    else:
        say(line)
    context.exit(NPD[outcome] if npd else exit_code(outcome))


def _answer(runs: Path, max_age_s: float | None) -> tuple[Outcome, str]:
    last = next(_newest(runs), None)
    if last is None:
        return Outcome.UNDECIDED, f"not known: nothing is saved in {names.from_path(runs)}"
    try:
        age_s = time.time() - datetime.fromisoformat(last.started_at).timestamp() - last.duration_s
    except (ValueError, OverflowError):
        return Outcome.UNDECIDED, f"not known: {last.name} does not say when it was"
    allowed_s = max_age_s or (WINDOWS * last.duration_s + MORE_S if last.goes_on else DAY_S)
    if age_s > allowed_s:
        return Outcome.UNDECIDED, f"not known: the last is {_ago(age_s)} old ({last.outcome} then)"
    if age_s < -AHEAD_S:
        return Outcome.UNDECIDED, f"not known: the last was saved {_ago(-age_s)} in the future"
    if last.outcome is Outcome.SKIPPED:
        return Outcome.UNDECIDED, f"not known: nothing was judged {_ago(age_s)} ago"
    what = ""
    if last.found:
        more = f" (+{len(last.found) - 1})" if len(last.found) > 1 else ""
        what = f": {last.found[0]}{more}"
    return last.outcome, f"{last.outcome} {_ago(age_s)} ago{what}"


def _ago(seconds: float) -> str:
    seconds = max(0.0, seconds)
    for unit, length_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"


def _fitted(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _newest(runs: Path) -> Iterator[Last]:
    """Yield what is saved, the newest first; what has not ended says nothing.

    :raises InputError: one of them is broken, or the directory cannot be read.
    """
    try:
        with os.scandir(runs) as entries:
            found = [(one.stat().st_mtime_ns, one.name) for one in entries if one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(names.from_path(runs), error.strerror or str(error), "a directory of runs") from None
    for _, name in sorted(found, reverse=True):
        last = None if name.startswith(".") else _last_of(runs / name)
        if last is not None:
            yield last


def _last_of(path: Path) -> Last | None:
    """Return what a directory says; ``None``: nothing yet, or it is none of ours."""
    if os.path.lexists(path / FILE):
        session = load_session(path / FILE)
        bad = [one for one in session.scenarios if one.outcome is session.outcome is not Outcome.PASSED]
        return Last(
            name=path.name,
            outcome=session.outcome if session.complete else worst([session.outcome, Outcome.UNDECIDED]),
            found=tuple(f"{one.name}: {one.reason}" for one in bad),
            started_at=session.started_at,
            duration_s=session.duration_s,
        )
    windows = [one for one in window_paths(path).values() if os.path.lexists(one / "result.json")]
    place = windows[-1] if windows else path
    if not os.path.lexists(place / "result.json"):
        return None
    result = load_result(place / "result.json")
    outcome = worst(verdict.outcome for verdict in result.verdicts)
    if outcome is not result.outcome:
        raise InputError(names.from_path(place), f"outcome {result.outcome}", f"{outcome}, the worst of its verdicts")
    bad_ones = [one for one in result.verdicts if one.outcome is outcome is not Outcome.PASSED]
    return Last(
        name=path.name,
        outcome=outcome,
        found=tuple(f"{one.rule} {one.subject}" for one in bad_ones) if outcome is not Outcome.SKIPPED else (),
        started_at=result.started_at,
        duration_s=result.duration_s,
        goes_on=bool(windows),
    )
