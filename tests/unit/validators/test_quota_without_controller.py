"""A cgroup without a cpu controller has no quota: what was used beyond the promise is proven by the ledger alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import WINDOW_NS, claim_db, claim_set, claim_web, db_files, web_files
from tests.unit.validators.quota_builder import levels, used, web
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome
from validators.rules import applied

WHY = "there is no such cgroup in the cpu hierarchy"
BARE = web_files(quota_us=None, period_us=None, burst_us=None, weight=None, shares=None, no_cpu_controller=WHY)


def bare(used_ms: float, why: str | None = WHY) -> Evidence:
    """``web`` used so much by the ledger; the kernel counted nothing."""
    own = replace(used(used_ms), usage_ns=None, nr_periods=None, nr_throttled=None, throttled_ns=None, quota_us=None)
    entry = replace(BARE, no_cpu_controller=why)
    return levels(own, files_before=(db_files(), entry), files_after=(db_files(), replace(entry, at_ns=WINDOW_NS)))


@pytest.mark.parametrize(("used_ms", "outcome"), [(7_600, "failed"), (4_900, "undecided")])
def test_only_the_ledger_knows(used_ms: float, outcome: str) -> None:
    """7.6 s of 10 s are more than half a CPU, whatever counts; half a CPU would have been within the promise."""
    verdict = web(bare(used_ms))

    assert verdict.outcome.value == outcome
    assert f"has no bandwidth counters: it has no cpu controller ({WHY}), so there is no quota" in verdict.reason
    assert "by the ledger" in verdict.reason


def test_applied_says_that_there_is_none() -> None:
    """Not "was not read": it is known. A promise of no quota is kept."""
    (_, verdict) = applied.check(claim_set(claim_db(), claim_web()), bare(100))
    (_, free) = applied.check(claim_set(claim_db(), claim_web(quota_us=-1)), bare(100))

    assert verdict.outcome is Outcome.FAILED
    assert f"the quota was none, promised 50 ms / 100 ms: the cgroup has no cpu controller ({WHY})" in verdict.reason
    assert free.outcome is Outcome.PASSED


def test_what_was_not_read_is_not_known() -> None:
    """A file that could not be read says nothing of a controller."""
    (_, verdict) = applied.check(claim_set(claim_db(), claim_web()), bare(100, why=None))

    assert verdict.outcome is Outcome.UNDECIDED
