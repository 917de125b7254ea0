"""What ``watch`` costs on a full node: CPU seconds by process and thread, memory, the sweep of the masks, the start.

Run as root: ``python tests/benchmarks/bench_scale.py [--containers 500] [--threads 20] [--window 30] [--windows 3]
[--follow] [--quota 50000]``. Makes one cgroup a container below one of its own, with threads that sleep and one in ten
containers that wakes up every 100 ms. Each is claimed in a file, or with ``--follow`` by a kubelet
(``watch --kubelet``) whose state file, log links, runtime's socket and process are made for it. Prints one JSON
document; asserts no absolute time.
What counts is CPU time, not wall time: the machine may be shared; ``loop_ms`` of a window is the CPU time of a fixed
loop in it, by which windows can be compared. Canaries are in all sums. The programs' own time is
in ``bench_probe_cost.py`` (nanoseconds per switch).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from probes.masks.threads import ThreadMasks
from probes.subjects import Subject
from tests.benchmarks.kubelet_tree import kubelet_node, kubelet_process, make_container
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet

TICKS = os.sysconf("SC_CLK_TCK")
WAKER_EVERY = 10
TOP = f"/pinproof-scale-{os.getpid()}"


def container(directories: Collection[Path], threads: int, *, wakes: bool) -> None:
    """Be one container: never returns."""
    for directory in directories:
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
def containers(count: int, threads: int, quota_us: int) -> Iterator[list[str]]:
    """Run the containers, each with all CPUs; yields their cgroups."""
    hierarchy = cgroupfs.detect()
    top = cgroupfs.identity_dir(hierarchy, TOP)
    # As a kubelet with the cgroupfs driver names them.
    places = [top / "kubepods" / f"pod{number:08x}" / f"{number:064x}" for number in range(count)]
    names = [f"{TOP}/{place.relative_to(top)}" for place in places]
    pids, made = [], list[list[Path]]()
    try:
        for number, place in enumerate(places):
            made.append(make_container(hierarchy, names[number], online(), quota_us))
            place.mkdir(parents=True, exist_ok=True)
            pid = os.fork()
            if pid == 0:
                container({*made[-1], place}, threads, wakes=number % WAKER_EVERY == 0)
            pids.append(pid)
        while sum(len((place / "cgroup.threads").read_text().split()) for place in places) < count * threads:
            time.sleep(0.2)
        yield names
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
        ends = [*places, *(one for each in made for one in each)]
        # The container, its pod, `kubepods`, ours; deepest first.
        folders = {folder for end in ends for folder in (end, *end.parents[:3])}
        for folder in sorted(folders, key=lambda one: -len(one.parts)):
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()


def online() -> CpuSet:
    """Return the CPUs that are online."""
    return CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text().strip())


def cpu_s(stat: Path) -> float:
    """Return user and system time of a task."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def spent(pid: int) -> dict[str, float]:
    """Return the CPU seconds of a process's threads, and of its children, by name."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end while it is read: those that answer one reading of the node live for some milliseconds.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name, took_s = (task / "comm").read_text().strip(), cpu_s(task / "stat")
            found[name] = found.get(name, 0.0) + took_s
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found["children (canaries)"] = sum(cpu_s(Path(f"/proc/{child}/stat")) for child in children)
    return found


def loop_ms() -> float:
    """Return the CPU time of a fixed loop: on a machine that is shared it varies by half within minutes, and what is
    measured beside it with it.
    """
    began_ns, total = time.thread_time_ns(), 0
    for number in range(20_000):
        total += number
    return (time.thread_time_ns() - began_ns) / 1e6


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process; what it shares counts in part."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition("\nPss:")[2].split()[0]) / 1024


def memory_of_all(pid: int) -> dict[str, float]:
    """Return the memory of a process and of its canaries."""
    canaries = sum(memory_mib(int(child)) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    own = memory_mib(pid)
    return {"own": round(own, 1), "canaries": round(canaries, 1), "sum": round(own + canaries, 1)}


def sweep(cgroups: list[str], cpus: CpuSet) -> dict[str, float]:
    """Read the masks of all threads from ``/proc`` three times; return the cheapest sweep."""
    masks = ThreadMasks(cgroupfs.detect(), Path("/"))
    subjects = [
        Subject(claim=Claim(name=one, cgroup=one, cpus=cpus), cgroup_id=0, slot=slot, ident=slot, cpus=cpus, since_ns=0)
        for slot, one in enumerate(cgroups)
    ]
    found = []
    for _ in range(3):
        began_ns = time.monotonic_ns()
        cpu_ns = masks.scan_all(subjects, lambda: False)
        found.append((cpu_ns / 1e6, (time.monotonic_ns() - began_ns) / 1e6))
    cpu_ms, wall_ms = min(found)
    return {"cpu_ms": round(cpu_ms, 1), "wall_ms": round(wall_ms, 1)}


def watch(source: list[str], folder: Path, window_s: float, windows: int) -> dict[str, object]:
    """Watch so many windows; return what it cost from the end of the first to the end of the last.

    :param source: options that say where the claims come from.
    """
    command = [sys.executable, "-m", "toolkit", "watch", *source]
    log = folder / "stdout"
    with log.open("w") as stdout:
        began, began_at = time.monotonic(), time.time()
        process = subprocess.Popen(
            [*command, "--window", str(window_s), "--output", str(folder / "runs")], stdout=stdout, stderr=stdout
        )
    rows, speeds = [], list[float]()

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
            rows[-1] |= {"memory_mib": memory_of_all(process.pid), "loop_ms": round(statistics.median(speeds), 3)}
            speeds.clear()
            before, last = now, at
        speeds.append(loop_ms())
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.wait(300)
    (run,) = (folder / "runs").iterdir()
    kept = sorted(run.glob("window-*"))
    armed_at = datetime.fromisoformat(json.loads((kept[0] / "result.json").read_text())["started_at"]).timestamp()
    return {"start_to_armed_s": round(armed_at - began_at, 2), "windows": rows, **of_a_window(kept[-2])}


def of_a_window(folder: Path) -> dict[str, object]:
    """Return what a window says about itself."""
    evidence, result = (json.loads((folder / f"{stage}.json").read_text()) for stage in ("evidence", "result"))
    coverage = evidence["coverage"]
    return {
        "programs_ns_per_switch": evidence["bpf_run_ns"]
        and round(evidence["bpf_run_ns"] / coverage["switches_judged"]),
        "mask_scans": coverage["proc_scans"],
        # Of a claim that began in the window, and whose threads were read once, there is no gap.
        "longest_gap_ms": max((gap["longest_ns"] for gap in coverage["scan_gaps"]), default=0) / 1e6,
        "allowed_gap_ms": max((gap["allowed_ns"] for gap in coverage["scan_gaps"]), default=0) / 1e6,
        "subjects": len({row["claim"] for row in evidence["thread_masks"]}),
        "outcomes": Counter(row["outcome"] for row in result["verdicts"]),
        "following": evidence["following"],
        "bytes": {path.name: path.stat().st_size for path in folder.iterdir()},
    }


@contextlib.contextmanager
def claims_file(folder: Path, cgroups: Sequence[str], cpus: CpuSet, quota_us: int) -> Iterator[list[str]]:
    """Claim the cgroups in a file; yields the options that name it."""
    more = f", quota_us: {quota_us}" if quota_us > 0 else ""
    rows = "".join(f'- {{name: "{Path(one).name}", cgroup: "{one}", cpus: "{cpus}"{more}}}\n' for one in cgroups)
    (folder / "claims.yaml").write_text(f"apiVersion: pinproof/v1\nkind: Claims\nclaims:\n{rows}")
    yield ["--claims", str(folder / "claims.yaml")]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--containers", type=int, default=500)
    parser.add_argument("--threads", type=int, default=20)
    parser.add_argument("--window", type=float, default=30.0)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--quota", type=int, default=-1, help="microseconds of CPU time in 100 ms, of each container")
    options = parser.parse_args()
    with (
        containers(options.containers, options.threads, options.quota) as cgroups,
        tempfile.TemporaryDirectory() as name,
    ):
        folder = Path(name)
        swept = sweep(cgroups, online())
        source = kubelet_node if options.follow else claims_file
        process = kubelet_process(folder / "bin") if options.follow else contextlib.nullcontext()
        (folder / "bin").mkdir()
        with process, source(folder, cgroups, online(), options.quota) as words:
            result = watch(words, folder, options.window, options.windows)
    about = {**vars(options), "possible_cpus": os.sysconf("SC_NPROCESSORS_CONF"), "mask_sweep": swept}
    print(json.dumps({**about, **result}, indent=2))


if __name__ == "__main__":
    main()
