"""The rule ``quota-throttling`` beside tasks that no quota holds, and the sum by which it explains its bound."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.validators.evidence_builder import mask
from tests.unit.validators.quota_builder import FREE, MS, levels, used, web
from toolkit.model.evidence import BandwidthUse
from toolkit.model.verdict import Outcome, Verdict
from validators.quota.bandwidth import Conditions, Limit, upper

RT = replace(mask("web", "0-1", pid=200, tid=200), policy="fifo", comm="audio")


def realtime(own: BandwidthUse, **changes: Any) -> Verdict:
    """``web`` with a FIFO thread, of unknown demand."""
    return web(levels(own, FREE, thread_masks=(mask("db", "2-3"), RT), **changes), demand_cpus=None)


def test_a_realtime_task_within_the_rate_breaks_nothing() -> None:
    """It starts no period timer: no refill is counted though 2 s of 5 s were used. Without it that is another quota."""
    verdict = realtime(used(2_000, nr_periods=0, nr_throttled=0))

    assert verdict.outcome is Outcome.PASSED
    assert "outside CFS bandwidth" in verdict.reason
    assert "audio (200, fifo)" in verdict.reason
    plain = levels(used(2_000, nr_periods=0, nr_throttled=0), FREE)
    assert web(plain, demand_cpus=None).outcome is Outcome.FAILED


@pytest.mark.parametrize("policy", ["fifo", "rr", "deadline", "ext"])
def test_a_realtime_task_above_the_rate_is_explained_by_the_rate(policy: str) -> None:
    """The bound that it is held against is the promised rate's, never that of the few periods that were counted."""
    thread = replace(RT, policy=policy)
    found = levels(used(8_000, nr_periods=3, nr_throttled=0), FREE, thread_masks=(thread,))
    reason = web(found, demand_cpus=None).reason

    assert "used 0.8000 CPUs (8000.0 ms), 50 ms / 100 ms allows at most 0.5076 CPUs" in reason
    assert f"audio (200, {policy})" in reason


def test_what_was_drawn_from_the_quota_beside_a_realtime_task_is_not_known() -> None:
    """Its time makes a halved quota look whole."""
    verdict = realtime(used(4_900, nr_periods=100, nr_throttled=100))

    assert verdict.outcome is Outcome.UNDECIDED
    assert "how much of it was drawn from the quota is not known" in verdict.reason


def test_other_policies_are_the_quotas_own_affair() -> None:
    """Batch and idle tasks are CFS tasks; a thread of another claim is none of this one's."""
    for other in (replace(RT, policy="batch"), replace(RT, policy="idle"), replace(RT, claim="db")):
        found = levels(used(2_000, nr_periods=0, nr_throttled=0), FREE, thread_masks=(other,))
        assert web(found, demand_cpus=None).outcome is Outcome.FAILED


@given(
    quota=st.integers(1_000, 400_000),
    period=st.sampled_from([10_000, 50_000, 100_000, 1_000_000]),
    window=st.integers(1, 20_000_000_000),
    cpus=st.integers(1, 64),
    nr_periods=st.one_of(st.none(), st.integers(0, 300)),
    burst=st.integers(0, 100_000),
)
def test_the_explanation_adds_up(
    quota: int, period: int, window: int, cpus: int, nr_periods: int | None, burst: int
) -> None:
    """The numbers that the text names, all in ms, sum up to the bound that the text names, which is the one judged."""
    limit = Limit(quota_us=quota, period_us=period, burst_us=burst)
    conditions = Conditions(window_ns=window, cpus=cpus, tick_ns=4 * MS)
    bound = upper(limit, conditions, nr_periods)
    text = bound.text

    number = r"([\d.e+]+)"
    counted = re.match(rf"{number} refills counted in .* s and 1 before, of {number} ms each", text)
    whole = re.match(rf"{number} whole periods in .* s of {number} ms each, {number} ms in parts of periods", text)
    if counted:
        pool = (int(counted[1]) + 1) * float(counted[2])
        assert int(counted[1]) == nr_periods
    else:
        assert whole
        pool = int(whole[1]) * float(whole[2]) + float(whole[3])
    bursts = re.search(rf"{number} ms of burst", text)
    edges = re.search(rf"{number} CPUs? x \({number} ms slice \+ 2 x {number} ms tick\): {number} ms$", text)
    assert edges
    total = pool + (float(bursts[1]) if bursts else 0) + int(edges[1]) * (float(edges[2]) + 2 * float(edges[3]))
    assert total == pytest.approx(float(edges[4]), abs=0.21)
    assert float(edges[4]) == pytest.approx(bound.total_ns / MS, abs=0.051)
