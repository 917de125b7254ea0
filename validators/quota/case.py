"""One claim's bandwidth evidence put together: the limit in force, what widens its bounds, usage and demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import BandwidthUse, CpuUse, Evidence, ThreadMask, UsageBin
from toolkit.model.evidence.masks import of_each
from toolkit.model.verdict import Measure, Outcome
from validators.queries import view
from validators.queries.life import Life
from validators.queries.memo import memoised
from validators.queries.promised_anew import quota_renewed_ns
from validators.quota import bandwidth
from validators.quota.bandwidth import Bound, Conditions, Limit
from validators.wording import digits, listed

DEMAND_MARGIN = 0.05
"""A load within 5 % of the quota may or may not meet it: it counts neither as below nor as above."""

UNBOUND_POLICIES = frozenset({"fifo", "rr", "deadline", "ext"})


@dataclass(frozen=True, slots=True)
class Finding:
    """A decision and why."""

    outcome: Outcome
    reason: str
    cgroup: str = ""
    """The level above the claim whose bandwidth it is about; empty: its own."""
    excess_ns: float = 0.0
    """How much more was used than the promise can have given, where it is that."""


def passed(reason: str) -> Finding:
    """Decide that the promise was kept."""
    return Finding(Outcome.PASSED, reason)


def failed(reason: str, cgroup: str = "") -> Finding:
    """Decide that the promise was broken. :param cgroup: by which level above the claim."""
    return Finding(Outcome.FAILED, reason, cgroup)


def undecided(reason: str) -> Finding:
    """Decide that the evidence is not enough."""
    return Finding(Outcome.UNDECIDED, reason)


def renewed(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Finding | None:
    """Decide about a claim whose quota was promised anew: the counters are of the whole window.

    What a pod is promised becomes unknown while it goes, container by container.
    """
    anew_ns = quota_renewed_ns(claim, claims, evidence)
    if anew_ns is None:
        return None
    text = f"its quota was promised anew at {anew_ns / 1e9:.1f} s"
    if view.passing_pod(claim, claims, evidence):
        return Finding(Outcome.SKIPPED, f"it came or went in this window: {text}")
    return undecided(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that one verdict needs."""

    life: Life
    own: BandwidthUse
    ancestors: tuple[BandwidthUse, ...]
    bins: tuple[UsageBin, ...]
    limit: Limit
    conditions: Conditions
    usage_ns: int
    nr_periods: int
    nr_throttled: int
    lacking: str = ""
    """Why no counter of the kernel's says anything, in words: the ledger alone knows the usage."""
    unbound: tuple[str, ...] = ()
    """What runs in the group and is outside CFS bandwidth, for people: real-time and deadline threads, sched_ext."""

    @property
    def claim(self) -> Claim:
        """What was promised."""
        return self.life.claim

    @property
    def evidence(self) -> Evidence:
        """All that was measured in the window."""
        return self.life.evidence

    @property
    def bound(self) -> Bound:
        """The most CPU time that the promise allows. The count of periods says nothing about unbound tasks."""
        return bandwidth.upper(self.limit, self.conditions, None if self.unbound or self.lacking else self.nr_periods)

    @property
    def ledger_ns(self) -> int:
        """Its CPU time by the ledger, over the same time; the cgroup's own count where the ledger has none."""
        return self.usage_ns if self.own.bpf_usage_ns is None else self.own.bpf_usage_ns

    @property
    def beside(self) -> str:
        """Name what no quota holds, for the end of a sentence."""
        named = self.unbound[:3] if len(self.unbound) <= 3 else (*self.unbound[:3], f"{len(self.unbound) - 3} more")
        return f"; outside CFS bandwidth, where no quota holds it: {listed(named)}" if named else ""

    @property
    def user_mode(self) -> bool:
        """Whether the load is known to be user-mode work that does not sleep."""
        return self.claim.demand_cpus is not None

    @property
    def demand_cpus(self) -> float | None:
        """CPUs' worth that the load can take on the CPUs it has."""
        if self.claim.demand_cpus is None:
            return None
        cpus = view.online(self.evidence)
        allowed = cpus if self.claim.cpus is None else self.claim.cpus & cpus
        return min(self.claim.demand_cpus, float(len(allowed)))

    @property
    def exceeds(self) -> bool:
        """Whether the load is known to want more than the quota."""
        return self.demand_cpus is not None and self.demand_cpus >= self.limit.rate_cpus * (1 + DEMAND_MARGIN)

    @property
    def fits(self) -> bool:
        """Whether the load is known to want less than the quota."""
        return self.demand_cpus is not None and self.demand_cpus <= self.limit.rate_cpus * (1 - DEMAND_MARGIN)

    @property
    def section_ns(self) -> int:
        """How long an unknown load may have run on in the kernel after it was throttled."""
        # Up to 6.17 the whole runqueue of the group is taken off the CPU, whatever its tasks do in the kernel.
        if self.user_mode or self.evidence.environment.throttle_model == "runqueue":
            return 0
        return bandwidth.kernel_section_ns(self.limit, self.conditions, self.own.system_ns)

    @property
    def limit_text(self) -> str:
        """The limit for people."""
        return bandwidth.shown(self.limit.quota_us, self.limit.period_us)

    def cpus(self, ns: float) -> str:
        """Write CPU time as CPUs' worth over the window."""
        return f"{max(0.0, ns) / self.own.window_ns:.4f} CPUs"

    @property
    def business(self) -> str:
        """What is known about how busy the host was."""
        delay_ns = self.evidence.run_delay_ns.get(self.claim.name)
        parts = [] if delay_ns is None else [f"its tasks waited {digits(delay_ns / 1e9)} s for a CPU"]
        if steal_ns := view.steal_ns(self.evidence):
            parts.append(f"steal {digits(steal_ns / 1e9)} s")
        return f" ({', '.join(parts)})" if parts else ""

    def measures(self) -> dict[str, Measure]:
        """Return the numbers behind the verdict."""
        window = self.own.window_ns
        measures: dict[str, Measure] = {
            "quota_us": self.limit.quota_us,
            "period_us": self.limit.period_us,
            "burst_us": self.limit.burst_us,
            "quota_cpus": self.limit.rate_cpus,
            "usage_cpus": self.usage_ns / window,
            "bound_high_cpus": self.bound.total_ns / window,
            "bound_low_cpus": max(0.0, bandwidth.demanded_ns(self.limit, self.conditions) / window),
            "window_ns": window,
            "nr_periods": self.nr_periods,
            "nr_throttled": self.nr_throttled,
            "throttled_ns": self.own.throttled_ns or 0,
            "ancestors_nr_throttled": sum(row.nr_throttled or 0 for row in self.ancestors),
            "demand_exceeds_quota": self.exceeds,
            "steal_ns": view.steal_ns(self.evidence),
            "standstill_ns": self.conditions.overrun_ns,
        }
        throttled = [row for row in (self.own, *self.ancestors) if row.nr_throttled]
        if throttled:
            counts = (f"{row.cgroup} in {row.nr_throttled} of {row.nr_periods} periods" for row in throttled)
            measures["throttled_levels"] = ", ".join(counts)
        if self.own.nr_bursts is not None:
            measures |= {"nr_bursts": self.own.nr_bursts, "burst_ns": self.own.burst_ns or 0}
        if self.unbound:
            measures["unbound"] = ", ".join(self.unbound)
        if self.limit.quota_us != self.claim.quota_us:
            measures["quota_promised_us"] = self.claim.quota_us or 0
        if self.demand_cpus is not None:
            measures["demand_cpus"] = self.demand_cpus
        delay = self.evidence.run_delay_ns.get(self.claim.name)
        if delay is not None:
            measures["run_delay_ns"] = delay
        return measures


