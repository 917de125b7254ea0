"""How much of what happened was seen: the part of the evidence that says how far the rest can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.blind_spots import BlindSpot, ScanGap
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of what happened was seen.

    :param switches_judged: context switches that the ledger's program handled.
    :param switches_kernel: the kernel's own count (``ctxt`` in /proc/stat) over the same window.
    :param switches_skew: how much the two may differ because the counters are read one after the other: switches that
        happened between the paired reads.
    :param lost_events: ring buffer reserve failures (details lost; counters are not affected).
    :param map_full: failed map updates (counters incomplete).
    :param missed_runs: program runs that the kernel skipped (recursion, ``recursion_misses``).
    """

    switches_judged: int = 0
    switches_kernel: int = 0
    switches_skew: int = 0
    switches_untraced: int = 0
    """Switches in the kernel's count that its tracepoint never reports: of threads without a claim that it never named,
    by their own counters in /proc. ``switches_judged + switches_untraced`` compares with ``switches_kernel``."""
    lost_events: int = 0
    map_full: int = 0
    missed_runs: int = 0
    cpus_seen: CpuSet = field(default_factory=CpuSet)
    cpus_online: CpuSet = field(default_factory=CpuSet)
    cpus_unsampled: CpuSet = field(default_factory=CpuSet)
    """nohz_full CPUs that the CPU-clock sampler leaves alone."""
    sampler_hz: int = 0
    window_skew_ns: int = 0
    """How long it took to end the window on all CPUs, one after the other: what runs on a CPU is counted for at most so
    much longer than ``duration_ns``."""
    witness_skew_ns: int = 0
    """How long it took, at both ends together, from the first cgroup's CPU time to the ledger's own moment: what runs
    meanwhile is in one account only."""
    proc_scans: int = 0
    file_readings: int = 0
    """How often all control files were read while the window was open, its two ends not counted."""
    file_gap_ns: int = 0
    """The longest time between two readings of the control files, the ends of the window counted as readings: what was
    changed and put back meanwhile was not seen. 0 in runs from before it was measured."""
    cgroup_moves_dropped: int = 0
    affinity_changes_dropped: int = 0
    """Events lost, of ``cgroup_moves`` and ``affinity_changes``: no counter of the ledger is affected."""
    softirqs_judged: int = 0
    softirqs_kernel: int = 0
    softirqs_skew: int = 0
    """Softirqs on watched CPUs by the interrupt ledger and by the kernel's own count (/proc/softirqs), as for switches;
    all 0 where interrupts are not observed."""
    positive_control_latency_ms: float | None = None
    blind_spots: tuple[str, ...] = ()
    """The texts of ``blindness``; in runs from before it they are all there is, and weaken nothing."""
    blindness: tuple[BlindSpot, ...] = ()
    """What was not seen, each with the witnesses that it leaves doubtful."""
    scan_gaps: tuple[ScanGap, ...] = ()
    """How closely each claim's thread masks were followed; a row for each claim."""
