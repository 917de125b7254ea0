"""The arithmetic of CFS bandwidth, against a small simulation of the kernel's pool."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.model.evidence import UsageBin
from validators.quota.bandwidth import (
    Conditions,
    Limit,
    burst_ns,
    demanded_ns,
    most_periods,
    same_limit,
    throttled_floor_ns,
    upper_ns,
)

MS = 1_000_000
HALF = Limit(quota_us=50_000, period_us=100_000)


def conditions(window_ms: int, cpus: int = 1, steal_ms: int = 0) -> Conditions:
    return Conditions(window_ns=window_ms * MS, cpus=cpus, tick_ns=4 * MS, slice_ns=5 * MS, stopped_ns=steal_ms * MS)


def test_upper_bound_by_hand() -> None:
    """10 s at 50/100 on one CPU: 101 quotas by the period count, a slice and two ticks."""
    assert upper_ns(HALF, conditions(10_000), 100) == (101 * 50 + 5 + 8) * MS
    assert upper_ns(HALF, conditions(10_000), None) == (101 * 50 + 5 + 8) * MS
    assert upper_ns(HALF, conditions(10_060, cpus=2), None) == (100 * 50 + 100 + 26) * MS
    assert upper_ns(HALF, conditions(10_000), 0) == (50 + 5 + 8) * MS


def test_the_smaller_of_both_bounds_holds() -> None:
    """Counted periods, or the window's: at a tie they are one number, and one period less is a quota less."""
    window = conditions(10_030, cpus=3)
    by_window = upper_ns(HALF, window, None)

    assert [by_window - upper_ns(HALF, window, count) for count in (102, 101, 100, 99)] == [0, 0, 40 * MS, 90 * MS]


def test_each_life_has_a_pool_of_its_own() -> None:
    """What groups made anew may use more, may have been throttled less, and whose timers may fire once more each."""
    one, three = conditions(10_000), replace(conditions(10_000), lives=3)

    assert upper_ns(HALF, three, 100) - upper_ns(HALF, one, 100) == 2 * (100 + 13) * MS
    assert demanded_ns(HALF, one) - demanded_ns(HALF, three) == (4 * 50 + 2 * 13) * MS
    floors = [throttled_floor_ns(HALF, many, 90, sleeps=False) for many in (one, three)]
    assert floors[0] - floors[1] == (2 * 50 + 2 * 13) * MS
    assert most_periods(HALF, three) - most_periods(HALF, one) == 4


def test_time_without_use_is_no_credit_for_a_burst() -> None:
    """A pool does not save up: after seconds of rest a burst is as much as after none."""
    quiet = [UsageBin(claim="a", start_at_ns=at * 100 * MS, length_ns=100 * MS, usage_ns=0) for at in range(50)]
    busy = [
        UsageBin(claim="a", start_at_ns=at * 100 * MS, length_ns=100 * MS, usage_ns=100 * MS) for at in range(50, 60)
    ]

    assert burst_ns(HALF, [*quiet, *busy]) == burst_ns(HALF, busy) == (500 * MS, 5_000 * MS)


def test_burst_adds_once() -> None:
    """The burst buffer holds at most B, whatever the window."""
    limit = Limit(quota_us=50_000, period_us=100_000, burst_us=20_000)

    assert upper_ns(limit, conditions(10_000), 100) - upper_ns(HALF, conditions(10_000), 100) == 20 * MS


def test_lower_bounds_by_hand() -> None:
    """Known demand: whole periods less the edges; throttled periods: one less, and steal counts whole periods."""
    assert demanded_ns(HALF, conditions(10_050)) == (100 * 50 - 13) * MS
    assert throttled_floor_ns(HALF, conditions(10_000), 100, sleeps=False) == (99 * 50 - 13) * MS
    assert throttled_floor_ns(HALF, conditions(10_000, steal_ms=150), 100, sleeps=False) == (97 * 50 - 13) * MS
    assert throttled_floor_ns(HALF, conditions(10_000), 100, sleeps=True) == (99 * 45 - 13 - 100) * MS


def test_most_periods() -> None:
    """A hundred periods may show as 107 at most, never as 200."""
    assert 106 < most_periods(HALF, conditions(10_000)) < 108


