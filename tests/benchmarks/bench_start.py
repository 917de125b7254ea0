"""From the command to the first switch that is judged, and what the observer holds then: aim 700 ms and 90 MB.

Run as root: ``python tests/benchmarks/bench_start.py [--times 5]``. Watches one cgroup of its own for half a second,
each time in a process of its own. Prints one JSON document: milliseconds from the command to the window's begin, CPU
time of all of it, and the largest resident set; the first row is apart, because it may have to compile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from tests.integration.probe_lab import cgroup

CLAIMS = """apiVersion: pinproof/v1
kind: Claims
claims:
- {{name: one, cgroup: {cgroup}, cpus: "{cpus}"}}
"""


def once(folder: Path, claims: Path) -> dict[str, float]:
    """Watch for half a second; return what it took."""
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--duration", "0.5"]
    began = time.time()
    with (folder / "said").open("w") as said:
        process = subprocess.Popen([*command, "--output", str(folder / "runs")], stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise RuntimeError((folder / "said").read_text())
    run = max((folder / "runs").iterdir())
    begin = datetime.fromisoformat(json.loads((run / "result.json").read_text())["started_at"]).timestamp()
    return {
        "command_to_armed_ms": round((begin - began) * 1000),
        "cpu_ms": round((used.ru_utime + used.ru_stime) * 1000),
        "max_resident_mb": round(used.ru_maxrss * 1024 / 1e6, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, cgroup(f"pinproof-start-{os.getpid()}") as path:
        claims = Path(name) / "claims.yaml"
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        claims.write_text(CLAIMS.format(cgroup=path, cpus=cpus))
        first, *others = (once(Path(name), claims) for _ in range(1 + options.times))
    medians = {key: statistics.median(row[key] for row in others) for key in first}
    print(json.dumps({"first": first, "median": medians, "times": options.times}, indent=2))


if __name__ == "__main__":
    main()
