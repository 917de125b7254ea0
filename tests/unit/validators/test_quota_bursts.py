"""How often periods drew more than the quota, by the kernel's own count: without a burst never, and no more with one.

Source: kernel/sched/fair.c, ``__refill_cfs_bandwidth_runtime``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.trust_builder import CLAIMS, healthy
from toolkit.model.evidence import CgroupFiles, Evidence, Transition
from toolkit.model.verdict import Outcome, Verdict
from validators.registry import judge

MS = 1_000_000
SCOPE = "/kubepods/podb/web.scope"


def counted(
    nr_bursts: int | None, burst_ns: int | None, *, cgroup: str = "/kubepods/podb/web", burst_us: int = 0
) -> Evidence:
    """``web`` throttled at its quota of 50 ms, in evidence that passes every rule but for the kernel's count."""
    base = healthy()

    def read(one: CgroupFiles) -> CgroupFiles:
        return replace(one, cgroup=cgroup, burst_us=burst_us) if one.cgroup.endswith("web") else one

    rows = [
        replace(row, cgroup=cgroup, nr_bursts=nr_bursts, burst_ns=burst_ns, burst_us=burst_us)
        if (row.claim, row.level) == ("web", 0)
        else row
        for row in base.bandwidth
    ]
    return replace(
        base,
        bandwidth=tuple(rows),
        files_before=tuple(map(read, base.files_before)),
        files_after=tuple(map(read, base.files_after)),
    )


def verdict_of(found: Evidence, **claim: Any) -> Verdict:
    db, web = CLAIMS.claims
    claims = replace(CLAIMS, claims=(db, replace(web, **claim)))
    (verdict,) = [one for one in judge(claims, found) if (one.rule, one.subject) == ("quota-throttling", "web")]
    return verdict


@pytest.mark.parametrize(
    ("nr_bursts", "burst_ns", "promised_us", "outcome"),
    [
        (None, None, 0, Outcome.PASSED),  # a kernel before 5.14
        (0, 0, 0, Outcome.PASSED),
        (3, 2 * MS, 0, Outcome.FAILED),
        (3, 0, 0, Outcome.FAILED),  # each of less than a microsecond, which cgroup v2 does not show
        (2, 80 * MS, 0, Outcome.UNDECIDED),  # a quota may have been lowered while the ends were read
        (0, 2 * MS, 0, Outcome.UNDECIDED),  # read while it was being counted
        (4, 80 * MS, 20_000, Outcome.PASSED),
        (4, 120 * MS, 20_000, Outcome.PASSED),  # two more may be underway at the ends
        (4, 121 * MS, 20_000, Outcome.FAILED),
    ],
)
def test_periods_that_drew_more_than_the_quota(
    nr_bursts: int | None, burst_ns: int | None, promised_us: int, outcome: Outcome
) -> None:
    """Usage and files are as promised: what was put back between two readings of the files is in the count alone."""
    verdict = verdict_of(counted(nr_bursts, burst_ns, burst_us=promised_us), burst_us=promised_us)

    assert verdict.outcome is outcome
    assert verdict.measures.get("nr_bursts") == nr_bursts
    assert verdict.measures.get("burst_ns") == burst_ns


def test_the_count_is_named_with_what_was_promised() -> None:
    """One sentence with all numbers."""
    assert verdict_of(counted(3, 2_500_000)).reason == (
        "3 periods drew more than 50 ms / 100 ms by the kernel's count (nr_bursts), 2.500 ms in all; "
        "promised was no burst"
    )


def test_a_cgroup_that_is_being_set_up() -> None:
    """Its runtime may write several quotas, one after the other, while something of it already runs."""
    made = Transition(claim="web", what="cgroup-made", cause="kernel", start_at_ns=5, end_at_ns=6)
    verdict = verdict_of(replace(counted(3, MS), transitions=(made,)))

    assert verdict.outcome is Outcome.UNDECIDED
    assert "its cgroup was being set up" in verdict.reason


@pytest.mark.parametrize(("burst_us", "outcome"), [(1500, Outcome.PASSED), (1501, Outcome.FAILED)])
def test_what_systemd_rounds_may_be_lowered_again(burst_us: int, outcome: Outcome) -> None:
    """Promised 49.7 ms, which systemd writes as 50: the 0.3 ms between them may be drawn five times here."""
    verdict = verdict_of(counted(3, burst_us * 1000, cgroup=SCOPE), quota_us=49_700, cgroup=SCOPE)

    assert verdict.outcome is outcome
    assert ("promised was no burst" in verdict.reason) is (outcome is Outcome.FAILED)
