"""What the witness of thread masks gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

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
    alike: tuple[int, ...] = ()
    """Further threads of the process, of higher ids, of which every reading said the same at the same times. Of a node
    with thousands of threads most are; elsewhere each has a row of its own."""

    @property
    def tids(self) -> tuple[int, ...]:
        """The threads that it is about."""
        return (self.tid, *self.alike)


def of_each(masks: Iterable[ThreadMask]) -> Iterator[ThreadMask]:
    """Yield a row for each thread, in the order of the rows."""
    for mask in masks:
        if mask.alike:
            yield from (replace(mask, tid=tid, alike=()) for tid in mask.tids)
        else:
            yield mask


def threads_of(masks: Iterable[ThreadMask]) -> frozenset[tuple[int, int]]:
    """Return process and thread ids of all that the rows are about."""
    return frozenset((mask.pid, tid) for mask in masks for tid in mask.tids)


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
