"""What the interrupt ledger and the events cost: nanoseconds per run of each program, and for each system call.

Run as root: ``python tests/benchmarks/bench_probe_interrupts.py [seconds]``. Prints one JSON document; asserts nothing
about absolute time. Costs of programs are the kernel's own BPF statistics, which themselves cost some 20 ns a run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from probes.bpfsys import enable_statistics, program_info
from probes.composition import new_ledger
from probes.loaded import attached
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from toolkit.model.cpuset import CpuSet


def load(seconds: float) -> None:
    """Make interrupts: a pipe ping-pong across CPUs, timers, and blocks written."""
    commands = (["perf", "bench", "sched", "pipe", "-l", "1000000"],)
    children = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.001)  # each a timer interrupt
    for child in children:
        child.kill()
        child.wait()


def programs(ledger: Ledger, cpus: CpuSet, seconds: float) -> dict[str, dict[str, float]]:
    """Measure every program that ran, with these CPUs watched."""
    ledger.watch(cpus)
    before = {name: program_info(fd) for name, fd in ledger.programs.items()}
    load(seconds)
    result = {}
    for name, fd in ledger.programs.items():
        info, old = program_info(fd), before[name]
        runs = info.run_count - old.run_count
        if runs:
            spent = round((info.run_time_ns - old.run_time_ns) / runs, 1)
            result[name] = {"ns_per_run": spent, "runs_per_s": round(runs / seconds)}
    return result


def syscall_ns(count: int = 300_000) -> float:
    """Return the time of one short system call."""
    begin = time.perf_counter_ns()
    for _ in range(count):
        os.getppid()
    return (time.perf_counter_ns() - begin) / count


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    result: dict[str, object] = {"kernel": os.uname().release}
    plain = [round(syscall_ns()) for _ in range(5)]
    traced: list[int] = []
    for trace in (False, True):
        with attached(new_ledger(Path("/"), ObserveOptions(trace_syscalls=trace))) as ledger:
            statistics = enable_statistics()
            try:
                if trace:
                    if "on_sys_exit" in ledger.programs:
                        os.close(statistics)
                        statistics = -1
                        traced = [round(syscall_ns()) for _ in range(5)]
                else:
                    result["nothing_watched"] = programs(ledger, CpuSet(), seconds)
                    result["all_watched"] = programs(ledger, ledger.online(), seconds)
            finally:
                if statistics >= 0:
                    os.close(statistics)
    result["getppid_ns"] = {"plain": plain, "with_sys_exit_traced": traced}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
