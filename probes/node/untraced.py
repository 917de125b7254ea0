"""Threads whose context switches the kernel counts but its tracepoint does not report.

Seen on hosts whose kernel hides the threads of a supervisor. They must not pass for loss of the ledger, nor may loss
pass for them: each is named, and counted by its own counters. A thread of a claim is never excused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from probes.masks.status import parse_status
from toolkit.host import procfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.task_switches import switches_and_threads
from toolkit.model.cpuset import CpuSet

LEAST_SWITCHES = 2
"""A thread that was switched out this often in the window and never seen by the ledger is hidden from it: one switch
may have been under way at the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """A hidden thread.

    :param cpus: where it may run, ``None``: it was gone before anything asked.
    :param cgroup: path in the v2 hierarchy, ``None``: as above.
    """

    name: str
    cpus: CpuSet | None = None
    cgroup: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Untraced:
    """What was hidden in one window.

    :param skew: how far ``switches`` may be off: the counters are read some milliseconds before and after the kernel's
        own total, and a thread with a single switch may be hidden or may have been switching at the edge.
    """

    switches: int
    skew: int
    threads: tuple[Hidden, ...]


Counts = Mapping[int, int]
"""Thread id -> how often the kernel says that it was switched out."""


def read_counts(root: Path, wanted: Callable[[int], bool], but: Collection[int] = ()) -> dict[int, int]:
    """Return the kernel's switch counts of all threads that are wanted. :param but: processes without any."""
    counts = {}
    place = str(root)
    for pid in procfs.pids(root):
        if pid in but:
            continue
        # Most processes have one thread, and say so in the file that has the counts: no need to list their threads.
        own = switches_and_threads(pid, place) if wanted(pid) else None
        if own is not None:
            counts[pid] = own[0]
        if own is None or own[1] != 1:
            counts |= read_again(root, (tid for tid in procfs.tids(pid, root) if tid != pid and wanted(tid)))
    return counts


def read_again(root: Path, tids: Iterable[int]) -> dict[int, int]:
    """Return the kernel's switch counts of these threads, as far as they are still there."""
    place = str(root)
    return {tid: found[0] for tid in tids if (found := switches_and_threads(tid, place)) is not None}


def untraced(
    first: tuple[Counts, Counts], last: tuple[Counts, Counts], claimed: frozenset[int], root: Path
) -> Untraced:
    """Sum up the threads that the ledger never saw, that ran meanwhile, and that have no claim.

    :param first, last: counts read before and after the kernel's total at both edges; at the last edge only of threads
        that the ledger never saw.
    """
    least, most = _moved(first[1], last[0], claimed), _moved(first[0], last[1], claimed)
    hidden = {tid for tid, count in most.items() if count >= LEAST_SWITCHES}
    low, high = (sum(max(0, moved.get(tid, 0)) for tid in hidden) for moved in (least, most))
    once = sum(1 for tid, count in most.items() if tid not in hidden and count > 0)
    threads = tuple(_hidden(root, tid) for tid in sorted(hidden))
    return Untraced(switches=(low + high) // 2, skew=(high - low + 1) // 2 + once, threads=threads)


def _hidden(root: Path, tid: int) -> Hidden:
    status = parse_status(read_control(root / f"proc/{tid}/status") or "")
    lines = (read_control(root / f"proc/{tid}/cgroup") or "").split("\n")
    cgroup = next((line[3:] for line in lines if line.startswith("0::")), None)
    if status is None:
        return Hidden(name=f"({tid}, gone)")
    return Hidden(name=f"{status.comm} ({tid})", cpus=status.cpus_allowed, cgroup=cgroup)


def _moved(before: Counts, after: Counts, claimed: frozenset[int]) -> dict[int, int]:
    """Return how often each thread was switched out that was there at both edges.

    Not of those born since: a soak counted them, and in 28 of 1,087 windows a short-lived task that the ledger had
    seen counted twice, as its number is another's by the time that the notes are asked.
    """
    return {tid: count - before[tid] for tid, count in after.items() if tid in before and tid not in claimed}
