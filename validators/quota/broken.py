"""What proves that a quota was not the promised one: each check returns a finding, ``None`` when it proves nothing."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.cpu_units import systemd_quota
from toolkit.model.evidence import BandwidthUse, CgroupFiles
from toolkit.model.verdict import Outcome
from validators.queries import file_history, view
from validators.queries.life import STARTS
from validators.quota import bandwidth
from validators.quota.bandwidth import Conditions, Limit
from validators.quota.case import Case, Finding, conditions_of, failed, overrun_ns, undecided
from validators.wording import digits, plural

BIN_ERROR_RATIO = 0.02
"""Interrupt time that the ledger counts and the task clock does not."""
BURSTS_UNDERWAY = 2
"""``cpu.stat`` is printed without a lock: at each end of the window a burst may be in one of its two counters only."""
LOWERED_AT_ENDS = 2
"""Counters and files are read one after the other: a write between them, at either end, is in the counters alone."""


def broken(case: Case) -> Finding | None:
    """Return the first proof: the file, the period, too much, an ancestor, a burst by either count, too little."""
    checks = (
        other_limit,
        other_limit_for_a_time,
        shorter_period,
        too_much,
        ancestor_too_much,
        burst,
        burst_by_count,
        too_little,
        ancestor_too_little,
    )
    # All of them: one that is undecided must not hide a later one that proves.
    found = [finding for finding in (check(case) for check in checks) if finding is not None]
    return next((finding for finding in found if finding.outcome is Outcome.FAILED), found[0] if found else None)


def other_limit(case: Case) -> Finding | None:
    """The control file holds something else."""
    own, claim = case.own, case.claim
    promised_us, rounds = claim.quota_us or 0, view.by_systemd(case.evidence, own.cgroup)
    if own.quota_us is None or bandwidth.same_limit(
        promised_us, claim.period_us, own.quota_us, own.period_us, by_systemd=rounds
    ):
        return None
    promised = bandwidth.shown(claim.quota_us, claim.period_us)
    return failed(
        f"the cgroup has {bandwidth.shown(own.quota_us, own.period_us)}, promised was {promised}; "
        f"used {case.cpus(case.usage_ns)}"
    )


def other_limit_for_a_time(case: Case) -> Finding | None:
    """The control file held something else, and holds what was promised again."""
    claim = case.claim

    def problem(files: CgroupFiles, _: object) -> str:
        if files.quota_us is None or bandwidth.same_limit(
            *(claim.quota_us or 0, claim.period_us, files.quota_us, files.period_us),
            by_systemd=view.by_systemd(case.evidence, files.cgroup),
        ):
            return ""
        return bandwidth.shown(files.quota_us, files.period_us)

    drifts = file_history.deviations(case.life, problem)
    if not drifts:
        return None
    promised = bandwidth.shown(claim.quota_us, claim.period_us)
    return failed(
        f"the cgroup had {drifts[0].text} {drifts[0].when}, promised was {promised}; used {case.cpus(case.usage_ns)}"
    )


def limits_of(case: Case, row: BandwidthUse) -> set[Limit | None]:
    """Return every bandwidth that a level was seen with in the window; ``None`` stands for none."""
    read = [files for _, files in file_history.readings(case.evidence, row.cgroup) if files.quota_us is not None]
    return {limit_of(row), *(limit_of(files) for files in read)}


def shorter_period(case: Case) -> Finding | None:
    """More period timers fired than the promised period allows."""
    if case.nr_periods <= bandwidth.most_periods(case.limit, case.conditions):
        return None
    return failed(
        f"{case.nr_periods} periods in {digits(case.own.window_ns / 1e9)} s: the period in force is shorter than the "
        f"promised {case.claim.period_us / 1000:g} ms"
    )


def too_much(case: Case) -> Finding | None:
    """More usage over the window than the pool can have held."""
    bound = case.bound
    if case.usage_ns <= bound.total_ns:
        return None
    text = (
        f"used {case.cpus(case.usage_ns)} ({case.usage_ns / 1e6:.1f} ms), {case.limit_text} allows at most "
        f"{case.cpus(bound.total_ns)} ({bound.text}){case.beside}"
    )
    if case.ledger_ns <= bound.total_ns:
        return undecided(f"{text}; {_ledger(case)}")
    return _unless_in_kernel(text, case.usage_ns - bound.total_ns, case)


def _ledger(case: Case) -> str:
    """The second witness's word, where the first one alone says that the quota was broken: one of them is wrong."""
    return f"by the ledger it used {case.cpus(case.ledger_ns)}"


