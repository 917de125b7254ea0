"""Command lines of workloads."""

from __future__ import annotations

import pytest

from toolkit.apply.workloads import LOAD_DIRECTORY, Programs, command, uses_stress_ng
from toolkit.errors import InputError
from toolkit.model.sandbox import Workload, WorkloadKind

PROGRAMS = Programs(python="/py", sleep="/bin/sleep", stress_ng="/sng", load="/load", scratch="/scratch")


@pytest.mark.parametrize("kind", list(WorkloadKind))
def test_every_kind_has_a_command_that_can_be_recognised(kind: WorkloadKind) -> None:
    """Each kind runs one known program, and its tasks carry a name that fits in /proc/pid/comm (15 bytes)."""
    made = command(Workload(kind=kind, threads=3), PROGRAMS)
    ours = "/bin/sh" if kind is WorkloadKind.SPIN else "/py"
    assert made.argv[0] == ("/sng" if uses_stress_ng(Workload(kind=kind)) else ours)
    assert "3" in made.argv
    assert 0 < len(made.comm) <= 15
    assert made.workers in (0, 3)


def test_spin_is_user_mode_in_n_processes() -> None:
    """The spin load is a loop without system calls, one process for each CPU's worth of demand."""
    made = command(Workload(kind=WorkloadKind.SPIN, threads=2), PROGRAMS)
    assert (made.argv[0], made.argv[-1]) == ("/bin/sh", "2")
    assert (made.comm, made.workers) == ("pinproof-spin", 2)


def test_one_sleeper_is_a_program_of_the_system() -> None:
    """What only sleeps needs no interpreter; several threads do."""
    made = command(Workload(kind=WorkloadKind.QUIET), PROGRAMS)
    assert (made.argv[0], made.comm, made.workers) == ("/bin/sleep", "sleep", 0)
    assert command(Workload(kind=WorkloadKind.QUIET, threads=2), PROGRAMS).argv[0] == "/py"


def test_the_programs_of_the_package_exist() -> None:
    """What is run by path is where it is said to be."""
    assert {"work.py"} <= {path.name for path in LOAD_DIRECTORY.iterdir()}


@pytest.mark.parametrize(
    "workload",
    [
        Workload(threads=0),
        Workload(threads=-1),
        Workload(kind=WorkloadKind.SPIN, threads=10**9),
        Workload(kind=WorkloadKind.MEMORY, memory_bytes=0),
        Workload(kind=WorkloadKind.HUGE_PAGES, memory_bytes=1 << 20),
        Workload(kind=WorkloadKind.HUGE_PAGES, page_bytes=4096),
        Workload(kind=WorkloadKind.PULSE, period_ms=0),
    ],
)
def test_numbers_without_sense_are_refused(workload: Workload) -> None:
    """No tasks, a billion tasks, no memory: one line."""
    with pytest.raises(InputError, match=f"workload {workload.kind}"):
        command(workload, PROGRAMS)
