"""Two witnesses for each claim, compared: CPU time (ledger, cgroup), placement (ledger, sampler, /proc masks), waits
(ledger, pressure stall information; tolerance: :mod:`validators.queries.pressure`).

A disagreement proves that one of them is wrong, not which; so it only ever takes a ``passed`` away.

Tolerance of CPU time. The cgroup's usage is brought up to date at ticks and switches, so each read may miss up to one
tick on each CPU where the claim runs: two reads, ``2 * tick * CPUs``. The cgroups are read before the ledger, and how
long before is measured at both ends (a jammed host needs hundreds of milliseconds): that time, again on each CPU. The
ledger cuts intervals at the tracepoint, the kernel reads the run queue's clock at the start of the same
``__schedule()``: what one task gains there the next one loses, less than 1 us a switch. A switch that a wake-up asked
for is the exception: the run queue's clock was read when the task was put on the queue, ``wakeup_preempt()`` lets
``__schedule()`` skip a second reading (``rq_clock_skip_update``), so the woken task pays for what comes in between, and
what ran until then does not. On a busy CPU that is what is left of the interrupt, measured 6 us; on an idle one the way
out of idle, which in a guest goes through the hypervisor: 8-15 us where the host is quiet. The ledger measures it
(``arrival_lag_ns``, ``departure_lag_ns``: the scheduler's clock at the task's arrival, against its own at the switch).
Where the kernel keeps no arrivals: 10 us and the idle state's latency that the kernel reports on hardware, 50 us in a
guest, for each interval that began on an idle CPU. The task clock leaves out interrupt time and steal where the kernel
accounts for them, the ledger's clock does not: 2 % and the steal that was measured.
A task that is moved while it runs takes what it ran since the last tick with it (``cgroup_account_cputime`` charges the
cgroup that it is in by then), where the ledger cuts at the move: one tick for each such move.
Source: docs/principles.md, "two witnesses"; kernel/sched/cputime.c and fair.c (update_curr); docs/facts.md K23, K31,
K33.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import BandwidthUse, CpuUse, Evidence, ThreadMask
from toolkit.timeline.ran import Ran
from validators.queries import timeline, view
from validators.queries.pressure import pressed
from validators.witness import Witness

SWITCH_EDGE_NS = 1_000
IDLE_WAKE_NS = 10_000
IDLE_WAKE_GUEST_NS = 50_000
IRQ_TIME_RATIO = 0.02
SAMPLES_EXPECTED = 50
"""With 50 samples expected, none at all has a probability below e^-50."""
ROWLESS_RUN_NS = 100_000_000
"""So much CPU time of a claim of which no row of the ledger says where it was spent."""
UNMASKED_RUN_NS = 1_000_000_000
UNMASKED_SCANS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two witnesses that differ about one claim, or one of two that is missing. ``claim`` ``None``: about all."""

    claim: str | None
    text: str
    witnesses: tuple[Witness, ...]


def disagreements(claims: ClaimSet, evidence: Evidence) -> tuple[Disagreement, ...]:
    """Return the disagreements of every claim, in the order of the claims; none where there is no ledger."""
    if view.without_programs(evidence):
        return ()
    use, ran = view.by_claim(evidence.cpu_use), view.by_claim(timeline.asked(evidence).rows)
    below = view.nested(claims)
    masks = view.by_claim(evidence.thread_masks)
    bandwidth = view.by_claim(evidence.bandwidth)
    found: list[Disagreement] = []
    for claim in claims.claims:
        rows = use.get(claim.name, [])
        own = view.level(bandwidth.get(claim.name, []), 0)
        if own is None and not claim.kind.carries_tasks:
            continue  # The ledger counts nothing for it: its files and counters are the kernel's word alone.
        # Its cgroup, and the ledger's sum, count what ran below it, too.
        everything = rows + [row for name in below.get(claim.name, ()) for row in use.get(name, [])]
        text = _cpu_time(evidence, everything, own) or _rows(everything, own)
        if text:
            found.append(_of(claim, text, Witness.SWITCHES, Witness.BANDWIDTH))
        found += [_of(claim, text, Witness.SWITCHES) for text in _samples(evidence, rows)]
        if claim.cpus is not None:
            text = _placement(evidence, ran.get(claim.name, []), masks.get(claim.name, []))
            if text:
                found.append(_of(claim, text, Witness.SWITCHES, Witness.MASKS))
        by_kernel = pressed(claim, claims, evidence)
        if by_kernel is not None and by_kernel.problem:
            found.append(_of(claim, by_kernel.problem, Witness.WAITS))
    return tuple(found)


def _of(claim: Claim, text: str, *witnesses: Witness) -> Disagreement:
    return Disagreement(claim=claim.name, text=f"{claim.name}: {text}", witnesses=witnesses)