def burst(case: Case) -> Finding | None:
    """More usage in some stretch of the window; the ledger's bins may be one sampler period late on each CPU."""
    excess_ns, at_ns = bandwidth.burst_ns(case.limit, case.bins)
    # Without a sampler an interval is charged when it ends: as late as the window does.
    hz = case.evidence.coverage.sampler_hz
    late_ns = case.conditions.cpus * view.NANOSECONDS // hz if hz > 0 else case.own.window_ns
    # A stretch begins and ends in the middle of a period, and each of these may hold a whole quota.
    allowed_ns = (
        (2 * case.limit.quota_us + case.limit.burst_us) * bandwidth.NS_PER_US
        + case.conditions.edges_ns
        + late_ns
        + sum(entry.usage_ns for entry in case.bins) * BIN_ERROR_RATIO
        + view.steal_ns(case.evidence)
    )
    if excess_ns <= allowed_ns:
        return None
    text = (
        f"from {at_ns / 1e9:.2f} s on it used {excess_ns / 1e6:.1f} ms more than its rate of "
        f"{case.limit.rate_cpus:.3f} CPUs, at most {allowed_ns / 1e6:.1f} ms can be{case.beside}"
    )
    return _unless_in_kernel(text, excess_ns - allowed_ns, case)


def burst_by_count(case: Case) -> Finding | None:
    """By the kernel's count, single periods drew more than the quota, and more than the promised burst is good for.

    Each may draw as much beyond the quota as the burst; without one there is none. The count grows where a burst is in
    force, or where a quota is lowered of which more was drawn already: also between two readings of the files.
    """
    own, claim = case.own, case.claim
    count, drawn_ns = own.nr_bursts or 0, own.burst_ns or 0
    promised_us, spare_us = claim.quota_us or 0, claim.burst_us
    if view.by_systemd(case.evidence, own.cgroup):
        # systemd's rounded quota and the promised one may both have been in force, one after the other.
        spare_us += max(0, systemd_quota(promised_us, claim.period_us) - promised_us)
    allowed_ns = (count + BURSTS_UNDERWAY) * spare_us * bandwidth.NS_PER_US
    if drawn_ns <= allowed_ns and (spare_us or not count):
        return None
    promise = f"a burst of {claim.burst_us / 1000:g} ms" if claim.burst_us else "no burst"
    text = (
        f"{plural(count, 'period', 'periods')} drew more than {case.limit_text} by the kernel's count (nr_bursts), "
        f"{drawn_ns / 1e6:.3f} ms in all; promised was {promise}"
    )
    if any(one.what in STARTS for one in case.life.transitions):
        return undecided(f"{text}; its cgroup was being set up")
    if count <= LOWERED_AT_ENDS:
        return undecided(f"{text}; a quota that is lowered while an end of the window is read counts as much")
    return replace(failed(text), excess_ns=drawn_ns - allowed_ns)


def _unless_in_kernel(text: str, excess_ns: float, case: Case) -> Finding:
    if excess_ns <= case.section_ns:
        return undecided(f"{text}; long kernel sections of an unknown load could explain it")
    return _unless_stood_still(text, excess_ns - case.section_ns, case.conditions)


