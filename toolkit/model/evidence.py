"""Evidence: what was observed, complete enough to be judged on another machine, without any judgement in it.

All times are CLOCK_MONOTONIC nanoseconds (what ``bpf_ktime_get_ns`` and ``time.monotonic_ns`` read), made relative to
the start of the observation where a field says ``_at_ns``. Counters are sums over the observation.

Longer than 300 lines: the values of one file of a run, and what each field means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.model.actions import AffinityChange, CgroupMove
from toolkit.model.cgroup_manager import CgroupManager
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.coverage import Coverage as Coverage
from toolkit.model.cpuset import CpuSet
from toolkit.model.interrupts import IrqUse
from toolkit.model.layers import LayerView
from toolkit.model.picture import Picture
from toolkit.model.placement import DevicePlace, HugetlbUse, PageReading
from toolkit.model.serde import CpuId, stage_value
from toolkit.model.state_files import StateReading
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
    ``standstill_ns``: of ``run_ns``, what ran while the CPU took no timer interrupt (the sampler came more than half a
    period late); 0 on CPUs without a sampler.
    ``cuts``: how often a task was moved in or out while it ran there.
    """

    claim: str
    cpu: CpuId
    switches: int
    run_ns: int
    idle_wakes: int = 0
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
class Intruder:
    """A task without a claim that ran on a watched (exclusive or reserved) CPU."""

    cpu: CpuId
    tid: int
    comm: str
    owner: OwnerClass
    cgroup: str
    switches: int
    total_ns: int
    longest_ns: int
    first_at_ns: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMask:
    """One distinct Cpus_allowed/Mems_allowed of a thread, from ``/proc/<pid>/task/<tid>/status``."""

    claim: str
    pid: int
    tid: int
    comm: str
    cpus_allowed: CpuSet
    mems_allowed: CpuSet
    times_seen: int
    first_at_ns: int
    last_at_ns: int
    epoch: int = 0
    """Number of mask changes of the claim that were complete when it was read; masks read during one are not kept."""
    policy: str = ""
    """Scheduling policy: ``other``, ``batch``, ``idle``, ``fifo``, ``rr``, ``deadline``, ``ext``; empty: not read."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupFiles:
    """The control files of one cgroup as read at one moment; ``None`` where the file does not exist.

    ``quota_us`` is -1 for no quota (v2 ``max``). ``cpus`` is the request, ``cpus_effective`` what the kernel grants.
    """

    cgroup: str
    at_ns: int
    cpus: CpuSet | None = None
    cpus_effective: CpuSet | None = None
    mems: CpuSet | None = None
    mems_effective: CpuSet | None = None
    quota_us: int | None = None
    period_us: int | None = None
    burst_us: int | None = None
    weight: int | None = None
    shares: int | None = None
    memory_max_bytes: int | None = None
    manager: CgroupManager = CgroupManager.UNKNOWN
    """The manager that wrote them, where that was read."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthUse:
    """Deltas of ``cpu.stat`` (v1: cpu.stat + cpuacct.usage) over the observation, for a claim's cgroup or an ancestor.

    :param level: 0 is the claim's own cgroup, 1 its parent, and so on.
    :param files: the bandwidth files of this level at the start of the window.
    :param window_ns: time between the two reads of this very file.
    :param bpf_usage_ns: CPU time of the subtree by the ledger over the same window; ``None`` if not watched.
    """

    claim: str
    cgroup: str
    level: int
    window_ns: int
    usage_ns: int | None
    nr_periods: int | None
    nr_throttled: int | None
    throttled_ns: int | None
    nr_bursts: int | None = None
    burst_ns: int | None = None
    quota_us: int | None = None
    period_us: int | None = None
    burst_us: int | None = None
    bpf_usage_ns: int | None = None
    lives: int = 1
    """How many cgroups of this name the counters are summed over: it was deleted and made again in between."""
    unread_ns: int = 0
    """CPU time by the ledger, in neither usage: used between a cgroup's last reading and its end."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class UsageBin:
    """CPU time of one claim in one slot of the observation, by the ledger."""

    claim: str
    start_at_ns: int
    length_ns: int
    usage_ns: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of a claim while it was watched: its mask, or its existence."""

    claim: str
    what: str
    start_at_ns: int
    end_at_ns: int
    cpus_before: CpuSet | None = None
    cpus_after: CpuSet | None = None
    cause: str = "toolkit"
    held_at_ns: int | None = None
    """When the last task had left the old set, where that was followed."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A control: a cgroup of ours with a claim that is deliberately false (``positive``) or true (``clean``)."""

    positive: bool
    cpu: CpuId
    planted_at_ns: int
    reported_at_ns: int | None
    planted_switches: int
    out_of_set_switches: int
    run_ns: int = 0
    out_of_set_ns: int = 0


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class HotplugEvent:
    """A CPU that went offline or came online while we watched."""

    cpu: CpuId
    online: bool
    at_ns: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What made the containers' cgroups: ``cgroupfs`` (pinproof itself), ``runc`` or ``crun`` with its version."""

    name: str
    version: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine that the observation was made on: facts only."""

    kernel: str
    cgroup: str
    """``v2``, ``hybrid`` or ``v1``"""
    cmdline: str
    cpus_online: CpuSet
    cpus_isolated: CpuSet = field(default_factory=CpuSet)
    cpus_nohz_full: CpuSet = field(default_factory=CpuSet)
    hz: int | None = None
    """Timer ticks per second (CONFIG_HZ), where the kernel reports it."""
    bandwidth_slice_us: int | None = None
    """``kernel.sched_cfs_bandwidth_slice_us``"""
    idle_exit_us: int | None = None
    """Longest exit latency of an idle state that a CPU may enter, where the kernel has a table of them (cpuidle)."""
    throttle_model: str = "unknown"
    """``runqueue``, ``task`` (kernel 6.18: a task dequeues itself on its return to user mode) or ``unknown``."""
    sched_ext: str = "disabled"
    virtualization: str = "none"
    topology: dict[str, object] = field(default_factory=dict)
    pinproof: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything observed in one run. ``duration_ns`` is the judged window."""

    started_at: str
    """Wall clock, ISO 8601 with zone."""
    start_monotonic_ns: int
    duration_ns: int
    environment: Environment
    coverage: Coverage
    cpu_use: tuple[CpuUse, ...] = ()
    offenders: tuple[Offender, ...] = ()
    intruders: tuple[Intruder, ...] = ()
    thread_masks: tuple[ThreadMask, ...] = ()
    files_before: tuple[CgroupFiles, ...] = ()
    files_after: tuple[CgroupFiles, ...] = ()
    """Of a cgroup that ended while we watched: the last reading before its end."""
    files_during: tuple[CgroupFiles, ...] = ()
    """Readings in between (``at_ns`` since the window opened) that differ from the one before them, of the same cgroup;
    what it said before may have changed at any time since the reading before."""
    bandwidth: tuple[BandwidthUse, ...] = ()
    usage_bins: tuple[UsageBin, ...] = ()
    transitions: tuple[Transition, ...] = ()
    canaries: tuple[Canary, ...] = ()
    hotplug: tuple[HotplugEvent, ...] = ()
    steal_ns: int = 0
    """Time that the hypervisor took from this machine (``steal`` in /proc/stat), all CPUs."""
    run_delay_ns: dict[str, int] = field(default_factory=dict)
    """Per claim: time its tasks were runnable but waited, from /proc/<tid>/schedstat, where readable."""
    toolkit_cpu_ns: int = 0
    """CPU time of the toolkit itself during the window."""
    bpf_run_ns: int | None = None
    """Run time of our BPF programs by the kernel's statistics, where they are on."""
    runtime: Runtime | None = None
    pages: tuple[PageReading, ...] | None = None
    """Resident memory of the claims that were promised NUMA nodes; ``None``: not read."""
    hugetlb: tuple[HugetlbUse, ...] | None = None
    """Huge pages of the claims that were promised some; ``None``: not read."""
    devices: tuple[DevicePlace, ...] | None = None
    """The devices that claims name; ``None``: not read."""
    irq_use: tuple[IrqUse, ...] | None = None
    """Interrupts on the exclusive CPUs; ``None``: not observed."""
    steal_by_cpu_ns: dict[int, int] | None = None
    standstill_by_cpu_ns: dict[int, int] | None = None
    """For how long somebody ran on a CPU that took no timer interrupt, of CPUs with a sampler; ``None``: not observed.
    It stood still, whatever the cause; steal counts only the time in which the hypervisor ran another task."""
    cgroup_moves: tuple[CgroupMove, ...] = ()
    """Moves of tasks of claims, the first of each CPU."""
    affinity_changes: tuple[AffinityChange, ...] | None = None
    """By tasks of claims, to other tasks, or reaching a watched CPU: the first of each CPU; ``None``: not observed."""
    layers: tuple[LayerView, ...] = ()
    claim_changes: tuple[ClaimChange, ...] = ()
    """What was promised anew while we watched, in its order."""
    state_files: tuple[StateReading, ...] = ()
    picture: Picture | None = None
    """Set where there was no window: one reading of each source, nothing about time can be judged."""
