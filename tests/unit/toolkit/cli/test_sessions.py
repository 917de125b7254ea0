"""Sessions: written by what ran them, judged again by their packed runs, listed and removed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.traces import BEGIN, read_back
from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.report.results_builder import CLAIMS, healthy
from tests.unit.toolkit.saved_runs import packed_run
from tests.unit.validators.evidence_builder import balanced, use
from toolkit import store
from toolkit.model.conformance import ControlResult
from toolkit.model.evidence import Evidence
from toolkit.model.identity import HardwareClass, Identity
from toolkit.model.session import SessionControl
from toolkit.model.verdict import Outcome
from toolkit.packed import SUFFIX, read_packed, write_packed
from toolkit.session.index import save_session, session_of

NAME = "20261128-010203-conformance-abcdef"
WIDENED = "one.widen-cpuset.db.tar.gz"


def escaped() -> Evidence:
    row = replace(use("db", 7), out_of_set_switches=3, out_of_set_ns=41_200, out_of_set_longest_ns=30_100)
    whole = healthy()
    return replace(whole, cpu_use=(*whole.cpu_use, row))


def saved(runs: Path, name: str = NAME) -> Path:
    """Save a session of one scenario that passed, and one promise that was broken on purpose and caught."""
    folder = runs / name
    folder.mkdir(parents=True)
    result = packed_run(folder, "one", CLAIMS, balanced(healthy()))
    broken = packed_run(folder, WIDENED.removesuffix(SUFFIX), CLAIMS, balanced(escaped()))
    control = ControlResult(
        rule="cpuset-containment",
        fault="widen-cpuset",
        subject="db",
        target="db",
        outcome=Outcome.PASSED,
        reason="seen",
        packed=WIDENED,
    )
    result = replace(result, controls=(control,), files={**result.files, **broken.files})
    environment = replace(
        healthy().environment,
        identity=Identity(node="n1", machine="m", hardware=HardwareClass(name="c", hash="h")),
    )
    session = session_of(name, [result], environment, started_at="2026-11-28T01:02:03Z", duration_s=3.21, complete=True)
    save_session(folder, session)
    return folder


def test_a_session_is_one_trace(tmp_path: Path) -> None:
    """Each run has its own tracks, that in which a promise was broken too; the page is written beside it."""
    done = pinproof("report", saved(tmp_path), "--perfetto", tmp_path / "trace", "--html", tmp_path / "page")
    seen = read_back((tmp_path / "trace").read_bytes())

    assert (done.exit_code, done.stderr) == (0, "")
    assert [(one.track, one.name) for one in seen if one.track.endswith("/windows") and one.kind == BEGIN] == [
        (f"{WIDENED.removesuffix('.tar.gz')}/windows", "failed"),
        ("one/windows", "passed"),
    ]


def test_a_session_is_judged_again_by_its_runs(tmp_path: Path) -> None:
    """Table, JSON and JUnit say what conformance said; the exit code is that of the worst scenario."""
    folder = saved(tmp_path)

    table, as_json = pinproof("judge", folder), pinproof("judge", folder, "--json")

    assert (table.exit_code, as_json.exit_code, table.stderr) == (0, 0, "")
    assert "1/1" in table.stdout
    assert "on n1" in table.stdout
    (scenario,) = json.loads(as_json.stdout)["scenarios"]
    assert (scenario["outcome"], scenario["controls"][0]["outcome"]) == ("passed", "passed")
    assert pinproof("report", folder / "session.json", "--format", "junit").stdout.count("<testsuite ") == 1
    packed = pinproof("judge", folder / WIDENED)
    assert packed.exit_code == 1
    assert "db" in packed.stdout


def test_the_index_holds_what_gates_and_fleets_ask(tmp_path: Path) -> None:
    """Whose it is, what passed by rule, measures by subject, controls by name, each run's hash."""
    folder = saved(tmp_path)

    session = store.load_session(folder / "session.json")

    (scenario,) = session.scenarios
    assert (session.identity.node, session.outcome, session.counts) == ("n1", Outcome.PASSED, {"passed": 1})
    assert scenario.controls == (
        SessionControl(name="widen-cpuset db cpuset-containment", outcome=Outcome.PASSED, run=WIDENED),
    )
    assert scenario.controls[0].about == "db"
    assert scenario.measures["cpuset-containment db"]["out_of_set_ns"] == 0
    assert scenario.passed["cpuset-containment"] == 2
    for name, sha in session.files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha


