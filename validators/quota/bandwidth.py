"""How much CPU time a CFS quota allows in a window, and how much a throttled group must have had. Pure arithmetic.

Let Q be the quota, P the period, B the burst, W the window, n the CPUs that the group runs on, s the slice
(``sched_cfs_bandwidth_slice_us``), t the timer tick.

Above. The pool holds at most Q + B when the window opens, and every period timer that fires (``nr_periods``) adds Q:
``Q * (nr_periods + 1) + B``. Without trust in that counter: W = k*P + r touches whole periods and two partial ones,
each good for Q at most and for what n CPUs can burn in r: ``k*Q + min(2Q, max(Q, r*n)) + B``. The smaller one holds.
Real-time, deadline and sched_ext tasks are in neither: they draw nothing from the pool and start no timer, but their
time counts as usage. Where a group has some, only the second bound is one, and what was drawn from the pool is unknown.
To it come ``n*s`` (a CPU may hold a slice drawn before the window: local runtime does not expire), ``n*t`` (an overrun
is noticed at the next tick and repaid in a later period, after the window), and ``n*t`` (the usage counter may lag one
tick on each CPU when the window opens).

Below. A group counts as throttled in a period (``nr_throttled``) only when the pool was empty, so Q was charged in it:
the first such period may have begun before the window, so ``Q * (nr_throttled - 1)``, less ``n*s`` (slices drawn but
not yet used at the end), ``n*t`` (debt carried in) and ``n*t`` (lag at the end). This holds on a busy host: what others
do makes ``nr_throttled`` smaller, never usage per throttled period. It assumes user-mode tasks that do not sleep; a
sleeper returns its slices (all but 1 ms), and what comes back late in the period is lost at the refill, up to ``n*s`` a
period; and a load with long kernel sections may carry ``n*P`` of debt in. A timer that is late by several periods
counts each of them as throttled: time for which a CPU stood still (a stopped virtual machine) is allowed for.

Under a demand that is known to exceed the quota, the usage must reach k*Q less the same ``n*s + 2*n*t``. Steal does not
lower that: time that the hypervisor took makes a verdict undecided, not easier to pass.

A CPU that stands still takes no tick: a task there overruns by as long as it stands, unless the hypervisor reports
it to the guest in time (KVM: how long the virtual CPU's thread waited for a CPU, not what it slept for, such as a page
of its memory). The overrun is repaid in later periods, by which time the window may be over. The sampler's timer is
late by as much, so how long the group ran on CPUs that stood still is measured (``CpuUse.standstill_ns``): usage above
the bound by no more than that is not proof of a violation.

Since 6.18 a task is throttled on its return to user mode; a long kernel section runs on and is repaid later. Where the
load is not known to be user-mode work, usage above the bound by up to n*P, or by the time that the group was in the
kernel (one read(2) of 64 MB of random bytes is 200 ms), is therefore not proof of a violation.

Source: Documentation/scheduler/sched-bwc.rst; kernel/sched/fair.c (do_sched_cfs_period_timer, assign_cfs_rq_runtime,
return_cfs_rq_runtime); arch/x86/kvm/x86.c (record_steal_time); docs/facts.md K18-K24.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.model.cpu_units import systemd_quota
from toolkit.model.evidence import UsageBin
from validators.wording import plural

NS_PER_US = 1_000
DEFAULT_SLICE_US = 5_000
PERIODS_SLACK = 2
"""A period timer may fire just inside each edge of the window."""
PERIODS_SLACK_RATIO = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bandwidth, in the units of the control files."""

    quota_us: int
    period_us: int
    burst_us: int = 0

    @property
    def rate_cpus(self) -> float:
        """CPUs' worth of time that it allows in the long run."""
        return self.quota_us / self.period_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What widens the bounds: ``cpus`` the group runs on, tick, slice, and the window.

    :param stopped_ns: how long the period timer's CPU may have stood still.
    :param overrun_ns: how long the group ran on CPUs that stood still.
    :param lives: how many groups of this name there were one after the other: each began with a full pool, and ended
        within a period.
    """

    window_ns: int
    cpus: int
    tick_ns: int
    slice_ns: int = DEFAULT_SLICE_US * NS_PER_US
    stopped_ns: int = 0
    overrun_ns: int = 0
    lives: int = 1

    @property
    def edges_ns(self) -> int:
        """Slices in hand and ticks not yet accounted, on all CPUs, at both edges together."""
        return self.lives * self.cpus * (self.slice_ns + 2 * self.tick_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most CPU time that a limit allows, with the numbers that it was computed from.

    :param periods: whole periods of the window, or ``nr_periods`` where that count gives the smaller bound.
    :param counted: whether it rests on that count.
    """

    limit: Limit
    conditions: Conditions
    periods: int
    pool_ns: int
    counted: bool

    @property
    def total_ns(self) -> int:
        """The bound."""
        return self.pool_ns + self.limit.burst_us * NS_PER_US + self.conditions.edges_ns + self.lives_ns

    @property
    def lives_ns(self) -> int:
        """What groups made anew under the name may use beyond it: each begins with a pool and ends within a period."""
        more = 2 * self.limit.quota_us + self.limit.burst_us
        return (self.conditions.lives - 1) * more * NS_PER_US

    @property
    def text(self) -> str:
        """The sum, written out: every number that went in, in ms."""
        quota = f"{self.limit.quota_us / 1000:g} ms"
        window = f"{self.conditions.window_ns / 1e9:.3f} s"
        extra = self.pool_ns - self.periods * self.limit.quota_us * NS_PER_US
        if self.counted:
            pool = f"{self.periods} refills counted in {window} and 1 before, of {quota} each"
        else:
            pool = f"{self.periods} whole periods in {window} of {quota} each, {extra / 1e6:.1f} ms in parts of periods"
        burst = f", {self.limit.burst_us / 1000:g} ms of burst" if self.limit.burst_us else ""
        edges = (
            f"{plural(self.conditions.cpus, 'CPU', 'CPUs')} x ({self.conditions.slice_ns / 1e6:g} ms slice + "
            f"2 x {self.conditions.tick_ns / 1e6:g} ms tick)"
        )
        times = f" x {self.conditions.lives} cgroups of its name" if self.conditions.lives > 1 else ""
        lives = f", {self.lives_ns / 1e6:.1f} ms for those made anew" if self.conditions.lives > 1 else ""
        return f"{pool}{burst}, {edges}{times}{lives}: {self.total_ns / 1e6:.1f} ms"


