"""The rule ``quota-throttling``: wrong quotas fail, busy hosts are undecided, healthy ones pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    claim_set,
    claim_web,
    evidence,
    files,
    use,
    web_bandwidth,
)
from tests.unit.validators.quota_builder import FREE, MS, POD, ROOT, levels, used, web
from toolkit.model.evidence import Transition, UsageBin
from toolkit.model.verdict import Outcome
from validators.rules import quota_throttling


def test_throttled_at_its_quota() -> None:
    """Half a CPU used at half a CPU's quota, throttled in every period: passed, with the numbers of the sentence."""
    verdict = web(levels(web_bandwidth()))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.reason == "throttled to 0.500 CPUs (quota 50 ms / 100 ms; measured 0.4996)"
    assert verdict.measures["usage_cpus"] == pytest.approx(0.4996)


@pytest.mark.parametrize(
    ("ms", "outcome"),
    # n=2, s=5, t=4 ms: above 101*50+26 = 5076 ms, below 100*50-26 = 4974 ms, throttled floor 99*50-26 = 4924 ms.
    [(5076, "passed"), (5077, "failed"), (4974, "passed"), (4973, "undecided"), (4924, "undecided"), (4923, "failed")],
)
def test_the_bounds_are_where_they_are_derived(ms: int, outcome: str) -> None:
    """Usage on a bound passes, one millisecond beyond it does not."""
    assert web(levels(used(ms), FREE)).outcome.value == outcome


@pytest.mark.parametrize(
    ("own", "what"),
    [
        ({"ms": 10_000, "nr_periods": 100, "nr_throttled": 100}, "twice"),
        ({"ms": 2_500, "nr_periods": 100, "nr_throttled": 100}, "half"),
        ({"ms": 20_000, "nr_periods": 0, "nr_throttled": 0}, "none"),
        ({"ms": 5_000, "nr_periods": 200, "nr_throttled": 200}, "same rate, half the period"),
        ({"ms": 5_000, "nr_periods": 50, "nr_throttled": 50}, "same rate, twice the period"),
        ({"ms": 5_000, "nr_periods": 1000, "nr_throttled": 1000}, "same rate, a tenth of the period"),
    ],
)
@pytest.mark.parametrize("demand", [2.0, None])
def test_a_wrong_quota_fails_by_behaviour(own: dict[str, int], what: str, demand: float | None) -> None:
    """The negative control: twice, half, none, other periods come out failed though the file says what was promised."""
    values = dict(own)
    found = levels(used(values.pop("ms"), throttled_ns=0, **values), FREE)
    found = replace(found, environment=replace(found.environment, throttle_model="task"))
    claim: dict[str, Any] = {"demand_cpus": demand}

    assert web(found, **claim).outcome is Outcome.FAILED, what


@pytest.mark.parametrize(
    ("used_ms", "throttled", "demand", "outcome"),
    [
        (3_500, 100, 2.0, Outcome.FAILED),
        (4_000, 60, 0.45, Outcome.UNDECIDED),
        (5_000, 100, 2.0, Outcome.PASSED),
    ],
)
def test_slices_that_expire_unused_throttle_below_the_quota(
    used_ms: int, throttled: int, demand: float, outcome: Outcome
) -> None:
    """F58: the file has the quota of 0.5 CPUs, periods were throttled, and less was used than the load wanted.

    One that wants less than its quota may have wanted more for the time of a period.
    """
    own = used(used_ms, nr_periods=100, nr_throttled=throttled)

    assert web(levels(own, FREE), demand_cpus=demand).outcome is outcome


@pytest.mark.parametrize(("quota", "period"), [(100_000, 100_000), (25_000, 100_000), (-1, 100_000), (25_000, 50_000)])
def test_a_wrong_quota_fails_by_the_file(quota: int, period: int) -> None:
    """Another bandwidth in the file fails even if the load never reached it."""
    own = used(10, nr_periods=3, nr_throttled=0, quota_us=quota, period_us=period)

    assert web(levels(own), demand_cpus=None).outcome is Outcome.FAILED


def test_a_busy_host_is_undecided() -> None:
    """The load wants two CPUs, got a third of one and was hardly throttled: the host, not the quota."""
    found = levels(used(3_300, nr_throttled=20), FREE, run_delay_ns={"web": 12 * SECOND}, steal_ns=0)
    verdict = web(found)

    assert verdict.outcome is Outcome.UNDECIDED
    assert "waited 12 s" in verdict.reason


def test_a_pod_whose_quota_others_used_up_is_named() -> None:
    """The pod has enough for one container and not for all: the host was not busy, and is not blamed."""
    verdict = web(levels(used(3_300, nr_throttled=20), replace(POD, nr_throttled=100)))

    assert verdict.outcome is Outcome.UNDECIDED
    assert "/kubepods/podb was throttled in 100, so the claim's own quota was not tested" in verdict.reason


