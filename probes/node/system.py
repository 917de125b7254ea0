"""What the kernel counts for the whole machine: context switches, steal; and how long a claim's tasks waited.

Source: Documentation/filesystems/proc.rst section 1.7 (/proc/stat); Documentation/scheduler/sched-stats.rst
(``/proc/<pid>/schedstat``: time on the CPU, time waiting, timeslices).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.host.cgroup_mounts import read_control
from toolkit.host.kernel_file import read_record


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCounters:
    """One reading of ``/proc/stat``."""

    context_switches: int
    steal_ns: int
    steal_by_cpu_ns: dict[int, int] = field(default_factory=dict)


def read_system(root: Path) -> SystemCounters:
    """Read the counters; what the kernel does not report is 0."""
    switches = steal = 0
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    by_cpu = {}
    for line in (read_control(root / "proc/stat") or "").splitlines():
        name, _, rest = line.partition(" ")
        fields = rest.split()
        if name == "ctxt":
            switches = int(fields[0])
        elif name == "cpu" and len(fields) > 7:
            steal = int(fields[7]) * tick_ns
        elif name.startswith("cpu") and len(fields) > 7:
            by_cpu[int(name[3:])] = int(fields[7]) * tick_ns
    return SystemCounters(context_switches=switches, steal_ns=steal, steal_by_cpu_ns=by_cpu)


def read_softirqs(root: Path) -> dict[int, int]:
    """Return how many softirqs each CPU has run, by the kernel's own count (``/proc/softirqs``)."""
    lines = (read_control(root / "proc/softirqs") or "").splitlines()
    cpus = [int(name.removeprefix("CPU")) for name in (lines[0].split() if lines else ())]
    counts = [list(map(int, line.partition(":")[2].split())) for line in lines[1:]]
    return {cpu: sum(row[column] for row in counts) for column, cpu in enumerate(cpus)}


def read_run_delay(tids: tuple[int, ...], root: Path) -> dict[int, int]:
    """Return for each thread how long it was runnable but waited, where the kernel counts it (CONFIG_SCHED_INFO)."""
    delays = {}
    place = str(root)  # thousands of threads: joining paths takes longer than reading
    for tid in tids:
        fields = (read_record(f"{place}/proc/{tid}/schedstat") or b"").split()
        if len(fields) == 3 and fields[1].isdigit():
            delays[tid] = int(fields[1])
    return delays


def run_delay(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Sum what the threads that live now waited meanwhile; those that came and went are not in it."""
    return sum(max(0, value - before.get(tid, 0)) for tid, value in after.items())


def bring_up_to_date(pids: tuple[int, ...]) -> None:
    """Make the kernel charge the running slices of these processes, so that a cgroup's CPU time read next is exact.

    Reading a process's CPU clock updates the statistics of those of its threads that are running
    (``task_sched_runtime``); without it ``cpu.stat`` and ``cpuacct.usage`` are up to one tick behind for each CPU.
    """
    for pid in pids:
        try:
            time.clock_gettime(~pid << 3 | 2)  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)
        except OSError:
            continue  # gone
