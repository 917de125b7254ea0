"""What a watch does to a CPU that a claim has for itself, with ``--quiet-cpus exclusive`` and without.

Run as root: ``python tests/benchmarks/bench_quiet.py [seconds]``. Watches one cgroup of its own, which sleeps on the
last CPU; prints one JSON document: interrupts of that CPU by the kernel's count (``/proc/interrupts``), and CPU
time of the watch's own threads there, with a usual watch and with one that keeps it quiet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.integration.probe_lab import cgroup
from toolkit.store import load_run

CLAIMS = """apiVersion: pinproof/v1
kind: Claims
claims:
- {{name: one, cgroup: {cgroup}, cpus: "{cpu}", isolation: container}}
"""


def interrupts(cpu: int) -> dict[str, int]:
    """Return a CPU's interrupts by their name."""
    head, *lines = Path("/proc/interrupts").read_text().splitlines()
    column = head.split().index(f"CPU{cpu}") + 1
    rows = (line.split() for line in lines)
    return {row[0].rstrip(":"): int(row[column]) for row in rows if len(row) > column and row[column].isdigit()}


def watched(folder: Path, cpu: int, seconds: float, options: list[str]) -> dict[str, object]:
    """Watch; return what that CPU saw of it."""
    name = f"pinproof-quiet-{os.getpid()}"
    with cgroup(name) as group:
        (folder / "claims.yaml").write_text(CLAIMS.format(cgroup=f"/{name}", cpu=cpu))
        command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(folder / "claims.yaml")]
        command += ["--duration", str(seconds), "--output", str(folder / "runs"), *options]
        before = interrupts(cpu)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = interrupts(cpu)
        del group
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(done.stderr)
    evidence = load_run(max((folder / "runs").iterdir())).evidence
    own = sum(one.total_ns for one in evidence.intruders if one.cpu == cpu and one.owner == "toolkit")
    each = {name: after[name] - before.get(name, 0) for name in after}
    return {"interrupts": {name: count for name, count in each.items() if count}, "own_threads_ns": own}


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    cpu = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        ways: dict[str, list[str]] = {"usual": [], "quiet": ["--quiet-cpus", "exclusive"]}
        found = {way: watched(Path(name), cpu, seconds, options) for way, options in ways.items()}
    print(json.dumps({"cpu": cpu, "seconds": seconds, **found}, indent=2))


if __name__ == "__main__":
    main()
