"""Runs that were saved by earlier versions are read, and judged as they were then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from toolkit.cli.judge import command as judge_verb

RUN = Path(__file__).resolve().parents[2] / "data" / "runs" / "three-classes"


def judged(run: Path) -> tuple[int, list[tuple[str, str, str]]]:
    """Return the exit code and the outcomes."""
    done = CliRunner().invoke(judge_verb, [str(run), "--json"])
    verdicts = json.loads(done.stdout)["verdicts"]
    return done.exit_code, [(v["rule"], v["subject"], v["outcome"]) for v in verdicts]


def test_a_key_that_nothing_writes_any_more_is_read(tmp_path: Path) -> None:
    """Transitions had ``held_at_ns``, which was always empty."""
    shutil.copytree(RUN, tmp_path / "new")
    path = tmp_path / "new/evidence.json"
    data = json.loads(path.read_text())
    change = {"claim": "db/main", "what": "cpus", "start_at_ns": 10**8, "end_at_ns": 2 * 10**8}
    data["transitions"] = [change]
    path.write_text(json.dumps(data))
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    data["transitions"] = [change | {"held_at_ns": None}]
    (tmp_path / "old/evidence.json").write_text(json.dumps(data))

    code, outcomes = judged(tmp_path / "old")

    assert outcomes
    assert (code, outcomes) == judged(tmp_path / "new")
