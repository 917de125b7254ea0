"""What ``watch`` costs on a full node: CPU seconds by process and thread, memory, the sweep of the masks, the start.

Run as root: ``python tests/benchmarks/bench_scale.py [--containers 500] [--threads 20] [--window 30] [--windows 3]``.
Makes one cgroup a container below one of its own, with threads that sleep and one in ten containers that wakes up every
100 ms; each is claimed. Prints one JSON document; asserts nothing about absolute time. What counts is CPU time, not
wall time: the machine may be shared. The programs' own time is in ``bench_probe_cost.py`` (nanoseconds per switch).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from toolkit.host import cgroupfs

TICKS = os.sysconf("SC_CLK_TCK")
WAKER_EVERY = 10
TOP = f"/pinproof-scale-{os.getpid()}"


def container(directory: Path, threads: int, *, wakes: bool) -> None:
    """Be one container: never returns."""
    (directory / "cgroup.procs").write_text("0")
    threading.stack_size(64 << 10)
    for _ in range(threads - 1):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    while True:
        if wakes:
            time.sleep(0.1)
        else:
            signal.pause()


@contextlib.contextmanager
def containers(count: int, threads: int) -> Iterator[list[str]]:
    """Run the containers; yields their cgroups."""
    top = cgroupfs.identity_dir(cgroupfs.detect(), TOP)
    places = [top / f"c{number:04d}" for number in range(count)]
    pids = []
    top.mkdir()
    try:
        for number, place in enumerate(places):
            place.mkdir()
            pid = os.fork()
            if pid == 0:
                container(place, threads, wakes=number % WAKER_EVERY == 0)
            pids.append(pid)
        while sum(len((place / "cgroup.threads").read_text().split()) for place in places) < count * threads:
            time.sleep(0.2)
        yield [f"{TOP}/{place.name}" for place in places]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
        for place in places:
            with contextlib.suppress(FileNotFoundError):
                place.rmdir()
        top.rmdir()


def cpu_s(stat: Path) -> float:
    """Return user and system time of a task."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def spent(pid: int) -> dict[str, float]:
    """Return the CPU seconds of a process's threads, and of its children, by name."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        found[name] = found.get(name, 0.0) + cpu_s(task / "stat")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found["children (canaries)"] = sum(cpu_s(Path(f"/proc/{child}/stat")) for child in children)
    return found


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def watch(claims: Path, folder: Path, window_s: float, windows: int) -> dict[str, object]:
    """Watch so many windows; return what it cost from the end of the first to the end of the last."""
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--keep", "2"]
    log = folder / "stdout"
    with log.open("w") as stdout:
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, "--window", str(window_s), "--output", str(folder / "runs")], stdout=stdout, stderr=stdout
        )
    rows = []

    def ended() -> int:
        return log.read_text().count("Window ")

    before: dict[str, float] = {}
    last = began
    while ended() <= windows:
        if process.poll() is not None:
            raise RuntimeError(log.read_text()[-2000:])
        if ended() > len(rows):
            now, at = spent(process.pid), time.monotonic()
            if before:
                row = {name: round(now[name] - before.get(name, 0.0), 2) for name in sorted(now)}
                rows.append({"cpu_s": row, "sum_s": round(sum(row.values()), 2), "wall_s": round(at - last, 1)})
            else:
                rows.append({"to_the_end_of_the_first_s": round(at - began, 1), "cpu_s": round(sum(now.values()), 2)})
            rows[-1]["rss_mib"] = round(memory_mib(process.pid), 1)
            before, last = now, at
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.wait(300)
    (run,) = (folder / "runs").iterdir()
    return {"windows": rows, **of_a_window(sorted(run.glob("window-*"))[-2])}


def of_a_window(folder: Path) -> dict[str, object]:
    """Return what a window says about itself."""
    coverage = json.loads((folder / "evidence.json").read_text())["coverage"]
    return {
        "mask_scans": coverage["proc_scans"],
        "longest_gap_ms": max(gap["longest_ns"] for gap in coverage["scan_gaps"]) / 1e6,
        "allowed_gap_ms": max(gap["allowed_ns"] for gap in coverage["scan_gaps"]) / 1e6,
        "bytes": {path.name: path.stat().st_size for path in folder.iterdir()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--containers", type=int, default=500)
    parser.add_argument("--threads", type=int, default=20)
    parser.add_argument("--window", type=float, default=30.0)
    parser.add_argument("--windows", type=int, default=3)
    options = parser.parse_args()
    online = Path("/sys/devices/system/cpu/online").read_text().strip()
    with containers(options.containers, options.threads) as cgroups, tempfile.TemporaryDirectory() as folder:
        claims = Path(folder, "claims.yaml")
        rows = "".join(f'- {{name: "{Path(one).name}", cgroup: "{one}", cpus: "{online}"}}\n' for one in cgroups)
        claims.write_text(f"apiVersion: pinproof/v1\nkind: Claims\nclaims:\n{rows}")
        result = watch(claims, Path(folder), options.window, options.windows)
    print(json.dumps({**vars(options), "possible_cpus": os.sysconf("SC_NPROCESSORS_CONF"), **result}, indent=2))


if __name__ == "__main__":
    main()
