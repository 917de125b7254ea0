"""What the witnesses of the node give: the kernel's own counts, threads that it hides, CPUs that come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.serde import CpuId, stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class HotplugEvent:
    """A CPU that went offline or came online while we watched."""

    cpu: CpuId
    online: bool
    at_ns: int


@stage_value
@dataclass(frozen=True, kw_only=True)
class HotplugEvidence:
    """Of one window."""

    hotplug: tuple[HotplugEvent, ...] = ()


@stage_value
@dataclass(frozen=True, kw_only=True)
class WaitEvidence:
    """How long the claims' threads waited."""

    run_delay_ns: dict[str, int] = field(default_factory=dict)
    """Per claim: time its tasks were runnable but waited, from /proc/<tid>/schedstat, where readable."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class SystemEvidence:
    """What the machine lost to others."""

    steal_ns: int = 0
    """Time that the hypervisor took from this machine (``steal`` in /proc/stat), all CPUs."""
    steal_by_cpu_ns: dict[int, int] | None = None


@stage_value
@dataclass(frozen=True, kw_only=True)
class SystemCoverage:
    """The kernel's own count of switches, which the ledger's is compared with.

    :param switches_kernel: the kernel's own count (``ctxt`` in /proc/stat) over the same window.
    :param switches_skew: how much the two may differ because the counters are read one after the other: switches that
        happened between the paired reads.
    """

    switches_kernel: int = 0
    switches_skew: int = 0
    switches_kernel_least: int = 0
    """The kernel's count of a time that lies within the window, where ``switches_kernel`` is that of one that holds it.
    0 in runs from before both were kept: ``switches_kernel`` lay in the middle, ``switches_skew`` to both sides."""
    switches_untraced: int = 0
    """Switches in the kernel's count that its tracepoint never reports: of threads without a claim that it never named,
    by their own counters in /proc. ``switches_judged + switches_untraced`` compares with ``switches_kernel``."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class OwnEvidence:
    """What we cost ourselves."""

    toolkit_cpu_ns: int = 0
    """CPU time of the toolkit itself during the window."""
    bpf_run_ns: int | None = None
    """Run time of our BPF programs by the kernel's statistics, where they are on."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class OwnCoverage:
    """What our programs missed.

    :param missed_runs: program runs that the kernel skipped (recursion, ``recursion_misses``).
    """

    missed_runs: int = 0