def _unless_stood_still(text: str, excess_ns: float, conditions: Conditions) -> Finding:
    """Nothing is throttled where no timer interrupt comes."""
    if excess_ns > conditions.overrun_ns:
        return replace(failed(text), excess_ns=excess_ns)
    return undecided(f"{text}; its CPUs stood still for {conditions.overrun_ns / 1e9:.3f} s, which could explain it")


def ancestor_too_much(case: Case) -> Finding | None:
    """An ancestor used more than its own quota allows."""
    for row in case.ancestors:
        limit = limit_of(row)
        # Of a level whose bandwidth changed no bound by one value holds.
        if limit is None or row.usage_ns is None or row.window_ns <= 0 or len(limits_of(case, row)) > 1:
            continue
        # Tasks that no claim describes run there as well: allow for what they may do in the kernel.
        cpus = max(1, len(view.online(case.evidence)))
        conditions = conditions_of(case.evidence, row.window_ns, cpus, overrun_ns(case.evidence))
        # Nor is it known of which class they are: the count of periods binds those of one class only.
        most = bandwidth.upper(limit, conditions, None)
        section_ns = bandwidth.kernel_section_ns(limit, conditions, row.system_ns)
        bound = most.total_ns + section_ns
        if row.usage_ns > bound:
            text = (
                f"{row.cgroup} used {row.usage_ns / row.window_ns:.4f} CPUs, its "
                f"{bandwidth.shown(row.quota_us, row.period_us)} allows at most {bound / row.window_ns:.4f} "
                f"({most.text}, and {section_ns / 1e6:g} ms in the kernel){case.beside}"
            )
            return replace(_unless_stood_still(text, row.usage_ns - bound, conditions), cgroup=row.cgroup)
    return None


def limit_of(row: BandwidthUse | CgroupFiles) -> Limit | None:
    """Return the bandwidth of a level; ``None`` if it has none."""
    if row.quota_us is None or row.quota_us < 0 or not row.period_us:
        return None
    return Limit(quota_us=row.quota_us, period_us=row.period_us, burst_us=row.burst_us or 0)


def too_little(case: Case) -> Finding | None:
    """Throttled before the promised quota was used up."""
    floor = bandwidth.throttled_floor_ns(case.limit, case.conditions, case.nr_throttled, sleeps=not case.user_mode)
    if case.usage_ns >= floor:
        return None
    text = (
        f"throttled in {case.nr_throttled} of {case.nr_periods} periods after {case.cpus(case.usage_ns)}; "
        f"{case.limit_text} gives at least {case.cpus(floor)}"
    )
    return failed(text) if case.ledger_ns < floor else undecided(f"{text}; {_ledger(case)}")


def ancestor_too_little(case: Case) -> Finding | None:
    """An ancestor with less bandwidth throttled it before it had what it was promised."""
    used_ns = max(case.usage_ns, case.ledger_ns)
    if case.fits or used_ns >= bandwidth.demanded_ns(case.limit, case.conditions):
        return None
    doubt: Finding | None = None
    for row in case.ancestors:
        # The counter is of the whole window: which bandwidth throttled is known where there was but one.
        limits = limits_of(case, row)
        less = [one for one in limits if one is not None and one.rate_cpus < case.limit.rate_cpus]
        if not less or not row.nr_throttled:
            continue
        least = min(one.rate_cpus for one in less)
        promised = f"promised were {case.limit.rate_cpus:g}"
        if len(limits) == 1:
            return failed(
                f"{row.cgroup} allows only {least:g} CPUs and throttled it in {row.nr_throttled} periods; {promised}",
                row.cgroup,
            )
        text = (
            f"{row.cgroup} allowed only {least:g} CPUs for a time, and throttled it in {row.nr_throttled} periods; "
            f"{promised}"
        )
        if all(one is None or one in less for one in limits):
            return failed(text, row.cgroup)
        # The greater bandwidth may have throttled it as well: when, the counter does not say.
        doubt = doubt or undecided(f"{text}; at other times it allowed enough")
    return doubt
