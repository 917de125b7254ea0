"""The project's own integration tests inside guests: BPF trampolines, cgroup v2, PREEMPT_RT.

What holds on the machine that they were written on has to hold on the kernels that users have.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.lab.harness.debian import KERNELS
from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_files import PROJECT
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind

EVERY_KERNEL = guests(*(GuestKind(kernel=kernel) for kernel in KERNELS))
RUN_TESTS = """
import os
import pytest
os.environ.update(ARGS["env"])
raise SystemExit(pytest.main([*ARGS["words"], "-q", "-p", "no:cacheprovider", "--junitxml=/tmp/tests.xml"]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a test of the project came to inside a guest."""

    name: str
    outcome: str
    said: str


def run_tests(
    guest: Guest, *words: str, timeout_s: float = 600, env: Mapping[str, str] | None = None
) -> tuple[Ran, ...]:
    """Run tests of the project inside the guest and return each one's fate; at least one has to have run."""
    guest.run(["rm", "-f", "/tmp/tests.xml"]).check()
    done = guest.python(RUN_TESTS, {"words": list(words), "env": dict(env or {})}, cwd=PROJECT, timeout_s=timeout_s)
    assert done.code in (0, 1), f"pytest ended with {done.code}\n{done.text[-3000:]}\n{done.error_text[-3000:]}"
    found = []
    for case in ET.fromstring(guest.read("/tmp/tests.xml")).iter("testcase"):
        fate = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        found.append(
            Ran(
                name=case.get("name", ""),
                outcome="passed" if fate is None else fate.tag,
                said="" if fate is None else f"{fate.get('message', '')}\n{fate.text or ''}"[-2500:],
            )
        )
    assert found
    return tuple(found)


def assert_all_passed(ran: tuple[Ran, ...], skips: str = "") -> None:
    """Every test passed; ``skips``: a pattern of the reasons for which some may have been skipped."""
    broken = [case for case in ran if case.outcome in ("failure", "error")]
    assert not broken, "\n".join(f"== {case.name}: {case.outcome}\n{case.said}" for case in broken)
    silent = [case for case in ran if case.outcome == "skipped" and not (skips and re.search(skips, case.said))]
    assert silent == []


@EVERY_KERNEL
def test_affinity_changes_are_observed_without_tracing_system_calls(equipped: Guest) -> None:
    """Where BPF trampolines are, the program at the return of ``sched_setaffinity`` runs; nothing is skipped."""
    assert_all_passed(run_tests(equipped, "tests/integration/test_probe_actions.py"))


@EVERY_KERNEL
@pytest.mark.parametrize("name", ["contract", "recall", "interrupts", "bandwidth"])
def test_probes_hold_what_they_promise(equipped: Guest, name: str) -> None:
    """The probes' own tests pass on every kernel of the lab."""
    assert_all_passed(run_tests(equipped, f"tests/integration/test_probe_{name}.py"), skips="software emulation")


@guests(GuestKind())
def test_who_was_written_to_is_known_by_the_program(equipped: Guest) -> None:
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
