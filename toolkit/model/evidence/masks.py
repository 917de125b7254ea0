"""What the witness of thread masks gives."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.blind_spots import ScanGap
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMask:
    """One distinct Cpus_allowed/Mems_allowed of a thread, from ``/proc/<tid>/status`` or the kernel's list of tasks."""

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
@dataclass(frozen=True, kw_only=True)
class MaskEvidence:
    """Of one window."""

    thread_masks: tuple[ThreadMask, ...] = ()


@stage_value
@dataclass(frozen=True, kw_only=True)
class MaskCoverage:
    """How closely threads were followed."""

    proc_scans: int = 0
    scan_gaps: tuple[ScanGap, ...] = ()
    """How closely each claim's thread masks were followed; a row for each claim."""
