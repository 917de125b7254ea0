"""What the state file said last holds while the kubelet restarts."""

from __future__ import annotations

import pytest

from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.state_file import HeldState

SECOND = 1_000_000_000
WAIT_NS = 15 * SECOND


def text(default: str, **entries: str) -> str:
    sets = {uid: {"main": CpuSet.parse(cpus)} for uid, cpus in entries.items()}
    return write_cpu_checkpoint(
        CpuState(policy_name="static", default=CpuSet.parse(default), entries=sets), pod_level=False
    )


BEFORE = text("0-2", g1="3")


@pytest.mark.parametrize("silence", [None, "", text("")])
def test_silence_changes_nothing(silence: str | None) -> None:
    """Absent, empty, or without any CPU."""
    held = HeldState()
    assert held.cpu(BEFORE, 0, WAIT_NS) == BEFORE
    assert not held.silent
    assert held.cpu(silence, SECOND, WAIT_NS) == BEFORE
    assert held.silent
    assert held.cpu(BEFORE, 2 * SECOND, WAIT_NS) == BEFORE
    assert not held.silent


def test_a_file_without_entries_counts_after_a_reconcile() -> None:
    """A kubelet that begins writes one for 50 ms; one that lost its assignments keeps it."""
    held = HeldState()
    held.cpu(BEFORE, 0, WAIT_NS)
    empty = text("0-3")
    assert held.cpu(empty, SECOND, WAIT_NS) == BEFORE
    assert held.cpu(empty, 15 * SECOND, WAIT_NS) == BEFORE
    assert held.silent
    assert held.cpu(empty, 17 * SECOND, WAIT_NS) == empty
    assert not held.silent


def test_a_kubelet_that_goes_on_running_is_believed_at_once() -> None:
    """It has taken the last CPUs back, from a pod that it refused, too; whether it restarted is asked of when."""
    held, asked = HeldState(), list[int]()

    def restarted(since_ns: int) -> bool:
        asked.append(since_ns)
        return False

    held.cpu(BEFORE, 0, WAIT_NS, restarted)
    held.cpu(BEFORE, SECOND, WAIT_NS, restarted)
    assert held.cpu(text("0-3"), 2 * SECOND, WAIT_NS, restarted) == text("0-3")
    assert held.speaks
    assert asked == [SECOND]


def test_what_is_said_first_holds() -> None:
    """A node may have no assignment, or no file."""
    assert HeldState().cpu(None, 0, WAIT_NS) is None
    assert HeldState().cpu(text("0-3"), 0, WAIT_NS) == text("0-3")


def test_the_first_silence_promises_nothing() -> None:
    """A manager that has not started yet says nothing; what it says next holds."""
    held = HeldState()
    for silence in (None, text("")):
        assert held.cpu(silence, 0, WAIT_NS) is None
        assert held.silent
    assert held.cpu(BEFORE, SECOND, WAIT_NS) == BEFORE
    assert not held.silent


@pytest.mark.parametrize(
    "spoilt",
    [BEFORE.replace('"3"', '"1"'), BEFORE[:-9], "{", BEFORE + "\0"],
    ids=["changed", "torn", "begun", "longer"],
)
def test_a_spoilt_file_is_shown_and_not_believed(spoilt: str) -> None:
    """Its checksum is wrong, or it is none at all: what was said before holds, rule checkpoint sees the file."""
    held = HeldState()
    held.cpu(BEFORE, 0, WAIT_NS)
    for at_s in (1, 2, 3600):
        assert held.cpu(spoilt, at_s * SECOND, WAIT_NS) == BEFORE
        assert held.instead is not None
        assert not held.speaks
        assert held.problem
    held.cpu(BEFORE, 3601 * SECOND, WAIT_NS)
    assert held.speaks
    assert not held.problem


@pytest.mark.parametrize("silence", [None, "", text("")], ids=["absent", "empty", "no CPU"])
@pytest.mark.parametrize("first", [True, False])
def test_silence_has_a_begin_and_an_end(silence: str | None, *, first: bool) -> None:
    """Longer than a restart takes the file is as it is, and what holds is no program's word."""
    held = HeldState()
    before = None if first else held.cpu(BEFORE, 0, WAIT_NS)
    for at_s, lost in ((1, False), (15, False), (16, True), (3600, True)):
        assert held.cpu(silence, at_s * SECOND, WAIT_NS) == before
        assert (held.silent, held.lost, held.speaks) == (not lost, lost, False)
        assert (held.instead is not None) is (lost and silence is not None)
    held.cpu(BEFORE, 3601 * SECOND, WAIT_NS)
    assert held.cpu(silence, 3602 * SECOND, WAIT_NS) == BEFORE
    assert held.silent, "another silence begins anew"


def test_another_policy_without_cpus_is_a_word() -> None:
    """A kubelet that was configured anew assigns nothing."""
    held = HeldState()
    held.cpu(BEFORE, 0, WAIT_NS)
    none = write_cpu_checkpoint(CpuState(policy_name="none", default=CpuSet(), entries={}), pod_level=False)
    assert held.cpu(none, SECOND, WAIT_NS) == none
    assert held.speaks
