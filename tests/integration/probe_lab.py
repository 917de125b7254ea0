"""Cgroups made by hand and a foreign program in them: what the probe tests plant and hold the observer against.

An escape on a hybrid host is a task whose identity (v2 cgroup) is the claim's while its cpuset is wide; on v2 the claim
is simply narrower than the cgroup.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from probes.cgroups.files import Files
from probes.composition import WITNESSES
from toolkit.host import cgroupfs, perf_event
from toolkit.model.evidence import Evidence

EMULATED = "QEMU TCG CPU" in Path("/proc/cpuinfo").read_text() or "lab.init=" in Path("/proc/cmdline").read_text()
"""Software emulation: what happened, where and how often is as true there as elsewhere; how long the kernel's own work
takes (a migration, an interrupt) is the emulator's affair, tens to hundreds of times longer than on a real CPU. CPUs of
arm64 do not say what they are emulated by: the lab's guests are known by the words of their kernel."""
SOURCES = Path(__file__).resolve().parent.parent / "data/probes"
SOURCE = SOURCES / "planter.c"

BURSTS = """
import time
while True:
    end = time.monotonic() + 0.0005
    while time.monotonic() < end:
        pass
    time.sleep(0.002)
"""
"""A program that runs hundreds of times a second and leaves most of its CPU to others: for a task that is to be seen to
run, not to be always there."""


class BriskFiles(Files):
    """Reads, and compares cgroups with the known ones, five times a second."""

    period_s = 0.2


BRISK = tuple(BriskFiles if one is Files else one for one in WITNESSES)
"""An observer's witnesses where a test waits for readings, and not for their pace."""


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait for a condition; fail with its name when the deadline passes."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.001)


def controls_worked(evidence: Evidence) -> bool:
    """Return whether both canaries were seen at work so far: a window that ends sooner is rightly undecided."""
    planted = [one for one in evidence.canaries if one.positive and one.reported_at_ns is not None]
    clean = [one for one in evidence.canaries if not one.positive and one.run_ns > 0]
    return bool(planted and clean)


def stand_still(pid: int) -> None:
    """Stop a process, and wait until it stands: a thread that waits for a CPU hears of the signal when it has one."""
    os.kill(pid, signal.SIGSTOP)

    def stands() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):  # a thread that has just ended
            threads = [psutil.Process(thread.id) for thread in psutil.Process(pid).threads()]
            return {one.status() for one in threads} == {psutil.STATUS_STOPPED}
        return False

    wait_for(stands, f"{pid} stands still")


def accepted(control: Path, value: str) -> bool:
    """Write a control file; say whether the kernel took it."""
    try:
        control.write_text(value)
    except OSError:
        return False
    return True


def compile_program(name: str, folder: Path) -> Path:
    """Compile a foreign program, in a fresh folder each session; its headers lie beside its source.

    One that lies compiled beside its source is taken: guests of the lab, which have no compiler, have such.
    """
    source = SOURCES / f"{name}.c"
    if source.with_suffix("").exists():
        return source.with_suffix("")
    target = folder / name
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-pthread", "-o", str(target), str(source)], check=True)
    return target


def switch_storm(planter: Path, cpu: int, rounds: int) -> None:
    """Let two processes on one CPU hand a byte to and fro: two switches a round."""
    with Planter(planter, "ping", cpu, cpu, rounds, 0) as run:
        run.go()
        run.truth()
        run.end()


@contextlib.contextmanager
def cgroup(name: str) -> Iterator[str]:
    """Make ``/name`` in the hierarchy that gives identity; removed at the end, children first."""
    hierarchy = cgroupfs.detect()
    directory = cgroupfs.identity_dir(hierarchy, f"/{name}")
    directory.mkdir()
    try:
        yield f"/{name}"
    finally:
        for below in sorted(directory.rglob("*/"), key=lambda path: -len(path.parts)):
            remove(below)
        remove(directory)


def remove(directory: Path) -> None:
    """Kill what is in a cgroup of ours and remove it."""
    for pid in (directory / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    wait_for(lambda: not (directory / "cgroup.procs").read_text().strip(), f"{directory} empty")

    def gone() -> bool:
        try:
            directory.rmdir()
        except OSError:
            return not directory.exists()
        return True

    wait_for(gone, f"{directory} removed")


def join(cgroup_path: str, pid: int) -> None:
    """Move a process into a cgroup of the identity hierarchy; one that was pinned stays where it was.

    Where the cgroup has a cpuset, too (v2), kernels before 6.2 forget what a task asked for when it is moved
    (8f9ea86fdf99 "sched: Always preserve the user requested cpumask"): it then leaves its CPU now and then.
    """
    directory = cgroupfs.identity_dir(cgroupfs.detect(), cgroup_path)
    pinned = os.sched_getaffinity(pid)
    with (directory / "cgroup.procs").open("w") as file:
        file.write(str(pid))
    if pinned < os.sched_getaffinity(pid):
        os.sched_setaffinity(pid, pinned)


@dataclass(frozen=True)
class Truth:
    """What the planter says it did."""

    escapes: int
    switches: int
    outside_ns: int
    """CPU time that the scheduler charged: without what the host took, and without the way there and back."""
    tid: int


class _TaskCounter:
    """A count of perf's about a task, its later threads and children, on one CPU or on all."""

    EVENT: int

    def __init__(self, pid: int, cpu: int = -1) -> None:
        self._file = perf_event.open_software_event(self.EVENT, pid, cpu, flags=(perf_event.INHERIT,))

    def _read(self) -> int:
        return struct.unpack("=Q", os.read(self._file, 8))[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._file)


class TaskClock(_TaskCounter):
    """The kernel's own account of how long a task, its later threads and children are on a CPU, from switch to switch.

    perf's task clock runs by the same clock as the probes. CLOCK_THREAD_CPUTIME_ID does not: what the host takes from a
    virtual CPU while the task is on it is left out there (CONFIG_PARAVIRT_TIME_ACCOUNTING), and it can only be read on
    the way, after arrival and before departure. Source: perf_event_open(2), kernel/events/core.c (task_clock_event_*).
    """

    EVENT = perf_event.TASK_CLOCK

    def read_ns(self) -> int:
        """Return the time so far, of those that have exited too."""
        return self._read()


class TaskSwitches(_TaskCounter):
    """The kernel's own account of how often a task, its later threads and children were switched out on a CPU.

    Source: perf_event_open(2), ``PERF_COUNT_SW_CONTEXT_SWITCHES``; kernel/events/core.c (perf_event_task_sched_out).
    """

    EVENT = 3

    def read(self) -> int:
        """Return the count so far, of those that have exited too."""
        return self._read()


def stolen_ns(cpu: int) -> int:
    """Time that the host took from a CPU so far, to 10 ms."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{cpu} "))
    return int(line.split()[8]) * 10_000_000


class Planter:
    """The foreign program: started and held, moved into its cgroup, let go, asked for the truth, ended."""

    def __init__(self, program: Path, *args: object) -> None:
        command = [str(program), *map(str, args)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._line() == "ready"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _say(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def go(self) -> None:
        """Let it begin."""
        self._say()

    def truth(self) -> Truth:
        """Wait until it is done."""
        return Truth(**json.loads(self._line()))

    def end(self) -> None:
        """Let it exit."""
        with contextlib.suppress(BrokenPipeError):
            self._say()
        self.process.communicate()

    def __enter__(self) -> Planter:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
