"""Evidence of the witness of context switches: which tasks ran where and how long, and how complete that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.delays import Culprit, Delay, TimelineBins
from toolkit.model.serde import CpuId, stage_value
from toolkit.model.verdict import Offender


class OwnerClass(StrEnum):
    """The class of a task on a watched CPU, by its owner (docs/facts.md K9)."""

    CLAIM = "claim"
    FOREIGN_POD = "foreign-pod"
    SYSTEM = "system"
    KTHREAD = "kthread"
    PERCPU_KTHREAD = "percpu-kthread"
    TOOLKIT = "toolkit"
    UNKNOWN = "unknown"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """The switch ledger's row for one claim on one CPU.

    ``out_of_set_*`` counts intervals that the claim's mask forbade; ``transition_*`` counts intervals on a CPU outside
    the present mask that began before the task joined the cgroup or before a mask change was complete.
    ``idle_wakes``: how many of ``switches`` ended an interval that had begun on an idle CPU.
    ``arrival_lag_ns``: how long before the switches to its tasks the scheduler's clock let them arrive, since they were
    woken: their cgroup's account has that time, ``run_ns`` has not; ``departure_lag_ns``: the same of those that came
    after them, which ``run_ns`` has and their cgroup's account has not. Less than half a microsecond is not counted.
    Where a thread that the kernel hides from its tracepoints came between, the former has how long that was at most.
    ``standstill_ns``: of ``run_ns``, what ran while the CPU took no timer interrupt (the sampler came more than half a
    period late); 0 on CPUs without a sampler.
    ``cuts``: how often a task was moved in or out while it ran there.
    """

    claim: str
    cpu: CpuId
    switches: int
    run_ns: int
    idle_wakes: int = 0
    arrival_lag_ns: int = 0
    departure_lag_ns: int = 0
    out_of_set_switches: int = 0
    out_of_set_ns: int = 0
    out_of_set_longest_ns: int = 0
    transition_switches: int = 0
    transition_ns: int = 0
    samples: int = 0
    out_of_set_samples: int = 0
    standstill_ns: int = 0
    cuts: int = 0


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Joinings:
    """Processes that ran outside a claim's CPUs after they had its identity (v2), until they had its v1 cpuset.

    ``count``: joinings. ``outside_ns``: what they ran outside, of each joining its longest thread's; it is in the
    ``transition_ns`` of the claim's rows, with that of the other threads. ``slowest_ns``: the longest time between the
    two attaches. ``worst``: threads that ran outside longest, sixteen at most.
    """

    claim: str
    count: int
    outside_ns: int
    slowest_ns: int
    worst: tuple[Offender, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Intruder:
    """A task without a claim, by its v2 cgroup, that ran on a watched (exclusive or reserved) CPU.

    :param claim: whose it is all the same: by its v1 cpuset, or because it left that claim without ending, or was born
        of one that did; ``""``: no claim's. Such a task's class is ``claim``, or ``foreign-pod`` where it left an
        unclaimed pod; of a visit it is what it is without.
    :param left: the thread that left, as ``CgroupMove.tid`` has it: itself, or whose it was born; 0: nothing left.
    :param visit: that one had come from outside, and left with the program that it came with.
    :param gone: its cgroup was deleted by when the window was read; of a task that is in a pod.
    :param longest_at_ns: when its longest stay ended; ``None``: not known (older runs).
    """

    cpu: CpuId
    tid: int
    comm: str
    owner: OwnerClass
    cgroup: str
    switches: int
    total_ns: int
    longest_ns: int
    first_at_ns: int
    claim: str = ""
    left: int = 0
    visit: bool = False
    gone: bool = False
    longest_at_ns: int | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class UsageBin:
    """CPU time of one claim in one slot of the observation, by the ledger."""

    claim: str
    start_at_ns: int
    length_ns: int
    usage_ns: int


@stage_value
@dataclass(frozen=True, kw_only=True)
class SwitchEvidence:
    """Of one window."""

    cpu_use: tuple[CpuUse, ...] = ()
    offenders: tuple[Offender, ...] = ()
    joinings: tuple[Joinings, ...] = ()
    intruders: tuple[Intruder, ...] = ()
    usage_bins: tuple[UsageBin, ...] = ()
    delays: tuple[Delay, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    """What had the CPU while claims waited, each claim's worst first."""
    timeline_bins: tuple[TimelineBins, ...] = ()
    """Where a timeline was asked for."""
    standstill_by_cpu_ns: dict[int, int] | None = None
    """For how long something ran on a CPU that took no timer interrupt, of CPUs with a sampler; ``None``: not observed.
    It stood still, whatever the cause; steal counts only the time in which the hypervisor ran another task."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class SwitchCoverage:
    """How much of it was seen.

    :param switches_judged: context switches that the ledger's program handled.
    :param lost_events: ring buffer reserve failures (details lost; counters are not affected).
    :param map_full: failed map updates (counters incomplete).
    """

    switches_judged: int = 0
    lost_events: int = 0
    map_full: int = 0
    cpus_seen: CpuSet = field(default_factory=CpuSet)
    cpus_online: CpuSet = field(default_factory=CpuSet)
    cpus_unsampled: CpuSet = field(default_factory=CpuSet)
    """nohz_full CPUs that the CPU-clock sampler leaves alone."""
    sampler_hz: int = 0
    window_skew_ns: int = 0
    """How long it took to end the window on all CPUs, one after the other: what runs on a CPU is counted for at most so
    much longer than ``duration_ns``."""