def test_usage_at_the_quota_without_throttling_is_undecided() -> None:
    """Contention may hold a load just at its quota; without throttled periods the quota did not show itself."""
    assert web(levels(used(5_000, nr_throttled=3), FREE)).outcome is Outcome.UNDECIDED


def test_the_pod_may_be_the_one_that_throttles() -> None:
    """A pod of one container has the container's own bandwidth: either level may do the throttling."""
    own = used(5_000, nr_throttled=30)

    assert web(levels(own, replace(POD, nr_throttled=70))).outcome is Outcome.PASSED


@pytest.mark.parametrize(("window_s", "outcome"), [(3, "passed"), (0.2, "passed"), (0.1, "undecided")])
def test_a_short_window_cannot_tell(window_s: float, outcome: str) -> None:
    """Where half or twice the quota would fit between the bounds, nothing can be said."""
    periods = int(window_s * 10)
    own = used(500 * window_s, window_ns=int(window_s * SECOND), nr_periods=periods, nr_throttled=periods)

    above = [replace(row, window_ns=own.window_ns, usage_ns=own.usage_ns) for row in (FREE, ROOT)]
    assert web(levels(own, *above, duration_ns=own.window_ns)).outcome.value == outcome


def test_steal_widens_the_floor() -> None:
    """A stopped virtual machine makes the timer count periods in which nothing ran: no wrong alarm."""
    own = used(4_000, nr_throttled=100)

    assert web(levels(own, FREE)).outcome is Outcome.FAILED
    assert web(levels(own, FREE, steal_ns=2 * SECOND)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(("throttled", "outcome"), [(0, "passed"), (2, "passed"), (3, "undecided"), (100, "failed")])
def test_a_load_below_its_quota(throttled: int, outcome: str) -> None:
    """One thread under a quota of 1.5 CPUs uses one and is not held back; throttled all the time, the quota is less."""
    own = used(9_990, quota_us=150_000, nr_throttled=throttled)

    assert web(levels(own, FREE), quota_us=150_000, demand_cpus=1.0).outcome.value == outcome


@pytest.mark.parametrize(
    ("ms", "throttled", "outcome"),
    [
        (700, 0, "passed"),  # idle
        (4_990, 100, "passed"),  # at its quota in each period
        (4_700, 100, "undecided"),  # a sleeper may have returned slices
        (3_000, 100, "failed"),  # more than sleepers can lose
    ],
)
def test_unknown_loads(ms: int, throttled: int, outcome: str) -> None:
    """A load that is not described is judged by its throttled periods only."""
    assert web(levels(used(ms, nr_throttled=throttled), FREE), demand_cpus=None).outcome.value == outcome


@pytest.mark.parametrize(
    ("model", "outcome"), [("runqueue", "failed"), ("task", "undecided"), ("unknown", "undecided")]
)
def test_long_kernel_sections_since_6_18(model: str, outcome: str) -> None:
    """An unknown load may overshoot by a kernel section where tasks are throttled on return to user mode."""
    found = levels(used(5_150), FREE)
    found = replace(found, environment=replace(found.environment, throttle_model=model))

    assert web(found, demand_cpus=None).outcome.value == outcome
    assert web(found).outcome is Outcome.FAILED  # A user-mode load cannot.


def test_as_long_as_it_was_in_the_kernel() -> None:
    """One system call may be longer than a period on each CPU; work in user mode cannot be what ran on."""
    for ms, outcome in ((300, "failed"), (350, "undecided")):
        found = levels(used(5_400, system_ns=ms * MS), FREE)
        assert (web(found, demand_cpus=None).outcome.value, web(found).outcome.value) == (outcome, "failed")


def test_an_ancestor_with_less_fails() -> None:
    """A pod with a quarter of a CPU that throttled its half-CPU container broke the container's promise."""
    pod = replace(POD, quota_us=25_000, usage_ns=2_500 * MS, nr_throttled=100)

    verdict = web(levels(used(2_500, nr_throttled=0), pod))

    assert verdict.outcome is Outcome.FAILED
    assert "/kubepods/podb allows only 0.25" in verdict.reason


@pytest.mark.parametrize("demand", [2.0, None])
@pytest.mark.parametrize(
    ("quotas", "throttled", "outcome"),
    [
        ((-1, 20_000, -1), 30, "failed"),
        ((100_000, 20_000, 100_000), 30, "undecided"),
        ((-1, 20_000, -1), 0, "passed"),
        ((-1, 60_000, -1), 30, "passed"),
        ((30_000, 20_000, 30_000), 30, "failed"),
    ],
    ids=["given and removed", "lowered and restored", "never met", "enough all the time", "too little all the time"],
)
def test_an_ancestor_with_less_for_a_time(
    demand: float | None, quotas: tuple[int, int, int], throttled: int, outcome: str
) -> None:
    """It held the container back while it had less than the container was promised: the file says it, and its counter.

    Where the load is known to be greater than the quota, what it got says at least that something was wrong.
    """
    pod = replace(POD, quota_us=quotas[0], usage_ns=3_000 * MS, nr_throttled=throttled)
    own = used(3_000, nr_periods=90, nr_throttled=0)
    first, *later = [
        files("/kubepods/podb", quota_us=quota_us, period_us=100_000, at_ns=at_s * SECOND)
        for at_s, quota_us in zip((0, 2, 8), quotas, strict=True)
    ]
    found = levels(own, pod, files_before=(first,), files_during=tuple(later), files_after=(later[-1],))

    expected = "undecided" if outcome == "passed" and demand else outcome
    assert web(found, demand_cpus=demand).outcome.value == expected


def test_an_ancestor_that_exceeds_its_own_quota_fails() -> None:
    """Every level with a quota must keep it."""
    pod = replace(POD, quota_us=60_000, usage_ns=9 * SECOND)

    assert web(levels(web_bandwidth(), pod)).outcome is Outcome.FAILED


@pytest.mark.parametrize("missing", [1, 2])
def test_missing_ancestors_are_undecided(missing: int) -> None:
    """A level that was not read cannot be vouched for."""
    found = levels(web_bandwidth())
    found = replace(found, bandwidth=tuple(row for row in found.bandwidth if row.level != missing))

    assert web(found).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    "changes", [{"usage_ns": None}, {"nr_periods": None}, {"nr_throttled": None}, {"quota_us": None}, {"window_ns": 0}]
)
def test_missing_counters_are_undecided(changes: dict[str, Any]) -> None:
    """A counter or a file that does not exist proves nothing."""
    assert web(levels(web_bandwidth(**changes))).outcome is Outcome.UNDECIDED


