"""Lives that ended in a window: each is judged by itself, and leaves neither the next life nor the node in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    bandwidth,
    claim_db,
    claim_set,
    claim_web,
    evidence,
    web_bandwidth,
)
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import BandwidthUse, EndedUse, Evidence, UsageBin
from toolkit.model.verdict import Outcome, Verdict
from validators.registry import judge

MS = 1_000_000
OLD = "/kubepods/podb/old"
READ_NS, END_NS = 3 * SECOND, 4 * SECOND
"""When the counters of the life before were read last, and when it ended."""


def old(ms: float, tail_ms: float = 0.0, **changes: object) -> BandwidthUse:
    """``web``'s life before, which used so much until its counters were read last, and so much after that."""
    own = replace(
        web_bandwidth(),
        cgroup=OLD,
        window_ns=READ_NS,
        usage_ns=round(ms * MS),
        bpf_usage_ns=round(ms * MS),
        nr_periods=30,
        nr_throttled=28,
        throttled_ns=SECOND,
        unread_ns=round(tail_ms * MS),
    )
    return replace(own, **changes)  # type: ignore[arg-type]


UNREAD = {"window_ns": 0, "usage_ns": None, "nr_periods": None, "nr_throttled": None, "throttled_ns": None}


def seen(own: BandwidthUse, *above: BandwidthUse) -> Evidence:
    """``web`` began anew after the life before had ended; what it used in slots of 0.1 s is spread evenly."""
    base = evidence()
    use = EndedUse(claim=own.claim, from_ns=0, to_ns=END_NS, levels=(own, *above))
    slot_ns = SECOND // 10
    parts = [(0, READ_NS, own.bpf_usage_ns or 0), (READ_NS, END_NS, own.unread_ns)]
    mine = [
        UsageBin(claim="web", start_at_ns=at, length_ns=slot_ns, usage_ns=spent_ns * slot_ns // (to_ns - from_ns))
        for from_ns, to_ns, spent_ns in (parts if own.window_ns else [(0, END_NS, own.unread_ns)])
        for at in range(from_ns, to_ns, slot_ns)
    ]
    later = [one for one in base.usage_bins if one.claim != "web" or one.start_at_ns >= END_NS]
    spent_ns = sum(one.usage_ns for one in (*mine, *later) if one.claim == "web")
    ran = tuple(replace(row, run_ns=spent_ns // 2) if row.claim == "web" else row for row in base.cpu_use)
    return replace(base, ended_use=(use,), usage_bins=(*mine, *later), cpu_use=ran)


def verdict(found: Evidence, rule: str = "quota-throttling", subject: str = "web", **before: object) -> Verdict:
    """Judge: the present life of ``web`` was promised 50 of 100 ms. :param before: what the life before was."""
    now, then = claim_web(), claim_web(cgroup=OLD, **before)
    return _of(rule, subject, claim_set(claim_db(), then), found, now)


def _of(rule: str, subject: str, before: ClaimSet, found: Evidence, now: Claim) -> Verdict:
    """Judge by one rule. :param now: what begins when the life before has ended."""
    changes = (ClaimChange(at_ns=END_NS + SECOND, claim=now),)
    verdicts = judge(before, replace(found, claim_changes=changes))
    (one,) = [one for one in verdicts if (one.rule, one.subject) == (rule, subject)]
    return one


def test_a_life_that_kept_its_quota_is_counted() -> None:
    """By its counters until their last reading, and by the ledger until its end: both lives and the node are passed."""
    found = seen(old(1_450.0, tail_ms=480.0))

    assert verdict(found).outcome is Outcome.PASSED, verdict(found).reason
    assert verdict(found).reason.endswith("; 1 life before kept it")
    assert verdict(found).measures["skipped_lives_count"] == 0
    assert verdict(found, "evidence-health", "node").outcome is Outcome.PASSED
    assert verdict(found, "evidence-health", "node").measures["ended_lives_count"] == 1


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (old(2_600.0, nr_throttled=0, throttled_ns=0), "allows at most"),
        (old(500.0, tail_ms=900.0, nr_throttled=2), "ms more than its rate"),
        (old(0.0, tail_ms=3_800.0, **UNREAD), "allows at most"),
        (old(400.0), "periods after"),
        (old(1_450.0, quota_us=80_000), "the cgroup has 80 ms"),
    ],
    ids=["by its counters", "after its last reading", "never read", "throttled too early", "another quota"],
)
def test_what_a_life_broke_is_failed_whatever_came_after(own: BandwidthUse, why: str) -> None:
    """Nothing escapes by ending: too much, too little, and a quota that was not promised."""
    found = verdict(seen(own))

    assert found.outcome is Outcome.FAILED
    assert found.reason.startswith(f"in its life until 4.0 s, in {OLD}: ")
    assert why in found.reason


def test_a_life_of_which_too_little_was_read_is_skipped() -> None:
    """It was read once and used more than its rate allows, but no more than periods may hold: nothing can tell now."""
    unread = old(0.0, tail_ms=2_050.0, **UNREAD)
    found = verdict(seen(unread))

    assert found.outcome is Outcome.PASSED
    assert found.reason.endswith("; 1 life before ended unjudged")
    assert found.measures["skipped_lives_count"] == 1
    assert verdict(seen(unread), "evidence-health", "node").outcome is Outcome.PASSED
    assert verdict(seen(old(0.0, tail_ms=1_900.0, **UNREAD))).measures["skipped_lives_count"] == 0


def test_each_life_has_a_promise_of_its_own() -> None:
    """A pod that was edited has another quota since its restart: that is no doubt, and each is held to its own."""
    great = verdict(seen(old(2_900.0, quota_us=100_000)), quota_us=100_000)
    assert great.outcome is Outcome.PASSED, great.reason
    small = verdict(seen(old(1_450.0, quota_us=20_000)), quota_us=20_000)
    assert small.outcome is Outcome.FAILED
    assert small.reason.startswith("in its life until 4.0 s")


def _free(own: BandwidthUse, **before: object) -> Verdict:
    then = claim_db(cgroup="/kubepods/poda/old", **before)
    found = seen(own, bandwidth("db", "/kubepods/poda", 1), bandwidth("db", "/kubepods", 2))
    return _of("quota-free", "db", claim_set(then, claim_web()), found, claim_db())


def test_an_owner_of_cpus_that_was_throttled_before_it_restarted_is_failed() -> None:
    """It was promised none, and its counters say so; where they were not read twice, that life is skipped."""
    own = replace(bandwidth("db", "/kubepods/poda/old", 0), window_ns=READ_NS)
    throttled = _free(replace(own, nr_throttled=3, throttled_ns=5 * MS))

    assert _free(own).outcome is Outcome.PASSED
    assert throttled.outcome is Outcome.FAILED
    assert throttled.reason.startswith("in its life until 4.0 s, in /kubepods/poda/old: throttled at")
    skipped = _free(replace(own, **UNREAD))  # type: ignore[arg-type]
    assert (skipped.outcome, skipped.measures["skipped_lives_count"]) == (Outcome.PASSED, 1)
