"""What the switch ledger costs: nanoseconds per switch beside an empty program, start-up time, peak memory.

Run as root: ``python tests/benchmarks/bench_probe_cost.py [switches]``. Prints one JSON document; asserts nothing about
absolute time. Costs are the kernel's own BPF statistics, which themselves cost some 20 ns a run (in all programs).
The first program of a tracepoint pays for cold caches: an empty program stands before the ledger and another behind it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from probes import compiler
from probes.bpfsys import enable_statistics, program_info
from probes.composition import new_ledger
from toolkit.host import bpf_syscalls, cgroupfs
from toolkit.model.cpuset import CpuSet

EMPTY = "int empty(struct bpf_raw_tracepoint_args *ctx) { return 0; }"


@contextlib.contextmanager
def empty_program() -> Iterator[int]:
    """Attach a program that does nothing to sched_switch; yields its descriptor."""
    module = compiler.build(EMPTY)
    program = bpf_syscalls.load_program(bpf_syscalls.RAW_TRACEPOINT, compiler.code(module, "empty"), name="empty")
    link = bpf_syscalls.attach(program, "sched_switch")
    try:
        yield program
    finally:
        os.close(link)
        os.close(program)


def cost(programs: dict[str, int], switches: int, cgroup: Path | None) -> dict[str, float]:
    """Measure all programs over one pipe ping-pong on one CPU, inside ``cgroup`` or where we are."""

    def enter() -> None:
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text("0")
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    before = {name: program_info(fd) for name, fd in programs.items()}
    command = ["perf", "bench", "sched", "pipe", "-l", str(switches // 2)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, preexec_fn=enter)
    after = {name: program_info(fd) for name, fd in programs.items()}
    spent = {
        name: (after[name].run_time_ns - before[name].run_time_ns)
        / max(1, after[name].run_count - before[name].run_count)
        for name in programs
    }
    empty = (spent["empty_before"] + spent["empty_behind"]) / 2
    return {f"{name}_ns": round(value, 1) for name, value in spent.items()} | {
        "ratio": round(spent["ledger"] / empty, 2),
        "ratio_to_the_one_before": round(spent["ledger"] / spent["empty_before"], 2),
    }


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
            ledger = new_ledger(Path("/"))
            begin = time.perf_counter()
            ledger.open()
            starts.append(round(time.perf_counter() - begin, 3))
            ledger.close()
        result["compile_and_attach_s"] = starts
        result["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # without a compiler yet
        with contextlib.ExitStack() as stack:
            programs = {"empty_before": stack.enter_context(empty_program())}
            ledger = new_ledger(Path("/"))
            ledger.open()
            programs["ledger"] = ledger.programs["on_switch"]
            programs["empty_behind"] = stack.enter_context(empty_program())
            statistics = enable_statistics()
            try:
                last = ledger.online()
                ledger.publish(0, last, time.monotonic_ns())
                ledger.add_root(group.stat().st_ino, 0, 1)
                ledger.watch(CpuSet())
                result["claimed_inside"] = [cost(programs, switches, group) for _ in range(3)]
                result["unclaimed"] = [cost(programs, switches, None) for _ in range(3)]
                ledger.watch(last)
                result["unclaimed_on_watched_cpu"] = [cost(programs, switches, None) for _ in range(2)]
                ledger.publish(0, CpuSet(), time.monotonic_ns())
                result["claimed_outside"] = [cost(programs, switches, group) for _ in range(2)]
            finally:
                os.close(statistics)
                ledger.close()
    finally:
        group.rmdir()
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
