"""What a control file may hold, and what counters say, in a window in which something is promised anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, cpus
from tests.unit.validators.trust_builder import CLAIMS, healthy
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.evidence.following import Following
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


TOLD = Following(source="docker", readings=5)


def moved(start_s: float, before: str, after: str) -> Transition:
    """The set was promised anew, which took no time."""
    at_ns = round(start_s * SECOND)
    sets = {"cpus_before": cpus(before), "cpus_after": cpus(after)}
    return Transition(claim="web", what="mask-change", start_at_ns=at_ns, end_at_ns=at_ns, cause="docker", **sets)


@pytest.mark.parametrize(
    ("held", "outcome"), [("2-3", Outcome.PASSED), ("0-1", Outcome.PASSED), ("0-3", Outcome.FAILED)]
)
def test_a_set_that_a_tool_changes_is_written_before_that_is_known(held: str, outcome: Outcome) -> None:
    """docker update from 0-1 to 2-3, known here at 5 s; the file was read at 4 s, and holds the new set at the end."""
    then, now = (
        replace(healthy().files_after[1], cpus=cpus(text), cpus_effective=cpus(text)) for text in (held, "2-3")
    )
    before = replace(now, cpus=cpus("0-1"), cpus_effective=cpus("0-1"))
    base = seen({}, {}, resized(5, cpus=cpus("2-3")), transitions=(moved(5, "0-1", "2-3"),))
    evidence = replace(
        base,
        files_before=(base.files_before[0], replace(before, weight=39)),
        files_during=(replace(then, weight=39, at_ns=4 * SECOND),),
        files_after=(base.files_after[0], replace(now, weight=39)),
    )

    assert verdict("applied", replace(evidence, following=TOLD)).outcome is outcome
    assert verdict("applied", evidence).outcome is Outcome.FAILED or held == "0-1", "what changed it had it in hand"


@pytest.mark.parametrize(
    ("at_end", "outcome"), [({"quota_us": 60_000}, "passed"), ({"quota_us": 70_000}, "failed"), ({}, "passed")]
)
def test_what_is_known_a_moment_after_the_window_was_written_in_it(at_end: dict[str, Any], outcome: str) -> None:
    """A quota of 60 ms, read 1 s after the window."""
    base = seen({}, at_end, ())
    (change,) = resized(base.duration_ns / SECOND + 1, quota_us=60_000)

    assert verdict("applied", replace(base, following=TOLD, claim_changes=(change,))).outcome == outcome
    assert verdict("applied", base).outcome == ("passed" if not at_end else "failed")


def test_a_quota_that_is_known_a_moment_after_the_window_leaves_its_counters_undecided() -> None:
    """It was written within the window, and the counters are of two quotas."""
    base = seen({}, {"quota_us": 60_000}, ())
    (change,) = resized(base.duration_ns / SECOND + 1, quota_us=60_000)

    for rule in ("quota-throttling", "quota-free"):
        assert verdict(rule, replace(base, following=TOLD, claim_changes=(change,))).outcome is Outcome.UNDECIDED