def test_systemd_rounding() -> None:
    """docs/failures.md F61: a quota that systemd wrote may be rounded, and no other."""
    assert same_limit(12_500, 100_000, 13_000, 100_000, by_systemd=True)
    assert not same_limit(12_500, 100_000, 13_000, 100_000, by_systemd=False)
    assert same_limit(12_500, 100_000, 12_500, 100_000, by_systemd=False)
    assert not same_limit(12_500, 100_000, 13_000, 50_000, by_systemd=True)
    assert not same_limit(-1, 100_000, 50_000, 100_000, by_systemd=True)
    assert same_limit(-1, 100_000, -1, 250_000, by_systemd=False)


def test_burst_is_found_in_the_middle() -> None:
    """Two seconds at full speed between stretches at the rate are an excess of one second, from where they begin."""
    usage = [50] * 30 + [100] * 20 + [50] * 30
    bins = [
        UsageBin(claim="c", start_at_ns=i * 100 * MS, length_ns=100 * MS, usage_ns=u * MS) for i, u in enumerate(usage)
    ]

    assert burst_ns(HALF, reversed(bins)) == (1000.0 * MS, 3000 * MS)


@st.composite
def simulated(draw: st.DrawFn) -> tuple[Limit, Conditions, int, int, int]:
    """One throttled group with always-busy tasks: usage, periods and throttled periods of a window.

    A pool that is refilled each period; every CPU takes slices from it and overruns up to one tick before it notices
    that nothing is left; the debt is paid from its next slices. Time goes in steps of a millisecond.
    """
    period_ms = draw(st.sampled_from([10, 50, 100, 250]))
    cpus = draw(st.integers(1, 4))
    quota_ms = draw(st.integers(1, max(1, period_ms * cpus - 1)))
    tick_ms, slice_ms = draw(st.sampled_from([1, 4, 10])), 5
    begin = draw(st.integers(0, 3 * period_ms))
    length = draw(st.integers(period_ms, 25 * period_ms))
    pool, local, stopped = quota_ms, [0] * cpus, [False] * cpus
    usage = periods = throttled = 0
    for now in range(begin + length):
        counted = now >= begin
        if now % period_ms == 0 and now:
            periods += counted
            throttled += counted and any(stopped)
            pool = quota_ms
            for cpu in range(cpus):
                if stopped[cpu]:
                    given = min(pool, 1 - local[cpu])
                    pool -= given
                    local[cpu] += given
                    stopped[cpu] = local[cpu] <= 0
        for cpu in range(cpus):
            if stopped[cpu]:
                continue
            if local[cpu] <= 0:
                given = min(pool, slice_ms - local[cpu])
                pool -= given
                local[cpu] += given
            local[cpu] -= 1
            usage += counted
            if local[cpu] <= 0 and pool == 0 and (now + 1) % tick_ms == 0:
                stopped[cpu] = True
    return (
        Limit(quota_us=quota_ms * 1000, period_us=period_ms * 1000),
        Conditions(window_ns=length * MS, cpus=cpus, tick_ns=tick_ms * MS, slice_ns=slice_ms * MS),
        usage * MS,
        periods,
        throttled,
    )


@settings(deadline=None, max_examples=60)
@given(simulated())
def test_a_correct_kernel_keeps_the_bounds(case: tuple[Limit, Conditions, int, int, int]) -> None:
    """Whatever quota, period, CPUs, tick and phase: a pool that is honoured never breaks a bound (no wrong alarm)."""
    limit, where, usage, periods, throttled = case

    assert usage <= upper_ns(limit, where, periods)
    assert usage <= upper_ns(limit, where, None)
    assert usage >= throttled_floor_ns(limit, where, throttled, sleeps=False)
    assert periods <= most_periods(limit, where)


@settings(deadline=None, max_examples=60)
@given(simulated())
def test_always_busy_tasks_reach_the_demand(case: tuple[Limit, Conditions, int, int, int]) -> None:
    """Tasks that always want to run use whole quotas, less what is in hand at the edges."""
    limit, where, usage, _, throttled = case
    if throttled * limit.period_us * 1000 + 2 * limit.period_us * 1000 >= where.window_ns:
        assert usage >= demanded_ns(limit, where)
