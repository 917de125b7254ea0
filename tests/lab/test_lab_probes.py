"""The project's own integration tests inside guests: BPF trampolines, cgroup v2, PREEMPT_RT.

What holds on the machine that they were written on has to hold on the kernels that users have.
"""

from __future__ import annotations

import pytest

from tests.lab.harness.debian import KERNELS
from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_tests import assert_all_passed, run_tests
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind

EVERY_KERNEL = guests(*(GuestKind(kernel=kernel) for kernel in KERNELS))


@EVERY_KERNEL
def test_affinity_changes_are_observed_without_tracing_system_calls(equipped: Guest) -> None:
    """Where BPF trampolines are, the program at the return of ``sched_setaffinity`` runs; nothing is skipped."""
    assert_all_passed(run_tests(equipped, "tests/integration/test_probe_actions.py"))


@EVERY_KERNEL
@pytest.mark.parametrize("name", ["contract", "recall", "interrupts", "bandwidth", "rows"])
def test_probes_hold_what_they_promise(equipped: Guest, name: str) -> None:
    """The probes' own tests pass on every kernel of the lab."""
    assert_all_passed(run_tests(equipped, f"tests/integration/test_probe_{name}.py"), skips="software emulation")


@guests(GuestKind())
def test_what_was_written_to_is_known_by_the_program(equipped: Guest) -> None:
    """Where BPF trampolines are, no test of it is skipped, and none is about the kernel's notices."""
    ran = run_tests(equipped, "tests/integration/test_probe_writes.py", "-k", "known_at_once or relies_on_it")
    assert len(ran) == 2
    assert_all_passed(ran)


@guests(GuestKind())
def test_a_move_is_known_from_its_begin(equipped: Guest) -> None:
    """Where BPF trampolines are, the kernel's word says when it began to move: no patience is a guess."""
    ran = run_tests(equipped, "tests/integration/test_membership_moves.py", "-k", "began")
    assert len(ran) == 1
    assert_all_passed(ran)


@guests(GuestKind())
@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_real_containers_on_v2(equipped: Guest, runtime: str) -> None:
    """Containers of both runtimes start, are what was asked for, can be updated, and leave no trace."""
    names = "asked_for or update_and_restart or refusal or every_workload"
    ran = run_tests(equipped, "tests/integration/test_apply_runtimes.py", "-k", f"({names}) and {runtime}")
    assert len(ran) > 10
    assert_all_passed(ran)
