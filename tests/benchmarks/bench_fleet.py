"""Many nodes in one answer: aims are 2,000 summaries in 3 s, 10,000 in 15 s and 300 MB on two cores; and ``--judge``.

``python tests/benchmarks/bench_fleet.py [--nodes 2000 10000] [--session DIR --copies 100]``. Needs no root. The
summaries are a recorded session under other names, with other measures, hardware and software. ``--session`` names a
session with its packed runs (``pinproof conformance --output DIR``): copies of it are judged, each with archives of
its own bytes, so that none is known by its hash. Prints one JSON document: seconds by the wall and of CPU (all
processes), MB of the largest process and of all together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

RECORDED = Path(__file__).resolve().parents[1] / "data/sessions/two-cpus/session.json"
CLASSES = (
    {"name": "epyc-9454-2s-96c-smt-nps4", "hash": "1" * 16},
    {"name": "platinum-8480-2s-112c-smt-nps1", "hash": "2" * 16},
)


def summaries(place: Path, number: int) -> None:
    """Write so many sessions."""
    base, numbers = json.loads(RECORDED.read_text()), random.Random(1)
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 3600))
    for index in range(number):
        data = json.loads(json.dumps(base))
        data["identity"].update(node=f"node-{index:05}", machine=f"{index:016x}", boot_id=str(index))
        data["identity"].update(microcode=numbers.choice(["0x1", "0x2b0004d0"]), hardware=CLASSES[index % 2])
        data.update(started_at=now, kernel=numbers.choice(["6.18.44", "6.12.9"]))
        data["outcome"] = "failed" if index % 40 == 0 else "passed"
        for scenario in data["scenarios"]:
            scenario["outcome"], scenario["others"] = "passed", []
            for of_rule in scenario.get("measures", {}).values():
                of_rule.update({about: [vary(one, numbers) for one in values] for about, values in of_rule.items()})
        if index % 40 == 0:
            bad = {
                "rule": "cpuset-containment",
                "subject": "db/main",
                "outcome": "failed",
                "reason": "ran outside CPU 1",
            }
            data["scenarios"][0].update(outcome="failed", others=[bad])
        folder = place / f"node-{index:05}"
        folder.mkdir(parents=True)
        text = json.dumps(data, separators=(",", ":")).replace('{"name":', '\n{"name":')
        (folder / "session.json").write_text(text + "\n")


def vary(value: float | None, numbers: random.Random) -> float | None:
    """Return a measure of another node."""
    if value is None:
        return None
    other = value * numbers.uniform(0.95, 1.05)
    return int(other) if isinstance(value, int) else float(f"{other:.6g}")


def copies(place: Path, session: Path, number: int) -> None:
    """Write copies of a session, each with archives of its own bytes: the time in the header of gzip differs."""
    for index in range(number):
        folder = place / f"node-{index:05}"
        shutil.copytree(session, folder)
        data = json.loads((folder / "session.json").read_text())
        data["identity"]["node"] = f"node-{index:05}"
        for name in data["files"]:
            content = bytearray((folder / name).read_bytes())
            content[4:8] = (index + 1).to_bytes(4, "little")
            (folder / name).write_bytes(content)
            data["files"][name] = hashlib.sha256(content).hexdigest()
        (folder / "session.json").write_text(json.dumps(data))


def measured(arguments: Sequence[object]) -> dict[str, Any]:
    """Run the verb and return what it took."""
    command = [sys.executable, "-m", "toolkit", "fleet", *map(str, arguments), "--json"]
    began, most, largest = time.monotonic(), 0, 0
    before = os.times()
    with tempfile.TemporaryFile() as out, subprocess.Popen(command, stdout=out) as process:
        whole = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                resident = [one.memory_full_info().pss for one in (whole, *whole.children())]
                most, largest = max(most, sum(resident)), max(largest, *resident)
            except (psutil.Error, OSError):
                continue
            time.sleep(0.05)
        took = time.monotonic() - began
        out.seek(0)
        counts = json.load(out)["counts"]
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "wall_s": round(took, 2), "cpu_s": round(cpu_s, 2), "largest_process_mb": round(largest / 1e6),
        "all_processes_mb": round(most / 1e6), "counts": counts,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="*", default=[2000, 10_000])
    parser.add_argument("--session", type=Path)
    parser.add_argument("--copies", type=int, default=100)
    options = parser.parse_args()
    found: dict[str, Any] = {"cpus": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    for number in options.nodes:
        with tempfile.TemporaryDirectory() as name:
            summaries(Path(name), number)
            found[f"{number} summaries"] = measured([name])
    if options.session is not None:
        with tempfile.TemporaryDirectory() as name:
            copies(Path(name) / "results", options.session, options.copies)
            arguments = [Path(name) / "results", "--judge", "--cache", Path(name) / "cache"]
            first, again = measured(arguments), measured(arguments)
            rate = options.copies / first["cpu_s"]
            found[f"judge {options.copies} sessions"] = {**first, "sessions_per_cpu_s": round(rate, 2), "again": again}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
