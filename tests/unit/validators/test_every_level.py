"""A promise at every level: the files of pods and QoS classes are edited in a healthy recorded run, and judge notices.

The run is ``tests/data/runs/three-classes``: a Guaranteed, a Burstable and a BestEffort pod. Every edit goes through
the saved text and the verb, as a stranger's would.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from toolkit.cli.judge import command as judge_verb

RUN = Path(__file__).resolve().parents[2] / "data" / "runs" / "three-classes"
ROOT = "/pinproof-recorded"
READINGS = ("files_before", "files_after")


def judged(run: Path) -> tuple[int, list[tuple[str, str]]]:
    """Return the exit code, and rule and subject of what failed."""
    done = CliRunner().invoke(judge_verb, [str(run), "--json"])
    verdicts = json.loads(done.stdout)["verdicts"]
    return done.exit_code, [(v["rule"], v["subject"]) for v in verdicts if v["outcome"] == "failed"]


def edited(folder: Path, cgroup: str, readings: tuple[str, ...] = READINGS, **values: Any) -> Path:
    """Copy the run and change what one cgroup's files said."""
    shutil.copytree(RUN, folder)
    data = json.loads((folder / "evidence.json").read_text())
    rows = [row for reading in readings for row in data[reading] if row["cgroup"] == f"{ROOT}/{cgroup}"]
    assert len(rows) == len(readings)
    for row in rows:
        assert {name: row[name] for name in values} != values
        row.update(values)
    (folder / "evidence.json").write_text(json.dumps(data))
    return folder


def test_the_run_is_healthy() -> None:
    """Nothing fails and nothing is undecided as it was recorded."""
    assert judged(RUN) == (0, [])


@pytest.mark.parametrize(
    ("cgroup", "values", "subject"),
    [
        ("burstable/web", {"quota_us": -1}, "web/(pod)"),
        ("burstable/web", {"quota_us": 4_000_000}, "web/(pod)"),
        ("burstable/web", {"period_us": 10_000}, "web/(pod)"),
        ("burstable/web", {"shares": 200_000}, "web/(pod)"),
        ("burstable/web", {"memory_max_bytes": -1}, "web/(pod)"),
        ("db", {"quota_us": 100_000}, "db/(pod)"),
        ("db", {"shares": 2}, "db/(pod)"),
        ("besteffort/job", {"shares": 200_000}, "job/(pod)"),
        ("besteffort/job", {"quota_us": 1_000}, "job/(pod)"),
        ("besteffort", {"shares": 200_000}, "besteffort/(qos)"),
        ("burstable", {"shares": 2}, "burstable/(qos)"),
        ("burstable", {"quota_us": 50_000}, "burstable/(qos)"),
        ("besteffort/job/run", {"shares": 200_000}, "job/run"),
        ("burstable/web/side", {"shares": 1_024}, "web/side"),
        ("burstable/web/app", {"memory_max_bytes": -1}, "web/app"),
        ("db/main", {"memory_max_bytes": 1 << 40}, "db/main"),
    ],
)
@pytest.mark.parametrize("readings", [READINGS, READINGS[:1], READINGS[1:]], ids=["both", "before", "after"])
def test_another_value_at_any_level_fails(
    tmp_path: Path, cgroup: str, values: dict[str, Any], subject: str, readings: tuple[str, ...]
) -> None:
    """A quota lifted, a hundredfold or imposed, other shares, no memory limit: rule ``applied`` names the cgroup."""
    code, failed = judged(edited(tmp_path / "run", cgroup, readings, **values))

    assert code == 1
    assert ("applied", subject) in failed


def test_a_pod_that_used_more_than_its_quota_fails(tmp_path: Path) -> None:
    """The pod's file says what was promised, its CPU time says that it did not hold: ``quota-throttling`` fails."""
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    data = json.loads((folder / "evidence.json").read_text())
    rows = [row for row in data["bandwidth"] if row["cgroup"] == f"{ROOT}/burstable/web"]
    assert rows
    for row in rows:
        row["usage_ns"] = row["window_ns"] * 2
    (folder / "evidence.json").write_text(json.dumps(data))

    code, failed = judged(folder)

    assert code == 1
    assert ("quota-throttling", "web/(pod)") in failed


def test_a_pod_that_was_promised_no_quota_and_was_throttled_fails(tmp_path: Path) -> None:
    """Also if the quota is gone by the time that the file is read."""
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    data = json.loads((folder / "evidence.json").read_text())
    for row in data["bandwidth"]:
        if row["cgroup"] == f"{ROOT}/besteffort/job":
            row.update(nr_throttled=3, throttled_ns=1_000_000)
    (folder / "evidence.json").write_text(json.dumps(data))

    code, failed = judged(folder)

    assert code == 1
    assert ("quota-free", "job/(pod)") in failed
