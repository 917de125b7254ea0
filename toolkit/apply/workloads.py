"""Which command makes which load. Pure; :mod:`toolkit.apply.launch` runs it.

stress-ng where it is good at it; ``load/work.py`` where no generator does what is needed; the system's own programs for
what is nothing but a loop or a sleep: what a command needs to start is paid by its cgroup, and of a quota of 10 % an
interpreter's start takes a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import InputError
from toolkit.model.sandbox import Workload, WorkloadKind

LOAD_DIRECTORY = Path(__file__).resolve().parent / "load"
MAX_WORKERS = 4096
HUGE_PAGES = (2 << 20, 1 << 30)
"""Sizes of huge pages that a load can touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line, and how to see that it works.

    :param workers: children of the main process that carry the name ``comm`` once all is running; 0: the main process
        itself carries it.
    """

    argv: tuple[str, ...]
    comm: str
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where the programs are, as seen by the workload (on the host, or inside a container)."""

    python: str
    sleep: str
    stress_ng: str
    load: str
    scratch: str


_STRESS_NG: dict[WorkloadKind, tuple[str, tuple[str, ...]]] = {
    WorkloadKind.SWITCH: ("switch", ()),
    WorkloadKind.FORK_STORM: ("fork", ("--fork-max", "16")),
    WorkloadKind.THREAD_STORM: ("pthread", ("--pthread-max", "64")),
    WorkloadKind.MEMORY: ("vm", ("--vm-keep", "--vm-method", "write64")),
}
_OWN: dict[WorkloadKind, str] = {
    WorkloadKind.QUIET: "quiet",  # several threads; one is sleep(1)
    WorkloadKind.AFFINITY_ESCAPER: "escape",
    WorkloadKind.EXEC_STORM: "exec",
    WorkloadKind.SYSCALL: "syscall",
    WorkloadKind.HUGE_PAGES: "huge",
    WorkloadKind.PULSE: "pulse",
}
SHELL = "/bin/sh"
_SPIN = """
printf pinproof-main >/proc/self/comm
left=$1
while [ "$left" -gt 0 ]; do
    { printf pinproof-spin >/proc/self/comm; while :; do :; done; } &
    left=$((left - 1))
done
wait
"""
"""User mode only: every command is one of the shell's own."""
_FOR_EVER_S = str(2**31 - 1)


def uses_stress_ng(workload: Workload) -> bool:
    """Return whether the workload needs stress-ng."""
    return workload.kind in _STRESS_NG


def command(workload: Workload, programs: Programs) -> Command:
    """Return the command of a workload.

    :raises InputError: numbers that make no sense.
    """
    where = f"workload {workload.kind}"
    if not 1 <= workload.threads <= MAX_WORKERS:
        raise InputError(where, f"threads {workload.threads}", f"1 to {MAX_WORKERS}")
    if workload.kind is WorkloadKind.SPIN:
        argv = (SHELL, "-c", _SPIN, "sh", str(workload.threads))
        return Command(argv=argv, comm="pinproof-spin", workers=workload.threads)
    if workload.kind is WorkloadKind.QUIET and workload.threads == 1:
        return Command(argv=(programs.sleep, _FOR_EVER_S), comm=Path(programs.sleep).name, workers=0)
    if own := _OWN.get(workload.kind):
        more: tuple[str, ...] = ()
        if workload.kind is WorkloadKind.HUGE_PAGES:
            _check_huge_pages(workload, where)
            more = (str(workload.page_bytes), str(workload.memory_bytes))
        elif workload.kind is WorkloadKind.PULSE:
            if workload.period_ms < 1:
                raise InputError(where, f"period_ms {workload.period_ms}", "at least 1")
            more = (str(workload.period_ms),)
        return Command(
            argv=(programs.python, "-ISE", f"{programs.load}/work.py", own, str(workload.threads), *more),
            comm=f"pinproof-{own}"[:15],
            workers=0 if workload.kind in (WorkloadKind.QUIET, WorkloadKind.PULSE) else workload.threads,
        )
    stressor, options = _STRESS_NG[workload.kind]
    if workload.kind is WorkloadKind.MEMORY:
        if workload.memory_bytes < 4096:
            raise InputError(where, f"memory_bytes {workload.memory_bytes}", "at least one page")
        options = (*options, "--vm-bytes", str(workload.memory_bytes))
    count = str(workload.threads)
    common = ("--timeout", "0", "--quiet", "--oomable", "--temp-path", programs.scratch)
    return Command(
        argv=(programs.stress_ng, f"--{stressor}", count, *options, *common),
        comm=f"stress-ng-{stressor}"[:15],
        workers=workload.threads,
    )


def _check_huge_pages(workload: Workload, where: str) -> None:
    if workload.page_bytes not in HUGE_PAGES:
        raise InputError(where, f"page_bytes {workload.page_bytes}", " or ".join(map(str, HUGE_PAGES)))
    if workload.memory_bytes < 1 or workload.memory_bytes % workload.page_bytes:
        raise InputError(where, f"memory_bytes {workload.memory_bytes}", f"whole pages of {workload.page_bytes}")
