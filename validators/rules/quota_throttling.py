"""Rule ``quota-throttling``: usage never exceeds the quota's bandwidth and reaches it under demand, at every level."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import CpuUse, Evidence, UsageBin
from toolkit.model.measures import Better, Kind, amounts, gated, levels, words
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.queries import delay, file_history, view, writers
from validators.queries.life import ENDS, STARTS, whole
from validators.quota import bandwidth
from validators.quota.authors import authors
from validators.quota.broken import broken, burst, too_much
from validators.quota.case import UNCOUNTED, Case, Finding, make_case, passed, renewed, undecided
from validators.quota.ended import LifeUse, ended_lives, last_began_ns, slots_in, with_ended_lives
from validators.quota.kept_quota import UNKNOWN
from validators.quota.periods import throttled_periods
from validators.quota.slots import slots_of
from validators.rule import Rule, RuleDoc, prose
from validators.witness import Witness
from validators.wording import digits

ID = "quota-throttling"
PERIODS_NEEDED = 20
"""So many that what a pool may hold at both ends of a window (two periods' worth) is a tenth of what it says."""
PERIODS_BY_CHANCE = 2
"""Throttled periods that tasks which start or stop at an edge of the window can cause."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised a quota."""
    bins = view.by_claim(evidence.usage_bins)
    return tuple(
        with_ended_lives(
            _present(claim, claims, evidence, bins),
            ended_lives(claim, claims, evidence),
            lambda used: _ended(used, claims, bins),
        )
        for claim in claims.claims
    )


def _present(claim: Claim, claims: ClaimSet, evidence: Evidence, bins: Mapping[str, list[UsageBin]]) -> Verdict:
    """Judge the life that a claim has, or had last."""
    measures: dict[str, Measure] = {}
    author = ""
    anew = renewed(claim, claims, evidence)
    if anew is not None:
        finding = anew
    elif claim.kept_quota_us is not None:
        finding = undecided(UNKNOWN)
    elif claim.quota_us is None or claim.quota_us < 0:
        finding = Finding(Outcome.SKIPPED, "no quota was promised")
    else:
        names = view.covered(claim, claims)
        rows = _rows(names, evidence)
        slots = slots_in(slots_of(claim, claims, bins), last_began_ns(claim, evidence))
        case = make_case(whole(claim, evidence), view.levels_of(claim, evidence), names, rows, slots)
        if isinstance(case, str):
            finding = _short_life(claim, evidence, rows) or _short_pod(claim, claims, evidence) or undecided(case)
        else:
            measures = case.measures()
            finding = _uncounted(case, claims, rows) if case.lacking else _counted(case)
            author = authors(case, finding, measures)
            periods = throttled_periods((case.own, *case.ancestors), claims)
            if periods:
                measures["throttled_periods"] = periods
                author += f"; {periods}"
            waited = delay.waited(claim, claims, evidence)
            if waited is not None:
                measures |= waited.measures()
                author += waited.ending(evidence)
    older = view.older_word(claim, evidence) if finding.outcome is Outcome.FAILED else ""
    return Verdict(
        rule=ID,
        subject=claim.name,
        outcome=finding.outcome,
        reason=finding.reason
        + author
        + older
        + (file_history.lives(view.changes_of(claim.name, evidence.transitions)) if measures else ""),
        measures=measures,
    )


def _rows(names: frozenset[str], evidence: Evidence) -> list[CpuUse]:
    use = view.by_claim(evidence.cpu_use)
    return [row for name in sorted(names) for row in use.get(name, [])]


def _ended(used: LifeUse, claims: ClaimSet, bins: Mapping[str, list[UsageBin]]) -> tuple[Outcome, str]:
    """Judge a life that is over: by its counters up to their last reading, and by the ledger up to its end."""
    life, use = used.life, used.use
    claim = life.claim
    if claim.quota_us is None or claim.quota_us < 0:
        return Outcome.PASSED, ""  # `quota-free` judges it
    if not used.settled or claim.kept_quota_us is not None:
        return Outcome.SKIPPED, ""
    names = view.covered(claim, claims)
    slots = slots_in(slots_of(claim, claims, bins), use.from_ns, use.to_ns)
    found = []
    for own in used.accounts():
        # The counts of levels above are of the whole window: they are judged with the life that goes on.
        case = make_case(life, [own], names, _rows(names, life.evidence), slots)
        if isinstance(case, str):
            continue
        finding = broken(case) if not case.lacking else too_much(case) or burst(case)
        found += [] if finding is None else [finding]
    worst = next((one for one in found if one.outcome is Outcome.FAILED), None)
    if worst is not None:
        return worst.outcome, worst.reason
    periods = max(1, (use.to_ns - use.from_ns) // (claim.period_us * bandwidth.NS_PER_US))
    within = used.spent_ns <= periods * claim.quota_us * bandwidth.NS_PER_US
    return (Outcome.PASSED if within or (used.counted and not found) else Outcome.SKIPPED), ""


def _counted(case: Case) -> Finding:
    return broken(case) or _incomplete(case) or _kept(case)


def _uncounted(case: Case, claims: ClaimSet, rows: list[CpuUse]) -> Finding:
    """Judge by the ledger alone, where the kernel counts nothing: what was used beyond the promise was used."""
    found = [finding for finding in (too_much(case), burst(case)) if finding is not None]
    worst = next((one for one in found if one.outcome is Outcome.FAILED), found[0] if found else None)
    if worst is None:
        used = f"{case.lacking}; by the ledger it used {case.cpus(case.usage_ns)}, no more than was promised"
        short = _short_life(case.claim, case.evidence, rows) or _short_pod(case.claim, claims, case.evidence)
        return short or undecided(used)
    return Finding(worst.outcome, f"{case.lacking}; by the ledger: {worst.reason}")


def _short_life(claim: Claim, evidence: Evidence, rows: list[CpuUse]) -> Finding | None:
    """Judge by the ledger alone a cgroup that was gone before its counters were read a second time.

    Whatever the kernel would have counted: what is within the rate, or within one period's quota, cannot exceed it.
    """
    own = view.level(view.levels_of(claim, evidence), 0)
    changes = view.changes_of(claim.name, evidence.transitions)
    ends = [t.end_at_ns for t in changes if t.what in ENDS]
    began_ns = max([t.start_at_ns for t in changes if t.what in STARTS] + [0])
    if own is None or not ends or claim.quota_us is None:
        return None
    spent_ns = sum(row.run_ns for row in rows)
    periods = max(1, (max(ends) - began_ns) // (claim.period_us * bandwidth.NS_PER_US))
    if spent_ns > periods * claim.quota_us * bandwidth.NS_PER_US:
        return None
    return passed(f"ran {spent_ns / 1e6:.3f} ms in this window until its end, no more than its quota")


def _short_pod(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Finding | None:
    return Finding(Outcome.SKIPPED, UNCOUNTED) if view.uncounted_pod(claim, claims, evidence) else None


def _incomplete(case: Case) -> Finding | None:
    state = case.evidence.environment.sched_ext
    if state != "disabled":
        return undecided(f"sched_ext is {state}: its tasks are outside CFS bandwidth")
    missing = set(range(1, view.depth(case.claim))) - {row.level for row in case.ancestors}
    if missing:
        return undecided(f"{len(missing)} ancestor levels of {case.claim.cgroup} were not read")
    if case.own.quota_us is None:
        return undecided("its bandwidth file was not read")
    unread = [row.cgroup for row in case.ancestors if row.quota_us is None or row.nr_throttled is None]
    if unread and view.depth(case.claim) > 1:
        return undecided(f"the bandwidth files of {unread[0]} were not read")
    return None


def _kept(case: Case) -> Finding:
    """Judge a case in which nothing is broken: is the evidence enough to show that the promise was kept?"""
    if case.unbound and case.nr_throttled:
        return undecided(
            f"used {case.cpus(case.usage_ns)} and was throttled in {case.nr_throttled} of {case.nr_periods} periods: "
            f"how much of it was drawn from the quota is not known{case.beside}"
        )
    if case.exceeds:
        return _under_demand(case)
    held = f"used {case.usage_ns / case.own.window_ns:.4f} of {case.limit.rate_cpus:.3f} CPUs"
    if case.fits:
        load = f"its load of {case.demand_cpus:g} CPUs is below the quota"
        if case.nr_throttled > PERIODS_BY_CHANCE:
            return undecided(f"throttled in {case.nr_throttled} periods although {load}")
        above, periods = _most_throttled(case)
        if periods > PERIODS_BY_CHANCE:
            return undecided(f"{above} was throttled in {periods} periods although {load}")
        return passed(f"{held}; {load}, it was not held back")
    if not case.nr_throttled:
        # What was throttled when the window opened is counted when it goes on: at most a period on each CPU.
        stood_ns = case.own.throttled_ns or 0
        if stood_ns > case.limit.period_us * bandwidth.NS_PER_US * max(1, len(view.online(case.evidence))):
            return undecided(f"{held}; it was throttled for {stood_ns / 1e6:.1f} ms, and in no period: that cannot be")
        return passed(f"{held}; it never reached the quota{case.beside}")
    floor = bandwidth.throttled_floor_ns(case.limit, case.conditions, case.nr_throttled, sleeps=False)
    times = f"throttled in {case.nr_throttled} of {case.nr_periods} periods"
    # broken() has compared it with the floor of a load that may sleep; this is that of one that does not.
    if case.usage_ns < floor:
        return undecided(f"{times} but {held}: a load that sleeps, or less than the promised quota")
    return passed(f"{held}; {times}, each time at its quota")


def _under_demand(case: Case) -> Finding:
    if case.unbound:
        return undecided(
            f"used {case.cpus(case.usage_ns)}: how much of it the quota had to hold is not known{case.beside}"
        )
    low = bandwidth.demanded_ns(case.limit, case.conditions)
    high = bandwidth.upper_ns(case.limit, case.conditions, None)
    fair = case.limit.rate_cpus * case.own.window_ns
    if low <= fair / 2 or high >= fair * 2:
        return undecided(
            f"{digits(case.own.window_ns / 1e9)} s are too short: half or twice the quota would look the same "
            f"({case.cpus(low)} to {case.cpus(high)})"
        )
    times = f"was throttled in only {case.nr_throttled} of {case.nr_periods} periods"
    if case.usage_ns < low:
        held = f"used {case.cpus(case.usage_ns)} of {case.limit.rate_cpus:.3f} and {times}"
        above, periods = _most_throttled(case)
        if periods > max(case.nr_periods / 2, PERIODS_BY_CHANCE):
            return undecided(f"{held}: {above} was throttled in {periods}, so the claim's own quota was not tested")
        return undecided(f"{held}: the host was too busy to decide{case.business}")
    # As much as promised, and hardly throttled: a file elsewhere, or its CPUs, may have held it at just this rate.
    held_back = case.nr_throttled + sum(row.nr_throttled or 0 for row in case.ancestors)
    if held_back < case.nr_periods / 2 - PERIODS_BY_CHANCE:
        return undecided(f"used {case.cpus(case.usage_ns)} but {times}: something else held it there{case.business}")
    measured = f"{case.usage_ns / case.own.window_ns:.4f}"
    return passed(f"throttled to {case.limit.rate_cpus:.3f} CPUs (quota {case.limit_text}; measured {measured})")


def _most_throttled(case: Case) -> tuple[str, int]:
    """Return the ancestor that was throttled in the most periods, and in how many."""
    above = max(case.ancestors, key=lambda row: row.nr_throttled or 0, default=None)
    return ("", 0) if above is None else (above.cgroup, above.nr_throttled or 0)


def _needs(claims: ClaimSet) -> float:
    periods = [claim.period_us for claim in claims.claims if claim.quota_us is not None and claim.quota_us > 0]
    return max(periods, default=0) * PERIODS_NEEDED / 1e6


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Usage never exceeds the bandwidth that the quota allows, and reaches it under demand.",
        how=prose("""
            Usage and throttling are read from cpu.stat and cpuacct at the claim's level and at every ancestor. The
            ledger gives CPU time in bins, which are short slots of the window.

            Failed: the file holds another quota or period, even for a part of the window (it is read as described in
            `explain applied`); more periods passed than the promised period allows; more was used than the quota can
            have allowed (over the window, in any stretch of bins, or at an ancestor); by the kernel's own count
            (nr_bursts, since Linux 5.14) single periods drew more than the quota and the promised burst together; the
            claim was throttled before the promised quota was used up (each throttled period proves a whole quota of
            usage, however busy the host is); an ancestor with less bandwidth throttled it, also one that had that quota
            for a part of the window and none otherwise.

            Without a cpu controller there is no quota, and the kernel counts nothing: what the ledger says was used
            beyond the promise is failed all the same.

            The reason ends with what changed the quota. A write of its own value changes nothing that can be read, and
            fills the pool anew: such writes are counted, with what made them and what they gave.

            Which periods were throttled, and by which level's quota, is said as closely as the counters were read
            (mostly once a second). Periods are the kernel's own, counted from the window's first.

            What its tasks waited for a CPU, throttled by which level or behind which tasks, follows, by the ledger and
            the kernel's counts of the levels, and beside it the pressure stall information of its cgroup (psi_some_us);
            it decides nothing.

            Undecided: the load asks for more than the quota, but got less without being throttled (the host was busy,
            and run delay and steal are reported; or an ancestor with enough bandwidth, which others may have used up,
            was throttled in most periods); the window is so short that half or twice the quota would look the same; a
            level or a file was not read; an ancestor that throttled it had less bandwidth for a part of the window
            only, and a quota with enough bandwidth for the rest; periods were throttled beside tasks outside CFS
            bandwidth (real-time, deadline, sched_ext), whose time is usage but is not drawn from the quota, so that the
            count of periods proves nothing about it; another quota was promised within the window; periods that drew
            more were counted while its cgroup was being set up, or no more than two of them, which a quota that is
            lowered while an end of the window is read would explain.

            A life that ended in the window, and was followed by another in another cgroup, is judged by itself: by its
            counters up to their last reading, and by the ledger up to its end. What it broke is failed; where too
            little was read of it to say that it kept its promise it is skipped, and counted.

            A load that asks for less than the quota passes if it was not held back. Skipped: the own cgroup of a
            followed pod that came or went in the window, and whose counters were not read twice, or whose promise
            changed with it.
        """),
        tolerance=prose("""
            Q quota, P period, B burst, n CPUs used, s slice (sched_cfs_bandwidth_slice_us), t tick, W = k*P + r window,
            stopped: the steal, or the time for which one CPU stood still, whichever is more.

            Upper bound: min(Q*(nr_periods + 1), k*Q + min(2Q, max(Q, r*n))) + B + n*s (slices drawn before the window)
            + 2*n*t (overrun until the tick that notices it; lag of the usage counter). nr_periods is left out at an
            ancestor, where a thread of the claim is real-time or deadline, and where sched_ext is on. Usage above the
            bound is undecided if it exceeds it by no more than the claim ran on CPUs that stood still: no timer
            interrupt for 1.5 periods of the CPU-clock sampler or more, during which nothing can be throttled.

            Lower bound under known demand: k*Q - n*s - 2*n*t. By throttling: Q*(nr_throttled - 1 - stopped/P) - n*s -
            2*n*t for user-mode loads; a load that may sleep can lose n*s of every period and may bring n*P of debt
            along. Since kernel 6.18 tasks are throttled on return to user mode: an unknown load may run n*P longer in
            the kernel, or as long as its cgroup's counter says that it was there, which is undecided, not failed.

            By count: nr_bursts periods of B each, and two more (cpu.stat is printed without a lock); without a burst
            none. A period draws more than Q only from what a burst let it save, or where the quota is lowered in it.

            Bins: 2Q + B + n*s + 2*n*t + one sampler period per CPU + 2 % + steal. Periods: 5 % + 2 + stopped/P. Where
            systemd wrote the file, it may hold the promised quota rounded up to 1 % of a CPU.
        """),
        source=prose("""
            Documentation/scheduler/sched-bwc.rst; kernel/sched/fair.c (of nr_bursts __refill_cfs_bandwidth_runtime);
            docs/facts.md K18-K24, docs/failures.md F58, F60, F61
        """),
        negative_control="Rewrite the cgroup's quota: twice, half, none, or the same rate with another period.",
        witnesses=(Witness.BANDWIDTH, Witness.SWITCHES, Witness.SLOTS, Witness.FILES),
        measures=(
            *gated("usage_cpus", Kind.LEVEL, Better.MORE, relative=0.03, absolute=0.005),
            *gated("throttled_ns", Kind.AMOUNT, Better.LESS, relative=0.5, absolute=10_000_000),
            *gated("nr_throttled", Kind.AMOUNT, Better.LESS, relative=0.5, absolute=5),
            *gated("run_delay_ns", Kind.AMOUNT, Better.LESS, relative=0.5, absolute=5_000_000),
            *gated("period_us", Kind.WORD, Better.NEITHER, relative=0.0, absolute=0),
            *amounts(
                "window_ns",
                "nr_periods",
                "nr_bursts",
                "burst_ns",
                "ancestors_nr_throttled",
                "steal_ns",
                "standstill_ns",
            ),
            *levels("demand_cpus"),
            *levels("skipped_lives_count", better=Better.LESS),
            *amounts("refills_count", "refills_ns", better=Better.LESS),
            *writers.MEASURES,
            *delay.MEASURES,
            *words("throttled_levels", "throttled_periods"),
            *words("quota_us", "burst_us", "quota_cpus", "bound_high_cpus", "bound_low_cpus"),
            *words("quota_promised_us", "demand_exceeds_quota", "unbound"),
        ),
    ),
    check,
    needs=_needs,
)
