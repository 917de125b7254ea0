"""Signals: the window that is open closes, and what was seen is judged, printed and saved."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.apply_support import sandboxes
from tests.integration.lost_support import PINPROOF, scenario, watch, watching

pytestmark = pytest.mark.integration
DEADLINE_S = 180
"""For a watch of nothing to end, on a machine however loaded: never reached otherwise."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_window_and_it_is_judged(tmp_path: Path, empty_claims: Path, number: int) -> None:
    """The hour that was asked for is not waited for; what was seen is judged, printed and saved."""
    done = watch(empty_claims, tmp_path / "runs", seconds=3600)
    watching(done)
    done.send_signal(number)
    out, err = done.communicate(timeout=DEADLINE_S)
    result = json.loads(out)

    codes = {"passed": 0, "skipped": 0, "failed": 1, "undecided": 3}
    assert done.returncode == codes[result["outcome"]], err
    assert 0 < result["duration_s"] < DEADLINE_S
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "result.json").read_text())["verdicts"] == result["verdicts"]


def test_a_terminal_that_goes_away(tmp_path: Path, empty_claims: Path) -> None:
    """The kernel sends SIGHUP, and nothing can be said on the terminal any more: the verdicts are where they should."""
    ours, theirs = pty.openpty()
    with (tmp_path / "out").open("w") as out:
        done = subprocess.Popen(
            [
                *("setsid", "--ctty", *PINPROOF, "watch", "--claims", empty_claims, "--duration", "3600", "--json"),
                *("--output", tmp_path / "runs"),
            ],
            stdin=theirs,
            stdout=out,
            stderr=theirs,
            text=True,
        )
        os.close(theirs)
        watching(done)
        os.close(ours)
        done.wait(timeout=DEADLINE_S)

    result = json.loads((tmp_path / "out").read_text())
    assert done.returncode == {"passed": 0, "failed": 1, "undecided": 3}[result["outcome"]]
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_hangup_comes_twice_and_with_others(tmp_path: Path, empty_claims: Path) -> None:
    """The kernel and the shell both tell of a terminal that went away; systemd sends SIGTERM with it."""
    done = watch(empty_claims, tmp_path / "runs", seconds=3600)
    watching(done)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
        done.send_signal(number)
    out, err = done.communicate(timeout=DEADLINE_S)

    assert json.loads(out)["verdicts"], err
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_nohup(tmp_path: Path, empty_claims: Path) -> None:
    """Who ignores SIGHUP when the watch is started is not disturbed by it."""
    ignoring = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    done = watch(empty_claims, tmp_path / "runs", seconds=2, host=ignoring)
    watching(done)
    done.send_signal(signal.SIGHUP)
    out, err = done.communicate(timeout=DEADLINE_S)

    assert json.loads(out)["duration_s"] >= 2, err


def test_a_stopped_run_is_judged(tmp_path: Path) -> None:
    """The window that is open closes and is judged; what is not run any more is said."""
    files = [scenario(tmp_path, name, "spin", 600) for name in ("one", "two")]
    done = subprocess.Popen(
        [*PINPROOF, "run", *files, "--json", "--output", tmp_path / "runs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watching(done)
    done.send_signal(signal.SIGHUP)
    out, err = done.communicate(timeout=DEADLINE_S)

    (result,) = json.loads(out)
    assert done.returncode == (1 if result["outcome"] == "failed" else 129), err
    assert err == "pinproof: stopped by SIGHUP; not run: two\n"
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_stopped_conformance_session_keeps_what_it_has(tmp_path: Path) -> None:
    """No scenario that was cut short has passed, and no rule is blamed for a fault that had no time to show."""
    done = subprocess.Popen(
        [
            *(*PINPROOF, "conformance", "--select", "quota-050-over", "--select", "quota-010-over", "--json"),
            *("--output", tmp_path / "runs", "--duration", "600"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watching(done)
    done.send_signal(signal.SIGTERM)
    out, err = done.communicate(timeout=DEADLINE_S)

    session = json.loads(out)
    assert [found["outcome"] for found in session["scenarios"]] == ["undecided", "skipped"], err
    assert "SIGTERM" in session["scenarios"][0]["reason"]
    assert done.returncode == 143
    assert err == "pinproof: stopped by SIGTERM\n"


def test_a_stopped_injection_is_judged(tmp_path: Path) -> None:
    """The fault is taken back, whether it was reported is said, and the run can be judged again."""
    before = sandboxes()
    done = subprocess.Popen(
        [*PINPROOF, "inject", "cpuset-write", "--duration", "600", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    watching(done)
    done.send_signal(signal.SIGHUP)
    out, err = done.communicate(timeout=DEADLINE_S)

    assert json.loads(out)["verdicts"]
    assert done.returncode == (129 if json.loads(out)["missed"] else 0), err
    (run,) = (tmp_path / "runs").iterdir()
    again = subprocess.run([*PINPROOF, "judge", run, "--json"], capture_output=True, text=True, check=False)
    assert json.loads(again.stdout)["verdicts"] == json.loads(out)["verdicts"]
    assert sandboxes() <= before
