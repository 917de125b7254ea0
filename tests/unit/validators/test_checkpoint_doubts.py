"""The rule ``checkpoint``: what was wrong for a while, and what a file was not compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.checkpoint_builder import BOTH, GOOD, judged, memory, memory_verdict, reading, state, written
from tests.unit.validators.evidence_builder import SECOND
from toolkit.allocation.checkpoint.state_files import memory_state_file
from toolkit.allocation.memory.state import MemoryState
from toolkit.model.state_files import StateReading
from toolkit.model.verdict import Outcome


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([(-60, BOTH), (0, BOTH), (9, BOTH), (9.5, GOOD)], "failed"),
        ([(-60, BOTH), (9, BOTH), (9.5, state("0-3", {}))], "failed"),
        ([(1, BOTH), (6, BOTH), (8, GOOD)], "failed"),
        ([(1, BOTH), (5.9, BOTH), (8, GOOD)], "passed"),
        ([(1, BOTH), (3, GOOD), (7, BOTH), (8, GOOD)], "passed"),
        ([(1, BOTH), (3, None), (7, BOTH), (8, GOOD)], "passed"),
        ([(1, BOTH), (7, state("0", {})), (8, GOOD)], "passed"),
        ([(-60, BOTH), (-1, BOTH), (1, GOOD)], "passed"),
        ([(-60, GOOD), (2, state("0-3", {})), (8, state("0-3", {})), (9, GOOD)], "passed"),
    ],
    ids=["lasts", "removed", "bound", "shorter", "twice", "absent", "another", "before", "restart"],
)
def test_what_lasts_is_no_moment_between_two_saves(said: list[tuple[float, str | None]], outcome: str) -> None:
    """Repaired at the window's end, and wrong for seconds of it; a kubelet that restarts has a pool and no entry."""
    verdict = judged(*(reading(text, at_ns=round(at_s * SECOND)) for at_s, text in said))

    assert verdict.outcome.value == outcome, verdict.reason
    assert outcome == "passed" or "CPUs 2-3 of u1/db are in the shared pool, too (for " in verdict.reason


@pytest.mark.parametrize(
    ("before", "config"),
    [
        (reading(state("0-1"), at_ns=-60 * SECOND), {"strict_reservation": True}),
        (reading(state("1"), at_ns=-60 * SECOND), {"strict_reservation": False}),
        (reading(GOOD, at_ns=-60 * SECOND, cpu_policy="none"), {}),
    ],
    ids=["strict now", "strict before", "policy"],
)
def test_a_new_configuration_finds_nothing_in_the_files_of_before(
    before: StateReading, config: dict[str, object]
) -> None:
    """An operator who changes it stops the kubelet and removes the file: what was right by the old one was right."""
    now = reading(state("1-3" if config.get("strict_reservation") else "0-3", {}), at_ns=9 * SECOND)

    assert judged(before, replace(before, at_ns=8 * SECOND), now, **config).outcome is Outcome.PASSED


@pytest.mark.parametrize(("policy", "said"), [(None, True), ("none", False)])
def test_a_policy_that_is_not_known_was_not_compared(policy: str | None, *, said: bool) -> None:
    """The file's own word for it is no second one."""
    verdict = judged(reading(state("", {}, policy="none"), cpu_policy=policy))

    assert verdict.outcome is Outcome.PASSED
    assert ("the configured policy is not known" in verdict.reason) is said


def test_memory_that_was_not_compared_is_named() -> None:
    """A file agrees with itself whatever was configured and whatever the machine has."""
    known = memory_verdict(memory(), node_bytes={0: 1000, 1: 1000}).reason
    unknown = judged(reading(None, memory=memory_state_file(written(memory())), node_bytes=None)).reason

    assert known.endswith("1 blocks, sums agree")
    assert unknown.endswith("agree; the configured policy is not known; the totals of this boot were not read")


def test_memory_of_a_manager_that_has_not_started_is_undecided() -> None:
    """An empty table under policy Static has no sums that could agree; policy None has never any."""
    assert memory_verdict(MemoryState(), node_bytes={0: 1000}).outcome is Outcome.UNDECIDED
    none = judged(reading(None, memory=memory_state_file(written(MemoryState(), "None")), memory_policy="None"))
    assert (none.outcome, none.reason) == (Outcome.PASSED, "version 1, policy None: 0 blocks")


@pytest.mark.parametrize(("seconds", "outcome"), [(5.0, "failed"), (4.9, "passed")])
def test_memory_that_stays_wrong_is_no_moment_between_two_saves(seconds: float, outcome: str) -> None:
    """As for CPUs: more is taken than the blocks sum up to, until just before the end."""
    torn, good = (memory_state_file(written(value)) for value in (memory(reserved=400), memory()))
    times = ((0.0, torn), (seconds, torn), (9.0, good))
    verdict = judged(*(reading(None, memory=file, at_ns=round(at_s * SECOND)) for at_s, file in times))

    assert verdict.outcome.value == outcome
