"""Evidence that contradicts itself: no CPU runs anything for longer than the window, as far as its ends are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import evidence, use
from validators.credibility.contradictions import contradictions

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("ran_ms", "skew_ms", "false"),
    [(7_000, 0, False), (7_090, 0, False), (7_294, 0, True), (7_294, 220, False), (7_400, 220, True)],
)
def test_nothing_runs_longer_than_the_window(ran_ms: int, skew_ms: int, false: bool) -> None:
    """The measured time that it took to end the window on all CPUs counts, on top of 1 % and 20 ms."""
    found = evidence(duration_ns=7 * SECOND, cpu_use=(use("db", 2, run_ns=ran_ms * 1_000_000),))
    found = replace(found, coverage=replace(found.coverage, window_skew_ns=skew_ms * 1_000_000))

    told = contradictions(found)

    assert bool(told) is false
    assert all("in a window of 7000000000 ns" in text for text in told)