def test_sched_ext_is_undecided() -> None:
    """Tasks of a BPF scheduler are outside CFS bandwidth."""
    found = levels(web_bandwidth())
    found = replace(found, environment=replace(found.environment, sched_ext="enabled"))

    assert web(found).outcome is Outcome.UNDECIDED


def bins(*usage_ms: int) -> tuple[UsageBin, ...]:
    return tuple(
        UsageBin(claim="web", start_at_ns=index * 100 * MS, length_ns=100 * MS, usage_ns=usage * MS)
        for index, usage in enumerate(usage_ms)
    )


def test_a_burst_within_the_window_fails() -> None:
    """A second at two CPUs between idle stretches shows in the bins though the window's sum is within the bound."""
    calm = levels(used(4_990), FREE, usage_bins=bins(*[50] * 100))
    wild = levels(used(4_990), FREE, usage_bins=bins(*[33] * 45, *[200] * 10, *[33] * 45))

    assert web(calm).outcome is Outcome.PASSED
    assert web(wild).outcome is Outcome.FAILED


def test_a_rounded_quota_is_judged_as_rounded() -> None:
    """Where systemd wrote 13000 for 12500, usage is judged by 13000, and both are told; any other's is wrong."""
    scope = "/kubepods/podb/web.scope"
    own = used(1_295, quota_us=13_000, cgroup=scope)
    verdict = web(levels(own, FREE), quota_us=12_500, cgroup=scope)

    assert web(levels(replace(own, cgroup="/kubepods/podb/web"), FREE), quota_us=12_500).outcome is Outcome.FAILED
    assert verdict.outcome is Outcome.PASSED
    assert (verdict.measures["quota_us"], verdict.measures["quota_promised_us"]) == (13_000, 12_500)


def test_no_quota_promised_is_skipped() -> None:
    """Only claims with a quota are judged."""
    assert web(levels(web_bandwidth()), quota_us=-1).outcome is Outcome.SKIPPED
    assert web(levels(web_bandwidth()), quota_us=None).outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("what", "run_ms", "outcome"),
    [("cgroup-gone", 500, "passed"), ("cgroup-gone", 501, "undecided"), ("cpus", 1, "undecided")],
)
def test_a_life_that_ended_before_its_counters_were_read_again(what: str, run_ms: int, outcome: str) -> None:
    """The ledger has its time: what ten periods allow (500 ms) does not exceed it. One that goes on was not read."""
    unread = web_bandwidth(window_ns=0, usage_ns=0, bpf_usage_ns=0, nr_periods=0, nr_throttled=0, throttled_ns=0)
    change = Transition(claim="web", what=what, start_at_ns=SECOND, end_at_ns=SECOND)
    found = evidence(bandwidth=(unread,), cpu_use=(use("web", 0, run_ns=run_ms * MS),), transitions=(change,))

    assert quota_throttling.RULE(claim_set(claim_web()), found)[0].outcome == outcome