UNCOUNTED = "it came or went in this window, and its bandwidth counters were not read twice"
"""Why the own cgroup of a followed pod is left out."""


def conditions_of(evidence: Evidence, window_ns: int, cpus: int, overrun_ns: int) -> Conditions:
    """Return what widens the bounds on this machine.

    :param overrun_ns: for how long CPUs stood still under what runs in the group.
    """
    slice_us = evidence.environment.bandwidth_slice_us or bandwidth.DEFAULT_SLICE_US
    return Conditions(
        window_ns=window_ns,
        cpus=cpus,
        tick_ns=view.tick_ns(evidence),
        slice_ns=slice_us * bandwidth.NS_PER_US,
        stopped_ns=view.stopped_ns(evidence),
        overrun_ns=overrun_ns,
    )


def make_case(
    life: Life, levels: Sequence[BandwidthUse], names: frozenset[str], rows: list[CpuUse], bins: list[UsageBin]
) -> Case | str:
    """Put the case of a claim's life together, or say which counters are missing.

    :param levels: the bandwidth of its own cgroup, and of those above. :param names: claims whose tasks run in its
        cgroup. :param rows: the ledger's, of these.
    """
    claim, evidence = life.claim, life.evidence
    own = view.level(levels, 0)
    if own is None or own.window_ns <= 0:
        return "its bandwidth counters were not read"
    usage_ns, nr_periods, nr_throttled, lacking = own.usage_ns, own.nr_periods, own.nr_throttled, ""
    if usage_ns is None or nr_periods is None or nr_throttled is None:
        lacking = f"{own.cgroup} has no bandwidth counters{_why_none(evidence, own.cgroup)}"
        usage_ns = own.bpf_usage_ns
        if usage_ns is None:
            # All of the window's; of a cgroup that went its files' last reading may be seconds before its last task.
            usage_ns = sum(row.run_ns for row in rows)
            own = replace(own, window_ns=max(own.window_ns, life.end_ns))
        nr_periods = nr_throttled = 0
    quota_us = claim.quota_us or 0
    rounds = view.by_systemd(evidence, own.cgroup)
    if own.quota_us is not None and bandwidth.same_limit(
        quota_us, claim.period_us, own.quota_us, own.period_us, by_systemd=rounds
    ):
        quota_us = own.quota_us  # The stated rounding is what is in force, and what usage is judged by.
    # Where only claims below are counted, others may have run on any CPU.
    seen = {row.cpu for row in rows if row.run_ns > 0} if claim.kind.carries_tasks else ()
    cpus = len(seen) or len(claim.cpus or view.online(evidence)) or 1
    return Case(
        life=life,
        own=own,
        ancestors=tuple(sorted((row for row in levels if row.level > 0), key=lambda row: row.level)),
        bins=tuple(bins),
        limit=Limit(quota_us=quota_us, period_us=claim.period_us, burst_us=claim.burst_us),
        conditions=replace(
            conditions_of(evidence, own.window_ns, cpus, sum(row.standstill_ns for row in rows)), lives=own.lives
        ),
        usage_ns=usage_ns,
        nr_periods=nr_periods,
        nr_throttled=nr_throttled,
        lacking=lacking,
        unbound=unbound(evidence, names),
    )


