"""Threads whose context switches the kernel counts but its tracepoint does not tell.

Seen on hosts whose kernel hides the threads of a supervisor. They must not pass for loss of the ledger, nor may loss
pass for them: each is named, and counted by its own counters. A thread of a claim is never excused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.host import procfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.task_switches import context_switches

LEAST_SWITCHES = 2
"""A thread that was switched out this often in the window and never seen by the ledger is hidden from it: one switch
may have been under way at the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untraced:
    """What was hidden in one window."""

    switches: int
    names: tuple[str, ...]


def read_counts(root: Path, wanted: Callable[[int], bool]) -> dict[int, int]:
    """Return the kernel's switch counts of all threads that are wanted."""
    counts = {}
    for pid in procfs.pids(root):
        for tid in procfs.tids(pid, root):
            if wanted(tid):
                count = context_switches(tid, root)
                if count is not None:
                    counts[tid] = count
    return counts


def untraced(before: Mapping[int, int], after: Mapping[int, int], claimed: frozenset[int], root: Path) -> Untraced:
    """Sum up the threads in ``after`` (those that the ledger never saw) that ran meanwhile and have no claim."""
    moved = {tid: count - before[tid] for tid, count in after.items() if tid in before and tid not in claimed}
    hidden = {tid: count for tid, count in moved.items() if count >= LEAST_SWITCHES}
    names = tuple(f"{(read_control(root / f'proc/{tid}/comm') or '').strip()} ({tid})" for tid in sorted(hidden))
    return Untraced(switches=sum(hidden.values()), names=names)
