"""What the state file said last holds while the kubelet restarts."""

from __future__ import annotations

import pytest

from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.held_state import HeldState

SECOND = 1_000_000_000
WAIT_NS = 15 * SECOND


def text(default: str, **entries: str) -> str:
    sets = {uid: {"main": CpuSet.parse(cpus)} for uid, cpus in entries.items()}
    return write_cpu_checkpoint(
        CpuState(policy_name="static", default=CpuSet.parse(default), entries=sets), pod_level=False
    )


BEFORE = text("0-2", g1="3")


@pytest.mark.parametrize("silence", [None, "", "{", text("")])
def test_silence_changes_nothing(silence: str | None) -> None:
    """Absent, empty, torn, or without any CPU."""
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


def test_a_spoilt_file_is_shown_and_not_believed() -> None:
    """Its checksum is wrong: what was said before holds, and the file is there for rule checkpoint."""
    held = HeldState()
    held.cpu(BEFORE, 0, WAIT_NS)
    assert held.cpu(BEFORE.replace('"3"', '"1"'), SECOND, WAIT_NS) == BEFORE
    assert held.spoilt is not None
    assert not held.silent
    held.cpu(BEFORE, 2 * SECOND, WAIT_NS)
    assert held.spoilt is None
