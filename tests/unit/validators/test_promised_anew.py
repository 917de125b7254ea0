"""What a control file may hold, and what counters say, in a window in which something is promised anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, cpus
from tests.unit.validators.trust_builder import CLAIMS, healthy
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators.queries import in_time
from validators.registry import judge

WEB = replace(CLAIMS.claims[1], shares=1024)
PROMISED = replace(CLAIMS, claims=(CLAIMS.claims[0], WEB))


def resized(at_s: float, **now: Any) -> tuple[ClaimChange, ...]:
    """From then on web promises this."""
    return (ClaimChange(at_ns=round(at_s * SECOND), claim=replace(WEB, **now)),)


def seen(before: dict[str, Any], after: dict[str, Any], changes: tuple[ClaimChange, ...], **more: Any) -> Evidence:
    """Evidence in which web's files held one thing when the window opened and another when it closed."""
    base = healthy()
    first, last = (replace(base.files_before[1], **{"weight": 39, **values}) for values in (before, after))
    ends = {"files_before": (base.files_before[0], first), "files_after": (base.files_after[0], last)}
    return replace(base, claim_changes=changes, **{**ends, **more})


def verdict(rule: str, evidence: Evidence) -> Verdict:
    (found,) = (one for one in judge(PROMISED, evidence) if (one.rule, one.subject) == (rule, "web"))
    return found


def test_a_change_of_the_pool_excuses_no_weight() -> None:
    """The weight was wrong before the pool shrank; only the CPU set was promised anew."""
    found = verdict("applied", seen({"weight": 1}, {}, resized(9, cpus=cpus("0"))))

    assert found.outcome is Outcome.FAILED
    assert found.reason.startswith("before the window the weight was 1, promised 1024 shares")


@pytest.mark.parametrize(("quota_us", "outcome"), [(50_000, "passed"), (60_000, "passed"), (70_000, "failed")])
def test_before_a_resize_the_old_value_is_right_or_the_new_one(quota_us: int, outcome: str) -> None:
    """From 50 to 60 ms; the file may have been written before that was known here."""
    changes = resized(5, quota_us=60_000)

    assert verdict("applied", seen({"quota_us": quota_us}, {"quota_us": 60_000}, changes)).outcome == outcome


def test_after_a_resize_the_old_value_is_wrong() -> None:
    """At the end of the window, 5 s after it."""
    assert verdict("applied", seen({}, {"quota_us": 50_000}, resized(5, quota_us=60_000))).outcome is Outcome.FAILED


@pytest.mark.parametrize("now", [60_000, None, -1])
def test_counters_of_two_quotas_decide_nothing(now: int | None) -> None:
    """Usage and throttled periods are sums over the window; a promise that is taken back late is no excuse."""
    evidence = seen({}, {}, resized(9.9, quota_us=now))

    assert [verdict(rule, evidence).outcome for rule in ("quota-throttling", "quota-free")] == ["undecided"] * 2


@pytest.mark.parametrize(
    ("at_s", "good"), [(4, "old new"), (5, "old new"), (6.999, "old new"), (7, "new"), (20, "new")]
)
def test_how_long_a_file_may_hold_the_old_value(at_s: float, good: str) -> None:
    """Until 2 s after the new promise was read, and the new one from 15 s before that on."""
    old, new = ClaimChange(at_ns=0, claim=WEB), *resized(5, quota_us=60_000)
    names = {WEB: "old", new.claim: "new"}

    assert [names[one] for one in in_time.promised_at(round(at_s * SECOND), (old, new))] == good.split()


def test_a_new_value_is_right_from_the_longest_gap_before_it_was_read() -> None:
    """A node may go unread for 15 s."""
    old, new = ClaimChange(at_ns=0, claim=WEB), *resized(20, quota_us=60_000)

    assert in_time.promised_at(5 * SECOND - 1, (old, new)) == (WEB,)
    assert in_time.promised_at(5 * SECOND, (old, new)) == (WEB, new.claim)
