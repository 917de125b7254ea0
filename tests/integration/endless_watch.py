"""A ``pinproof watch`` without an end over two claims on one CPU, and what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.probe_lab import wait_for
from tests.json_lines import result_in
from toolkit.host import cgroupfs
from toolkit.store import WINDOW

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
V1_CPUSETS = not cgroupfs.detect().is_v2("cpuset")
CLAIMS = f"""apiVersion: pinproof/v1
kind: Claims
claims:
- {{name: db, cgroup: PLACE, cpus: "{IN}"}}
- {{name: web, cgroup: PLACE-web, cpus: "{IN}"}}
"""


def place() -> str:
    """Return the claim's cgroup."""
    return f"/pinproof-windows-{os.getpid()}"


def document(folder: Path) -> Path:
    """Write the claims file."""
    path = folder / "claims.yaml"
    path.write_text(CLAIMS.replace("PLACE", place()))
    return path


class Watch:
    """A watch without an end, and what it says on standard error."""

    def __init__(self, folder: Path, window_s: float, *options: str) -> None:
        self.runs = folder / "runs"
        self._stderr = folder / "stderr"
        self._stdout = folder / "stdout"
        command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(document(folder)), "--json"]
        with self._stdout.open("w") as stdout, self._stderr.open("w") as stderr:
            self.process = subprocess.Popen(
                [*command, "--window", str(window_s), "--output", str(self.runs), *options],
                stdout=stdout,
                stderr=stderr,
            )

    def said(self) -> str:
        """Return what is on standard error."""
        return self._stderr.read_text()

    def ended(self) -> int:
        """Return how many windows have ended."""
        return len(re.findall(r"^Window \d+, ", self.said(), re.MULTILINE))

    def wait_for_windows(self, count: int, seconds: float = 90.0) -> None:
        """Wait until so many windows have ended."""

        def ended() -> bool:
            assert self.process.poll() is None, self.said()
            return self.ended() >= count

        wait_for(ended, f"{count} windows", seconds)

    def end(self) -> tuple[int, dict[str, Any], dict[int, dict[str, Any]]]:
        """End it as systemd does; return the exit code, the result, and the saved results by window."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        (run,) = self.runs.iterdir()
        printed = result_in(self._stdout.read_text())
        assert json.loads((run / "result.json").read_text()) == printed
        windows = {
            int(path.name.rpartition("-")[2]): json.loads((path / "result.json").read_text())
            for path in run.glob("window-*")
        }
        assert sorted(windows) == list(range(1, printed["windows"]["count"] + 1))
        side_by_side(run, printed, windows)
        return code, printed, windows


def saved_evidence(run: Path, number: int) -> dict[str, Any]:
    """Return what was seen in a window."""
    found: dict[str, Any] = json.loads((run / WINDOW.format(number) / "evidence.json").read_text())
    return found


def side_by_side(run: Path, result: dict[str, Any], windows: dict[int, dict[str, Any]]) -> None:
    """Assert that one begins where the one before ended, to the nanosecond: no switch is between two or in both."""
    spans = []
    for number in sorted(windows):
        evidence = saved_evidence(run, number)
        spans.append((evidence["start_monotonic_ns"], evidence["start_monotonic_ns"] + evidence["duration_ns"]))
    assert len(spans) >= 3
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    assert result["coverage"]["switches_judged"] == sum(one["coverage"]["switches_judged"] for one in windows.values())
