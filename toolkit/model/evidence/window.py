"""What belongs to no single witness: the window, the machine, changes of claims."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.claim_changes import ClaimChange
from toolkit.model.cpuset import CpuSet
from toolkit.model.identity import Identity
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of a claim while it was watched, its mask or its existence: what the kernel side was told, from when to
    when that took and by what, of which the timeline is made.
    """

    claim: str
    what: str
    start_at_ns: int
    end_at_ns: int
    cpus_before: CpuSet | None = None
    cpus_after: CpuSet | None = None
    cause: str = "toolkit"
    held_at_ns: int | None = None
    """Nothing writes it, and no rule asks for it: runs that were saved with this key can still be read."""


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
    identity: Identity | None = None
    """Whose it is; ``None`` in runs from before it was saved."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class WindowEvidence:
    """When and where it was."""

    started_at: str
    """Wall clock, ISO 8601 with zone."""
    start_monotonic_ns: int
    duration_ns: int
    environment: Environment


@stage_value
@dataclass(frozen=True, kw_only=True)
class ClaimChangeEvidence:
    """What was promised anew while the window was open, in its order, and just after it.

    What the first readings after a window promise anew may have been written within it.
    """

    claim_changes: tuple[ClaimChange, ...] = ()
