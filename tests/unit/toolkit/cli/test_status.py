"""The one line for node-problem-detector: what the last window said, and that it is not known where it says nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import Ended, pinproof
from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import balanced, claim_set, coverage, evidence, use
from toolkit.model.evidence import Evidence
from toolkit.model.identity import Identity
from toolkit.model.session import Session, SessionScenario
from toolkit.model.verdict import Outcome
from toolkit.session.index import save_session
from validators.registry import judge

ESCAPE = replace(use("db", 0, switches=1, run_ns=9, samples=0), out_of_set_switches=1, out_of_set_ns=9)
STORIES = {
    "passed": evidence(),
    "failed": balanced(evidence(cpu_use=(*evidence().cpu_use, ESCAPE))),
    "undecided": evidence(coverage=coverage(lost_events=1)),
}
NPD = {"passed": 0, "failed": 1, "undecided": 2}


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def saved(path: Path, found: Evidence, ended_s: float = 1.0) -> Path:
    """A window or a run that ended so long ago."""
    found = replace(found, started_at=ago(ended_s + found.duration_ns / 1e9))
    save_run(path, claims=claim_set(), evidence=found)
    save_result(path, judge(claim_set(), found), found)
    return path


def status(place: Path, *more: str) -> Ended:
    done = pinproof("status", "--npd", "--output", place, *more)
    assert done.stdout.count("\n") == 1
    assert len(done.stdout.rstrip("\n")) <= 80
    assert done.stderr == ""
    return done


@pytest.mark.parametrize("story", STORIES)
def test_the_last_run(tmp_path: Path, story: str) -> None:
    """npd's codes with --npd, pinproof's own without; what did not pass is named."""
    saved(tmp_path / "run", STORIES[story])
    done = status(tmp_path)
    assert done.exit_code == NPD[story]
    assert done.stdout.startswith(f"{story} ")
    assert (story != "passed") == ("cpuset-containment db" in done.stdout)
    assert pinproof("status", "--output", tmp_path).exit_code == {"passed": 0, "failed": 1, "undecided": 3}[story]
    told = json.loads(pinproof("status", "--json", "--output", tmp_path).stdout)
    assert told["outcome"] == story


def test_of_a_watch_the_last_window_counts(tmp_path: Path) -> None:
    """Not the ones before, and not one that has not been saved whole yet."""
    saved(tmp_path / "watch/window-000001", STORIES["failed"], ended_s=40)
    saved(tmp_path / "watch/window-000002", STORIES["passed"])
    (tmp_path / "watch/window-000003").mkdir()
    assert status(tmp_path).exit_code == 0
    saved(tmp_path / "watch/window-000003", STORIES["failed"])
    assert status(tmp_path).exit_code == 1


def test_the_newest_of_several(tmp_path: Path) -> None:
    """By when it was written; what holds nothing is passed over, and so is what is not ours."""
    saved(tmp_path / "a-new", STORIES["passed"])
    saved(tmp_path / "z-old", STORIES["failed"], ended_s=500)
    os.utime(tmp_path / "z-old", (time.time() - 500,) * 2)
    (tmp_path / "begun").mkdir()
    (tmp_path / "note").write_text("x")
    assert status(tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("ended_s", "windows", "code"), [(80, True, 0), (100, True, 2), (100, False, 0), (9e4, False, 0)]
)
def test_what_is_old_is_not_known(tmp_path: Path, ended_s: float, windows: bool, code: int) -> None:
    """Of a watch of 10 s windows after three of them and a minute; of a run after a day and two hours."""
    saved(tmp_path / ("run/window-000001" if windows else "run"), STORIES["passed"], ended_s=ended_s)
    assert status(tmp_path).exit_code == code
    assert status(tmp_path, "--max-age", "1").exit_code == 2


def test_a_failure_that_is_old_is_not_known_either(tmp_path: Path) -> None:
    """It says what it was."""
    saved(tmp_path / "run", STORIES["failed"], ended_s=3 * 86_400)
    done = status(tmp_path)
    assert (done.exit_code, "failed then" in done.stdout) == (2, True)


def test_a_clock_that_went_back(tmp_path: Path) -> None:
    """A run of the future is no answer."""
    saved(tmp_path / "run", STORIES["passed"], ended_s=-3600)
    assert status(tmp_path).exit_code == 2


def test_nothing_is_known_where_nothing_is(tmp_path: Path) -> None:
    """No directory, an empty one, a file in its place, a broken result, one that contradicts itself."""
    assert status(tmp_path / "none").exit_code == 2
    assert status(tmp_path).exit_code == 2
    (tmp_path / "file").write_text("")
    assert status(tmp_path / "file").exit_code == 2
    run = saved(tmp_path / "run", STORIES["failed"])
    text = (run / "result.json").read_text()
    (run / "result.json").write_text(text.replace('"outcome": "failed"', '"outcome": "passed"', 1))
    assert status(tmp_path).exit_code == 2
    (run / "result.json").write_text("{" + "x" * 300)
    assert status(tmp_path).exit_code == 2
    assert pinproof("status", "--output", tmp_path).exit_code == 2


@pytest.mark.parametrize(("complete", "code"), [(True, 0), (False, 2)])
def test_a_session(tmp_path: Path, complete: bool, code: int) -> None:
    """Its index alone is read; one that was cut short proves nothing."""
    scenarios = tuple(SessionScenario(name=name, outcome=Outcome.PASSED) for name in "ab")
    session = Session(
        session="night",
        outcome=Outcome.PASSED,
        complete=complete,
        started_at=ago(60),
        duration_s=9.0,
        pinproof="1",
        kernel="6",
        identity=Identity(),
        counts={"passed": 2},
        scenarios=scenarios,
    )
    save_session(tmp_path / "s", session)
    assert status(tmp_path).exit_code == code


def test_it_takes_less_than_a_second_of_cpu(tmp_path: Path) -> None:
    """With a thousand runs saved: npd asks again and again."""
    for number in range(1000):
        (tmp_path / f"run-{number}").mkdir()
    saved(tmp_path / "run-now", STORIES["passed"])
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "toolkit", "status", "--npd", "--output", str(tmp_path)], check=True, timeout=60
    )
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 1.0