def _gone(folder: Path) -> None:
    (folder / "one.tar.gz").unlink()


def _another(folder: Path) -> None:
    files = read_packed(folder / "one.tar.gz")
    (folder / "one.tar.gz").unlink()
    write_packed(folder / "one.tar.gz", {**files, "more.json": b"{}"})


def _control_gone(folder: Path) -> None:
    (folder / WIDENED).unlink()


@pytest.mark.parametrize("edit", [_gone, _another, _control_gone])
def test_a_run_that_is_not_there_or_is_another_is_undecided(tmp_path: Path, edit: Callable[[Path], None]) -> None:
    """What cannot be of this session is not passed, and the line says which file."""
    folder = saved(tmp_path)
    edit(folder)

    found = pinproof("judge", folder)

    assert found.exit_code == 3
    assert ".tar.gz" in found.stdout + found.stderr
    assert "is saved as passed, its runs give undecided" in found.stderr


def test_a_verdict_that_the_index_made_up_is_reported(tmp_path: Path) -> None:
    """The index is never trusted: the runs decide."""
    folder = saved(tmp_path)
    path = folder / "session.json"
    data = json.loads(path.read_text())
    controls = data["scenarios"][0]["controls"]
    controls["one.tar.gz"] = controls.pop(WIDENED)
    path.write_text(json.dumps(data))

    found = pinproof("judge", folder)

    assert found.exit_code == 1
    assert "does not notice it in its run" in found.stdout + found.stderr


@pytest.mark.parametrize("name", ["../one.tar.gz", "/etc/passwd", "a/b.tar.gz"])
def test_a_run_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """The index names files beside it, and nothing else."""
    folder = saved(tmp_path)
    path = folder / "session.json"
    path.write_text(path.read_text().replace('"run":"one.tar.gz"', json.dumps({"run": name})[1:-1].replace(": ", ":")))

    found = pinproof("judge", folder)

    assert found.exit_code == 2
    assert "the name of a file beside it" in found.stderr


def test_runs_are_listed_and_removed(tmp_path: Path) -> None:
    """By name, by number, by age; what is unfinished stays, and what is no run is not touched."""
    for number in range(3):
        os.utime(saved(tmp_path, f"2026112{number}-010203-conformance-abcdef"), (number, number))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    unfinished = tmp_path / "20261129-010203-conformance-123456"
    unfinished.mkdir()
    (unfinished / "one.tar.gz").write_bytes(b"")

    listed = json.loads(pinproof("runs", "list", "--output", tmp_path, "--json").stdout)

    kinds = [(one["kind"], one["outcome"]) for one in listed]
    assert kinds == [("session", "passed")] * 3 + [("session", "unfinished")]
    assert "n1" in pinproof("runs", "list", "--output", tmp_path).stdout
    tried = pinproof("runs", "rm", "--keep", "1", "--dry-run", "--output", tmp_path)
    assert tried.stdout.count("would remove") == 2
    assert pinproof("runs", "rm", "--keep", "1", "--output", tmp_path).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {listed[2]["name"], unfinished.name, "notes"}
    assert pinproof("runs", "rm", "notes", "--output", tmp_path).exit_code == 2
    assert pinproof("runs", "rm", unfinished.name, listed[2]["name"], "--output", tmp_path).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"notes"}
    assert pinproof("runs", "rm", "--output", tmp_path).exit_code == 2
    assert "nothing is saved" in pinproof("runs", "list", "--output", tmp_path / "none").stdout


def test_a_run_is_known_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runs are saved unless told otherwise; a path that exists goes first."""
    saved(tmp_path)
    monkeypatch.setenv("PINPROOF_RUNS", str(tmp_path))

    assert pinproof("judge", NAME).exit_code == 0
    assert pinproof("judge", "no-such-run").exit_code == 2
