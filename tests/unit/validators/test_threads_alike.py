"""Threads of a process that were read alike share a row of the evidence: every rule says what it says of a row each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_db, claim_set, claim_web, cpus, evidence, mask
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.evidence.masks import of_each, threads_of
from toolkit.model.verdict import Outcome, Verdict
from validators.registry import judge

CLAIMS = claim_set(claim_db(mems=cpus("0")), claim_web(), transition_limit_ms=10.0)
SHRINK = Transition(
    claim="db",
    what="cpus",
    start_at_ns=SECOND,
    end_at_ns=SECOND + 5,
    cpus_before=cpus("1-3"),
    cpus_after=cpus("2-3"),
    cause="toolkit",
)
ALIKE: dict[str, Any] = {"tid": 100, "alike": (101, 102, 7000)}
SEEN: dict[str, dict[str, Any]] = {
    "inside": {},
    "wide": {"cpus_allowed": cpus("0-3")},
    "narrow": {"cpus_allowed": cpus("2")},
    "other nodes": {"mems_allowed": cpus("0-1")},
    "realtime": {"policy": "fifo"},
    "late": {"epoch": 1, "cpus_allowed": cpus("1-3"), "first_at_ns": 2 * SECOND, "last_at_ns": 3 * SECOND},
    "read backwards": {"first_at_ns": SECOND, "last_at_ns": 0},
}


def found(**changes: Any) -> Evidence:
    """The threads of both claims, in a row each."""
    rows = (
        mask("db", "2-3", **{"epoch": 1, **ALIKE, **changes}),
        mask("web", "0-1", **{**ALIKE, "pid": 300, "tid": 300, "alike": (301, 303), **changes, "epoch": 0}),
    )
    return replace(evidence(), thread_masks=rows, transitions=(SHRINK,))


@pytest.mark.parametrize("case", SEEN)
def test_every_verdict_is_that_of_a_row_for_each_thread(case: str) -> None:
    """Reasons, measures and offenders, too."""
    together = found(**SEEN[case])
    apart = replace(together, thread_masks=tuple(of_each(together.thread_masks)))

    assert len(apart.thread_masks) == 7
    assert judge(CLAIMS, together) == judge(CLAIMS, apart)


def verdict(evidence: Evidence, rule: str, subject: str = "db") -> Verdict:
    return next(one for one in judge(CLAIMS, evidence) if one.rule == rule and one.subject == subject)


def test_all_are_counted_and_named() -> None:
    """The control of the test above: what is alike is neither left out nor taken for one thread."""
    wide = verdict(found(cpus_allowed=cpus("0-3")), "affinity-mask")
    assert wide.outcome is Outcome.FAILED
    assert "thread 100 (db) may run on" in wide.reason
    assert wide.reason.endswith("4 threads in all")
    assert [wide.measures[f"{what}_count"] for what in ("threads", "masks", "wide_threads")] == [4, 4, 4]
    assert verdict(found(cpus_allowed=cpus("2")), "affinity-mask").measures["narrowed_threads_count"] == 4
    assert [one.tid for one in wide.offenders] == [100, 101, 102, 7000]
    late = verdict(found(**SEEN["late"]), "transition-window")
    assert [one.tid for one in late.offenders] == [100, 101, 102, 7000]
    realtime = verdict(found(policy="fifo"), "quota-throttling", "web").reason
    assert all(f"web ({tid}, fifo)" in realtime for tid in (300, 301, 303))
    assert "thread 101 of db" in str(judge(CLAIMS, found(**SEEN["read backwards"])))


def test_one_of_them_that_was_read_inside_later_is_found_there() -> None:
    """A thread is looked for among all that a row is about."""
    late = mask("db", "1-3", epoch=1, first_at_ns=2 * SECOND, last_at_ns=3 * SECOND, **ALIKE)
    back = mask(
        "db", "2-3", epoch=1, first_at_ns=4 * SECOND, last_at_ns=5 * SECOND, tid=99, alike=(100, 101, 102, 7000)
    )
    claims = replace(CLAIMS, transition_limit_ms=None)
    seen = replace(found(), thread_masks=(late, back))
    lacking = replace(seen, thread_masks=(late, replace(back, alike=(100, 101, 102))))

    def outcome(evidence: Evidence) -> Verdict:
        return next(one for one in judge(claims, evidence) if one.rule == "transition-window")

    assert outcome(seen).outcome is Outcome.PASSED
    assert "thread 7000 (db) was never read inside the new set" in outcome(lacking).reason


def test_the_threads_of_rows() -> None:
    """By process: a thread's id in two of them is two threads' (one ended, and its id was given again)."""
    rows = (mask("db", "0", pid=1, tid=2, alike=(3, 4)), mask("db", "0", pid=2, tid=2), mask("db", "1", pid=1, tid=3))
    assert threads_of(rows) == {(1, 2), (1, 3), (1, 4), (2, 2)}
    assert [one.tid for one in of_each(rows)] == [2, 3, 4, 2, 3]
    assert all(not one.alike for one in of_each(rows))
