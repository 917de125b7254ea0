"""What the switch ledger costs: nanoseconds per switch beside an empty program, start-up time, peak memory.

Run as root: ``python tests/benchmarks/bench_probe_cost.py [switches]``. Prints one JSON document; asserts nothing about
absolute time. Costs are the kernel's own BPF statistics, which themselves cost some 20 ns a run (in both programs).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from probes import compiler
from probes.bpfsys import enable_statistics, program_info
from probes.headers import find_headers
from probes.ledger import Ledger
from probes.options import ObserveOptions
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

EMPTY = "int empty(struct bpf_raw_tracepoint_args *ctx) { return 0; }"


@contextlib.contextmanager
def empty_program() -> Iterator[int]:
    """Attach a program that does nothing to sched_switch; yields its descriptor."""
    bcc = compiler.import_bcc()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BCC_KERNEL_SOURCE"] = str(find_headers(Path("/"), Path(folder)).path)
        module = bcc.BPF(text=EMPTY)
        module.attach_raw_tracepoint(b"sched_switch", b"empty")
        try:
            yield module.load_func(b"empty", bcc.BPF.RAW_TRACEPOINT).fd
        finally:
            module.cleanup()


def cost(fd: int, empty: int, switches: int, cgroup: Path | None) -> dict[str, float]:
    """Measure both programs over one pipe ping-pong on one CPU, inside ``cgroup`` or where we are."""

    def enter() -> None:
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text("0")
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    before = program_info(fd), program_info(empty)
    command = ["perf", "bench", "sched", "pipe", "-l", str(switches // 2)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, preexec_fn=enter)
    after = program_info(fd), program_info(empty)
    ours, nothing = (
        (b.run_time_ns - a.run_time_ns) / max(1, b.run_count - a.run_count) for a, b in zip(before, after, strict=True)
    )
    return {"ledger_ns": round(ours, 1), "empty_ns": round(nothing, 1), "ratio": round(ours / nothing, 2)}


def main() -> None:
    """Measure and print."""
    switches = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    hierarchy = cgroupfs.detect()
    group = cgroupfs.identity_dir(hierarchy, f"/pinproof-bench-{os.getpid()}")
    group.mkdir()
    result: dict[str, object] = {"switches": switches, "kernel": os.uname().release}
    try:
        starts = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                ledger = Ledger(Path("/"), ObserveOptions())
                begin = time.perf_counter()
                ledger.open(Path(folder), lambda detail: None)
                starts.append(round(time.perf_counter() - begin, 3))
                ledger.close()
        result["compile_and_attach_s"] = starts
        with tempfile.TemporaryDirectory() as folder, empty_program() as empty:
            ledger = Ledger(Path("/"), ObserveOptions())
            ledger.open(Path(folder), lambda detail: None)
            statistics = enable_statistics()
            try:
                last = ledger.online()
                ledger.publish(0, last, time.monotonic_ns())
                ledger.add_root(group.stat().st_ino, 0, 1)
                ledger.watch(CpuSet())
                fd = ledger.programs["on_switch"]
                result["claimed_inside"] = [cost(fd, empty, switches, group) for _ in range(3)]
                result["unclaimed"] = [cost(fd, empty, switches, None) for _ in range(3)]
                ledger.watch(last)
                result["unclaimed_on_watched_cpu"] = [cost(fd, empty, switches, None) for _ in range(2)]
                ledger.publish(0, CpuSet(), time.monotonic_ns())
                result["claimed_outside"] = [cost(fd, empty, switches, group) for _ in range(2)]
            finally:
                os.close(statistics)
                ledger.close()
    finally:
        group.rmdir()
    result["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
