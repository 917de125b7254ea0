"""The rule ``transition-window``: lengths, limits, and threads that keep the old set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, cpus, evidence, mask, use
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.transition_window import RULE

MS = 1_000_000
SHRINK = Transition(
    claim="db",
    what="cpus",
    start_at_ns=1_000 * MS,
    end_at_ns=1_005 * MS,
    cpus_before=cpus("1-3"),
    cpus_after=cpus("2-3"),
)


def found(*changes: Transition, **more: object) -> Evidence:
    value = evidence(transitions=changes, thread_masks=(mask("db", "2-3", epoch=1), mask("web", "0-1", tid=200)))
    return replace(value, **more)  # type: ignore[arg-type]


def judged(value: Evidence, limit: float | None = 10.0) -> Verdict:
    return RULE(claim_set(transition_limit_ms=limit), value)[0]


def test_nothing_changed_is_skipped() -> None:
    """No transition, nothing to judge."""
    assert judged(evidence()).outcome is Outcome.SKIPPED


@pytest.mark.parametrize(("limit", "outcome"), [(5.0, "passed"), (4.999, "failed"), (None, "passed"), (0.0, "failed")])
def test_the_limit(limit: float | None, outcome: str) -> None:
    """Exactly the limit is in time; without one the window is only measured."""
    verdict = judged(found(SHRINK), limit)

    assert verdict.outcome.value == outcome
    assert verdict.measures["longest_ms"] == 5.0
    assert ("measured only" in verdict.reason) is (limit is None)


def test_the_slowest_counts() -> None:
    """Several changes: longest, median, and each kind apart."""
    more = replace(SHRINK, what="resize", start_at_ns=0, end_at_ns=20 * MS)
    verdict = judged(found(SHRINK, more))

    assert verdict.outcome is Outcome.FAILED
    assert "resize at 0.000 s did not hold for 20.000 ms" in verdict.reason
    assert verdict.measures["median_ms"] == 12.5
    assert verdict.measures["cpus_longest_ms"] == 5.0


def test_time_outside_in_a_window_with_a_change_is_undecided() -> None:
    """A change that did not hold, or an escape: that is not known. Without a change of its set that is no question."""
    row = replace(use("db", 0), out_of_set_switches=1, out_of_set_ns=MS)
    verdict = judged(found(SHRINK, cpu_use=(row,)))

    assert verdict.outcome is Outcome.UNDECIDED
    assert "when that held is not known" in verdict.reason
    made = replace(SHRINK, what="restart", cpus_before=None, cpus_after=None)
    assert "when that held" not in judged(found(made, cpu_use=(row,))).reason


def test_a_thread_that_keeps_the_old_set_fails() -> None:
    """The negative control: a mask read 500 ms later that still has the old CPU, named."""
    late = mask("db", "1-3", tid=7, epoch=1, first_at_ns=1_006 * MS, last_at_ns=1_500 * MS)
    verdict = judged(found(SHRINK, thread_masks=(late,)))

    assert verdict.outcome is Outcome.FAILED
    assert "thread 7 (db) kept the old set" in verdict.reason
    assert [(who.tid, who.cpu) for who in verdict.offenders] == [(7, 1)]
    assert judged(found(SHRINK, thread_masks=(replace(late, epoch=0),))).outcome is not Outcome.FAILED


def test_running_outside_after_a_change_is_undecided() -> None:
    """Nobody followed when the last task left, and somebody was outside."""
    outside = (use("db", 2), use("db", 1, out_of_set_switches=1, out_of_set_ns=5))

    assert judged(found(SHRINK, cpu_use=outside)).outcome is Outcome.UNDECIDED


def test_times_that_run_backwards_are_undecided() -> None:
    """An end before the beginning is no evidence."""
    assert judged(found(replace(SHRINK, end_at_ns=0))).outcome is Outcome.UNDECIDED


def test_a_claim_without_changes_has_no_line() -> None:
    """Only what changed is told."""
    verdicts = RULE(claim_set(claim_db(), claim_db(name="x", cgroup="/x")), found(SHRINK))

    assert [verdict.subject for verdict in verdicts] == ["db"]