def upper(limit: Limit, conditions: Conditions, nr_periods: int | None) -> Bound:
    """Return the most CPU time that the limit allows in the window.

    :param nr_periods: period timers that fired; ``None``: not to be trusted, because the group has tasks of classes
        that neither start the timer nor draw from the pool.
    """
    quota, period = limit.quota_us * NS_PER_US, limit.period_us * NS_PER_US
    whole, rest = divmod(conditions.window_ns, period)
    pool = whole * quota + min(2 * quota, max(quota, rest * conditions.cpus))
    if nr_periods is not None and quota * (nr_periods + 1) < pool:
        counted = quota * (nr_periods + 1)
        return Bound(limit=limit, conditions=conditions, periods=nr_periods, pool_ns=counted, counted=True)
    return Bound(limit=limit, conditions=conditions, periods=whole, pool_ns=pool, counted=False)


def upper_ns(limit: Limit, conditions: Conditions, nr_periods: int | None) -> int:
    """Return the most CPU time that the limit allows in the window."""
    return upper(limit, conditions, nr_periods).total_ns


def demanded_ns(limit: Limit, conditions: Conditions) -> int:
    """Return the CPU time that a load which always wants more than the limit must have had."""
    quota, period = limit.quota_us * NS_PER_US, limit.period_us * NS_PER_US
    return (conditions.window_ns // period - 2 * (conditions.lives - 1)) * quota - conditions.edges_ns


def throttled_floor_ns(limit: Limit, conditions: Conditions, nr_throttled: int, *, sleeps: bool) -> int:
    """Return the CPU time that so many throttled periods prove, if the limit is the one in force."""
    quota, period = limit.quota_us * NS_PER_US, limit.period_us * NS_PER_US
    stopped_periods = -(-conditions.stopped_ns // period)
    periods = max(0, nr_throttled - conditions.lives - stopped_periods)
    if not sleeps:
        return quota * periods - conditions.edges_ns
    charged = max(0, quota - conditions.cpus * conditions.slice_ns)
    return charged * periods - conditions.edges_ns - conditions.cpus * period


def kernel_section_ns(limit: Limit, conditions: Conditions, system_ns: int | None) -> int:
    """Return how long a group may have run on in the kernel after it was throttled: all the time that it was there by
    its cgroup's count, or one period on each CPU, whichever is more.
    """
    # Ticks that count it are samples: of a short time, or of work that begins with a tick, they may find less.
    return max(conditions.cpus * limit.period_us * NS_PER_US, system_ns or 0)


def most_periods(limit: Limit, conditions: Conditions) -> float:
    """Return the most period timers that the window can hold."""
    period = limit.period_us * NS_PER_US
    slack = PERIODS_SLACK * conditions.lives
    return conditions.window_ns / period * (1 + PERIODS_SLACK_RATIO) + slack + conditions.stopped_ns / period


def burst_ns(limit: Limit, bins: Iterable[UsageBin]) -> tuple[float, int]:
    """Return the greatest excess of usage over the long-run rate in any stretch of bins, and when that stretch begins.

    A token bucket: for every stretch, usage <= rate * length + allowance, so the greatest excess is enough to know.
    """
    worst, worst_at, excess, begins, rate_cpus = 0.0, 0, 0.0, 0, limit.rate_cpus
    for entry in sorted(bins, key=lambda entry: entry.start_at_ns):
        if excess <= 0:
            excess, begins = 0.0, entry.start_at_ns
        excess += entry.usage_ns - rate_cpus * entry.length_ns
        if excess > worst:
            worst, worst_at = excess, begins
    return worst, worst_at


def same_limit(
    claimed_quota_us: int,
    claimed_period_us: int,
    found_quota_us: int,
    found_period_us: int | None,
    *,
    by_systemd: bool,
) -> bool:
    """Return whether a bandwidth read back is the claimed one, exactly or after the one stated rounding.

    :param by_systemd: systemd wrote it, so that it may be rounded; no other writer rounds.
    """
    if claimed_quota_us < 0:
        return found_quota_us < 0
    if found_period_us is not None and found_period_us != claimed_period_us:
        return False
    if found_quota_us == claimed_quota_us:
        return True
    return by_systemd and found_quota_us == systemd_quota(claimed_quota_us, claimed_period_us)


def shown(quota_us: int | None, period_us: int | None) -> str:
    """Write a bandwidth for people: ``50 ms / 100 ms``, ``no quota``."""
    if quota_us is None:
        return "no bandwidth file"
    if quota_us < 0:
        return "no quota"
    return f"{quota_us / 1000:g} ms / {(period_us or 0) / 1000:g} ms"