def wakes_ns(evidence: Evidence, rows: list[CpuUse]) -> float:
    """Return how much more than the ledger the cgroup may count because its tasks were woken; derivation above."""
    lag_ns = sum(row.arrival_lag_ns for row in rows)
    if lag_ns:
        return float(lag_ns)
    guest = evidence.environment.virtualization != "none"
    each_ns = (IDLE_WAKE_GUEST_NS if guest else IDLE_WAKE_NS) + 1000 * (evidence.environment.idle_exit_us or 0)
    return float(each_ns * sum(row.idle_wakes for row in rows))


def cpu_time_tolerance_ns(evidence: Evidence, rows: list[CpuUse], usage_ns: int) -> float:
    """Return how far the ledger and the cgroup may differ about a claim's CPU time; derivation above."""
    cpus = len({row.cpu for row in rows if row.run_ns > 0}) or len(view.online(evidence)) or 1
    switches = sum(row.switches for row in rows)
    return (
        (2 * view.tick_ns(evidence) + max(0, evidence.coverage.witness_skew_ns)) * cpus
        + switches * SWITCH_EDGE_NS
        + usage_ns * IRQ_TIME_RATIO
        + view.steal_ns(evidence)
        + view.tick_ns(evidence) * sum(row.cuts for row in rows)
    )


def _cpu_time(evidence: Evidence, rows: list[CpuUse], own: BandwidthUse | None) -> str:
    if own is None or own.usage_ns is None:
        return "the cgroup's CPU time was not read, there is no second witness"
    if own.bpf_usage_ns is None:
        return "the ledger has no CPU time over the cgroup's window, there is no second witness"
    difference = own.bpf_usage_ns - own.usage_ns
    allowed = cpu_time_tolerance_ns(evidence, rows, own.usage_ns) + _lives_ns(evidence, rows, own)
    least = -allowed - wakes_ns(evidence, rows)
    allowed += sum(row.departure_lag_ns for row in rows)
    if least <= difference <= allowed:
        return ""
    return (
        f"CPU time by the ledger {own.bpf_usage_ns / 1e6:.1f} ms, by the cgroup {own.usage_ns / 1e6:.1f} ms "
        f"(allowed {least / 1e6:+.1f} to {allowed / 1e6:+.1f} ms)"
    )


def _lives_ns(evidence: Evidence, rows: list[CpuUse], own: BandwidthUse) -> float:
    """Return how far the accounts may differ because the cgroup was read a last time before it was deleted.

    That reading and the ledger's beside it are each up to one tick or one sampler period old on each CPU.
    """
    ends = own.lives - 1 + (own.unread_ns > 0)
    if not ends:
        return 0.0
    hz = evidence.coverage.sampler_hz
    cpus = len({row.cpu for row in rows if row.run_ns > 0}) or 1
    return ends * cpus * (2 * view.tick_ns(evidence) + (view.NANOSECONDS / hz if hz > 0 else 0.0))


def _rows(rows: list[CpuUse], own: BandwidthUse | None) -> str:
    """The ledger's own sum needs rows to come from: the claim's, or those of claims below it."""
    usage_ns = 0 if own is None else own.bpf_usage_ns or 0
    if usage_ns < ROWLESS_RUN_NS or any(row.run_ns > 0 for row in rows):
        return ""
    return f"the ledger has {usage_ns / 1e6:.1f} ms of CPU time but not on which CPU"


def _samples(evidence: Evidence, rows: list[CpuUse]) -> list[str]:
    found = [
        f"the sampler saw it on CPU {row.cpu}, the ledger never did"
        for row in sorted(rows, key=lambda row: row.cpu)
        if row.samples > 0 and row.run_ns <= 0
    ]
    hz = evidence.coverage.sampler_hz
    sampled = [row for row in rows if row.cpu not in evidence.coverage.cpus_unsampled]
    expected = sum(row.run_ns for row in sampled) * hz / view.NANOSECONDS
    if expected >= SAMPLES_EXPECTED and not any(row.samples for row in sampled):
        found.append(f"the sampler saw nothing of it, {expected:.0f} samples were due")
    return found


def _placement(evidence: Evidence, rows: list[Ran], masks: list[ThreadMask]) -> str:
    """A CPU where a claim ran for long must be allowed to some thread that /proc showed."""
    if not masks or evidence.coverage.proc_scans < UNMASKED_SCANS:
        return ""  # Then only affinity-mask lacks its evidence; the ledger and the sampler are two witnesses already.
    long = [row for row in rows if row.steady[1] >= UNMASKED_RUN_NS]
    allowed = CpuSet.union(mask.cpus_allowed for mask in masks) if long else CpuSet()
    for row in sorted(long, key=lambda row: row.cpu):
        if row.cpu not in allowed:
            return f"it ran {row.row.run_ns / 1e9:.1f} s on CPU {row.cpu}, which /proc allowed to none of its threads"
    return ""
