"""``pinproof run`` for longer than a window: its windows are printed, saved and judged again as one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.programs import PROJECT
from toolkit.cli.main import cli
from toolkit.store import load_run, window_paths

pytestmark = pytest.mark.integration  # not beside others: `run` refuses a machine on which their containers run


def test_a_run_longer_than_a_window_has_several(tmp_path: Path) -> None:
    """Each is printed and saved with what it was made from; their sums are the run's result, as `judge` finds them."""
    scenario = PROJECT / "validators/scenarios/exclusive-and-shared.yaml"
    arguments = ["run", str(scenario), "--duration", "2.1", "--window", "1", "--output", str(tmp_path), "--json"]
    done = CliRunner().invoke(cli, arguments)
    (run,) = tmp_path.iterdir()
    sums = json.loads(done.stdout)

    assert done.exit_code in (0, 3), done.output  # a busy machine may leave something undecided
    assert sums == json.loads((run / "result.json").read_text())
    windows = window_paths(run)
    assert list(windows) == list(range(1, sums["windows"]["count"] + 1))
    assert len(windows) > 1
    assert all(f"Window {number}, " in done.stderr for number in windows)
    assert {saved.scenario.name for saved in map(load_run, windows.values()) if saved.scenario} == {scenario.stem}
    assert all(saved.plan and saved.sandbox for saved in map(load_run, windows.values()))
    again = CliRunner().invoke(cli, ["judge", str(run), "--json"])
    assert (again.exit_code, json.loads(again.stdout), again.stderr) == (done.exit_code, sums, "")
