"""How long a claim's tasks waited by the kernel's pressure stall information, beside the waits that the ledger counted.

On one CPU ``some`` is the time in which at least one task of the cgroup was runnable and did not run; a throttled task
stays runnable. Waits of several tasks at one time are all in the ledger's sum and once in ``some``. Of several CPUs the
kernel keeps the mean of each two seconds, weighted by how long each was not idle for the cgroup (tasks that wait for
I/O count as not idle), in whole jiffies. So it is

- at most the window;
- at most the sum of the waits over all CPUs (a mean is no more than the greatest of what it is made of), plus what has
  not been counted when the window ends: a wait counts when it is over, and where its task was moved to another CPU's
  queue only its last part does;
- at least the longest wait, where the claim has one CPU. On n CPUs the weights are unknown, and at least what was
  waited on each: ``sum(s_c * w_c) / sum(w_c)`` with ``w_c >= s_c`` and ``sum(w_c) <= n * T`` is at least
  ``sum(s_c ** 2) / (n * T)``, also summed over periods. Rounding the weights down takes a jiffy a period at most.

Source: kernel/sched/psi.c ("Multiple CPUs", test_state, collect_percpu_times), kernel/sched/stats.h (psi_enqueue,
sched_info_arrive); Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuPressure, Delay, Evidence
from toolkit.model.verdict import Measure
from validators.credibility.bounds import CLOCK_SLACK_NS, CLOCK_SLACK_RATIO
from validators.queries import view

PERIOD_NS = 2 * view.NANOSECONDS
"""So often the kernel makes means (PSI_FREQ), and each time that the file is read."""
UNFINISHED_NS = 100_000_000
"""A wait that goes on at the window's end is no surprise up to here, nor up to twice the longest that ended, nor up to
the period of a quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """``some`` of a claim, and between what it must be (ns); ``most_ns`` ``None``: nothing counted waits."""

    some_ns: int
    full_us: int | None
    window_ns: int
    least_ns: float
    most_ns: float | None
    waited_ns: int
    slack_ns: float
    unread: str = ""

    def measures(self) -> dict[str, Measure]:
        """Return the numbers, or why there are none."""
        if self.unread:
            return {"psi": f"not read: {self.unread}"}
        found: dict[str, Measure] = {"psi_some_us": self.some_ns // 1000}
        return found if self.full_us is None else found | {"psi_full_us": self.full_us}

    @property
    def problem(self) -> str:
        """What its definition does not explain; empty: nothing."""
        if self.unread:
            return ""
        some = f"a task of it waited {self.some_ns / 1e6:.1f} ms by the kernel's PSI"
        if self.some_ns > self.window_ns + self.slack_ns:
            return f"{some}, in a window of {self.window_ns / 1e6:.1f} ms"
        if self.most_ns is not None and self.some_ns > self.most_ns + self.slack_ns:
            return f"{some}, {self.waited_ns / 1e6:.1f} ms by the waits that have ended: one goes on, or was not seen"
        if self.some_ns < self.least_ns - self.slack_ns:
            return f"{some}, and {self.least_ns / 1e6:.1f} ms or more by single waits that the ledger counted"
        return ""


def pressed(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Pressed | None:
    """Return what PSI says of a claim's cgroup, all below it included; ``None``: it was not asked (older runs)."""
    row = next(iter(view.by_claim(evidence.pressure).get(claim.name, ())), None)
    if row is None:
        return None
    names = view.covered(claim, claims)
    delays = [one for name in sorted(names) for one in view.by_claim(evidence.delays).get(name, ())]
    waited_ns = sum(one.wait_ns for one in delays)
    whole = row.window_ns >= evidence.duration_ns * (1 - CLOCK_SLACK_RATIO) - CLOCK_SLACK_NS - row.skew_ns
    counted = whole and _counts_waits(evidence)
    kernel_ns = sum(evidence.run_delay_ns.get(name, 0) for name in names)
    return Pressed(
        some_ns=row.some_us * 1000,
        full_us=row.full_us,
        window_ns=row.window_ns,
        least_ns=_least_ns(claim, delays, row, evidence) if whole else 0,
        most_ns=max(waited_ns, kernel_ns) + _unfinished_ns(claim, delays, evidence) if counted else None,
        waited_ns=waited_ns,
        slack_ns=row.skew_ns + CLOCK_SLACK_NS + row.window_ns * CLOCK_SLACK_RATIO + view.steal_ns(evidence),
        unread=row.unread,
    )


def _counts_waits(evidence: Evidence) -> bool:
    """Say whether this kernel tells the ledger when a task was queued: then it tells when tasks arrived, too."""
    return any(row.wait_ns for row in evidence.delays) or any(row.arrival_lag_ns for row in evidence.cpu_use)


def _unfinished_ns(claim: Claim, delays: list[Delay], evidence: Evidence) -> int:
    periods = [(row.period_us or 0) * 1000 for row in view.levels_of(claim, evidence) if (row.quota_us or 0) > 0]
    return max([UNFINISHED_NS, *periods]) + 2 * max((one.longest_ns for one in delays), default=0)


def _least_ns(claim: Claim, delays: list[Delay], row: CpuPressure, evidence: Evidence) -> float:
    """Return what must be in it, by the longest wait on each CPU, so far as that lay in the window."""
    longest: dict[int, int] = {}
    for one in delays:
        inside = min(one.longest_ns, one.longest_at_ns or 0)
        longest[one.cpu] = max(longest.get(one.cpu, 0), inside)
    cpus = (claim.cpus or view.online(evidence)) | CpuSet.of(longest)
    if not longest or row.window_ns <= 0:
        return 0.0
    if len(cpus) == 1:
        surely = float(max(longest.values()))
    else:
        surely = sum(ns * ns for ns in longest.values()) / (len(cpus) * row.window_ns)
    rounded = view.tick_ns(evidence) * (row.window_ns // PERIOD_NS + 3)
    return max(0.0, surely - rounded)
