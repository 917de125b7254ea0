"""What is said of a saved run is said by one function, whatever asks: the command line prints it and adds nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from toolkit.cli.main import cli
from toolkit.model.serde import to_data
from toolkit.model.verdict import Outcome
from toolkit.session.saved import judge_run, judge_saved
from toolkit.session.saved_session import judge_session
from toolkit.store import load_run
from validators.registry import judge

DATA = Path(__file__).resolve().parents[3] / "data"
RUN = DATA / "runs/three-classes"
WATCH = DATA / "watches/escape-seen"
SESSION = DATA / "sessions/two-cpus"


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON document in its file."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def as_saved(_run: Path) -> None:
    """Nothing."""


def a_claim_less(run: Path) -> None:
    """Take one claim out of what was promised."""
    rewritten(run / "claims.json", lambda data: data["claims"].pop())


def another_start(run: Path) -> None:
    """State another time in the result than the evidence does."""
    rewritten(run / "result.json", lambda data: data.update(started_at="2020-01-01T00:00:00+00:00"))


def a_verdict_less(run: Path) -> None:
    """Take a verdict out of the result: a note, and no verdict of its own."""
    rewritten(run / "result.json", lambda data: data["verdicts"].pop(0))


def a_window_less(watch: Path) -> None:
    """Take the second of three windows away."""
    shutil.rmtree(watch / "window-000002")


@pytest.mark.parametrize(
    ("source", "edit", "more"),
    [
        (RUN, as_saved, set()),
        (RUN, a_claim_less, {("evidence-health", "claims")}),
        (RUN, another_start, {("evidence-health", "run")}),
        (RUN, a_verdict_less, set()),
        (WATCH, as_saved, set()),
        (WATCH, a_window_less, {("evidence-health", "windows")}),
    ],
    ids=lambda value: getattr(value, "__name__", getattr(value, "name", "")),
)
def test_both_ways_say_the_same(
    source: Path, edit: Callable[[Path], None], more: set[tuple[str, str]], tmp_path: Path
) -> None:
    """``judge_saved`` and ``pinproof judge``: the same verdicts in the same words, the same outcome, the same notes."""
    run = tmp_path / "run"
    shutil.copytree(source, run)
    edit(run)

    found = judge_saved(run)
    done = CliRunner().invoke(cli, ["judge", str(run), "--json"])
    printed = json.loads(done.stdout)

    assert printed["verdicts"] == [to_data(verdict) for verdict in found.result.verdicts]
    assert printed["outcome"] == found.result.outcome.value
    assert done.stderr.splitlines() == [f"pinproof: {note}" for note in found.notes]
    assert {(one.rule, one.subject) for one in found.result.verdicts if one.outcome is Outcome.UNDECIDED} >= more
    assert bool(found.notes) or edit not in (another_start, a_verdict_less)


def test_the_rules_alone_do_not_see_the_directory(tmp_path: Path) -> None:
    """Of a run whose claims were edited ``judge`` says what it says of any: :func:`judge_run` is the one to ask."""
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    a_claim_less(run)
    saved = load_run(run)

    alone = judge(saved.claims, saved.evidence)
    whole = judge_run(saved).result.verdicts

    assert whole[: len(alone)] == alone
    assert {one.subject for one in whole[len(alone) :]} == {"claims"}


def test_a_session_is_judged_as_the_command_line_says(tmp_path: Path) -> None:
    """Its index was fetched without its runs: they are undecided, and the index states more."""
    folder = tmp_path / "session"
    shutil.copytree(SESSION, folder)

    found = judge_session(folder)
    done = CliRunner().invoke(cli, ["judge", str(folder), "--json"])
    printed = json.loads(done.stdout)

    assert printed["scenarios"] == [to_data(result) for result in found.results]
    assert printed["outcome"] == found.outcome.value
    assert found.notes
    assert done.stderr.splitlines() == [f"pinproof: {note}" for note in found.notes]