def _why_none(evidence: Evidence, cgroup: str) -> str:
    """Say why a cgroup has no counters, where the reader of its files knew."""
    ends = [view.files_of(files, cgroup) for files in (evidence.files_before, evidence.files_after)]
    reason = next((files.no_cpu_controller for files in ends if files is not None and files.no_cpu_controller), "")
    return f": it has no cpu controller ({reason}), so there is no quota" if reason else " (no cpu controller)"


@memoised
def overrun_ns(evidence: Evidence) -> int:
    """Return for how long CPUs stood still under claims, together."""
    return sum(row.standstill_ns for row in evidence.cpu_use)


def unbound(evidence: Evidence, names: frozenset[str]) -> tuple[str, ...]:
    """Name what runs in a cgroup and is outside CFS bandwidth (docs/facts.md K22). :param names: claims in it."""
    threads = {
        (row.tid, row.comm): f"{row.comm} ({row.tid}, {row.policy})"
        for row in _unbound_threads(evidence)
        if row.claim in names
    }
    state = evidence.environment.sched_ext
    return (*(threads[key] for key in sorted(threads)), *(() if state == "disabled" else (f"sched_ext ({state})",)))


@memoised
def _unbound_threads(evidence: Evidence) -> tuple[ThreadMask, ...]:
    """Return the masks of such threads: every claim with a quota asks, and there are thousands of others."""
    return tuple(of_each(row for row in evidence.thread_masks if row.policy in UNBOUND_POLICIES))
