"""The rule ``transition-window``: lengths, limits, and threads that keep the old set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, cpus, evidence, mask, use
from toolkit.model.blind_spots import ScanGap
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


def test_a_mask_is_late_for_the_change_before_it_alone() -> None:
    """What a later change gave back is no straggler of the earlier one."""
    grow = replace(
        SHRINK, start_at_ns=2_000 * MS, end_at_ns=2_005 * MS, cpus_before=cpus("2-3"), cpus_after=cpus("1-3")
    )
    masks = (mask("db", "2-3", epoch=1), mask("db", "1-3", epoch=2))
    verdict = judged(found(SHRINK, grow, thread_masks=masks))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["longest_ms"] == 5.0


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
    assert [(row.tid, row.cpu) for row in verdict.offenders] == [(7, 1)]
    assert judged(found(SHRINK, thread_masks=(replace(late, epoch=0),))).outcome is not Outcome.FAILED


def test_running_outside_after_a_change_is_undecided() -> None:
    """It was not followed when the last task left, and a task was outside."""
    outside = (use("db", 2), use("db", 1, out_of_set_switches=1, out_of_set_ns=5))

    assert judged(found(SHRINK, cpu_use=outside)).outcome is Outcome.UNDECIDED


def test_times_that_run_backwards_are_undecided() -> None:
    """An end before the beginning is no evidence."""
    assert judged(found(replace(SHRINK, end_at_ns=0))).outcome is Outcome.UNDECIDED


def test_a_claim_without_changes_has_no_line() -> None:
    """Only what changed is told."""
    verdicts = RULE(claim_set(claim_db(), claim_db(name="x", cgroup="/x")), found(SHRINK))

    assert [verdict.subject for verdict in verdicts] == ["db"]


def unread(*changes: Transition, **more: object) -> Evidence:
    """No thread of ``db`` was read after its changes."""
    return found(*changes, thread_masks=(mask("db", "1-3"), mask("web", "0-1", tid=200)), **more)


@pytest.mark.parametrize("limit", [None, 10.0])
def test_a_change_after_which_nothing_was_read_is_undecided(limit: float | None) -> None:
    """Without a limit, too: what was not looked at did not hold for all that is known."""
    verdict = judged(unread(SHRINK), limit)

    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.reason == (
        "cpus at 1.000 s was written in 5.000 ms; no thread of it was read after it: whether it held is not known"
    )


def test_growing_takes_nothing_away() -> None:
    """There is nothing that could be kept."""
    grown = replace(SHRINK, cpus_before=cpus("2-3"), cpus_after=cpus("1-3"))
    assert judged(unread(grown), None).outcome is Outcome.PASSED


@pytest.mark.parametrize("allowed_ms", [None, 2_000])
def test_a_change_at_the_end_of_the_window_is_named(allowed_ms: int | None) -> None:
    """Too late for a scan: without a limit no doubt, and it is not said that it held."""
    end = evidence().duration_ns
    before_ms = 600 if allowed_ms is None else 1_900
    late = replace(SHRINK, start_at_ns=end - before_ms * MS - 3 * MS, end_at_ns=end - before_ms * MS)
    gap = ScanGap(claim="db", scans=9, longest_ns=1, at_ns=0, allowed_ns=(allowed_ms or 0) * MS)
    seen = unread(late)
    if allowed_ms is not None:
        seen = replace(seen, coverage=replace(seen.coverage, scan_gaps=(gap,)))
    verdict = judged(seen, None)

    assert verdict.outcome is Outcome.PASSED
    assert verdict.reason.startswith("1 change was written in at most 3.000 ms, and no thread was read after it (")
    assert "held" not in verdict.reason
    assert judged(seen, 10.0).outcome is Outcome.UNDECIDED
    earlier = replace(late, start_at_ns=late.start_at_ns - 200 * MS, end_at_ns=late.end_at_ns - 200 * MS)
    assert judged(replace(seen, transitions=(earlier,)), None).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("what", ["claim-removed", "cgroup-gone"])
def test_a_claim_that_ended_has_nothing_to_hold(what: str) -> None:
    """Its last thread may have gone before the next scan."""
    gone = Transition(claim="db", what=what, start_at_ns=1_050 * MS, end_at_ns=1_051 * MS)
    verdict = judged(unread(SHRINK, gone), None)

    assert verdict.outcome is Outcome.PASSED
    assert "1 change was written in at most 5.000 ms, and no thread was read after it" in verdict.reason
    before = replace(gone, start_at_ns=500 * MS, end_at_ns=501 * MS)
    assert judged(unread(SHRINK, before), None).outcome is Outcome.UNDECIDED
