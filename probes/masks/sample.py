"""The second witness of the iterator: some threads in each scan, all in turn, are read from ``/proc`` as well.

What a pass says of a thread must be what ``/proc`` said just before it. Masks and names do change, so where it is not,
``/proc`` is read again; where that says the same on both sides, the next scans look at the same thread again. A
disagreement that stands is a blind spot of the masks, and so is a thread that the cgroup lists and that no pass meets.

Claims come in their order, each one's threads by their numbers, so every thread has its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from probes.masks.joining import inside
from probes.masks.records import Layout, TaskMasks
from probes.masks.thread import Thread
from probes.subjects import Subject
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroupfs import Hierarchy

THREADS = 128
"""In each scan, where the claims have as many: a pass over ten thousand costs three times as much. A claim's list of
threads counts as one."""
STANDS = 3
"""Scans in a row in which a disagreement is met: a thread that changes its masks all the time is not, for long, the
same on both sides of each pass and different in it."""
MAX_DOUBTED = 64
"""Threads that are looked at again."""
_NAME_BYTES = 15

Lists = list[tuple[Subject, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Due:
    """Threads whose turn it is, and the lists of those claims' threads that were read for it."""

    threads: list[tuple[Subject, int]]
    lists: Lists


class Sample:
    """Whose turn it is, and which threads are doubted; as long as the observer."""

    def __init__(self, hierarchy: Hierarchy, root: Path) -> None:
        self._hierarchy, self._root = hierarchy, root
        self._next = (0, 0)
        """Ident and thread id from which on it goes on."""
        self._doubted: dict[tuple[int, int], int] = {}
        self._doubted_before = self._doubted
        """By ident and thread id: in how many scans in a row a disagreement was met, in this one and until the last."""

    def due(self, subjects: Iterable[Subject]) -> Due:
        """Begin with a scan: return the doubted threads, and those whose turn it is."""
        ordered = sorted(subjects, key=lambda subject: subject.ident)
        begin = next((at for at, one in enumerate(ordered) if one.ident >= self._next[0]), 0)
        known = {subject.ident: subject for subject in ordered}
        self._doubted_before, self._doubted = self._doubted, {}
        doubted = [(known[ident], tid) for ident, tid in self._doubted_before if ident in known]
        due, left = Due(doubted, []), THREADS
        for subject in ordered[begin:] + ordered[:begin]:
            tids = cgroupfs.tids(self._hierarchy, subject.claim.cgroup)
            first = self._next[1] if subject.ident == self._next[0] else 0
            waiting = [tid for tid in tids if tid >= first]
            due.threads.extend((subject, tid) for tid in waiting[:left])
            due.lists.append((subject, tids))
            whole = len(waiting) <= left
            self._next = (subject.ident + 1, 0) if whole else (subject.ident, waiting[left])
            left -= len(waiting) + 1
            if left <= 0:
                break
        return due

    def doubt(
        self,
        subject: Subject,
        before: Thread,
        task: TaskMasks | None,
        again: Callable[[int], Thread | None],
        layout: Layout,
    ) -> str:
        """Compare what ``/proc`` said before a pass with what the pass said; returns a disagreement that stands.

        :param again: reads ``/proc`` once more.
        """
        if _alike(before, task, layout) or again(before.tid) != before or not self._member(subject, before.tid):
            return ""
        key = (subject.ident, before.tid)
        times = self._doubted_before.get(key, 0) + 1
        if len(self._doubted) < MAX_DOUBTED:
            self._doubted[key] = times
        if times < STANDS:
            return ""
        named = f"thread {before.tid} ({before.comm}) of {subject.name}"
        if task is None:
            return f"{named} is not among its threads in the kernel's list of all tasks"
        return f"{named} has {_shown(before)} by /proc, and {_shown(task.thread)} by the kernel's list of all tasks"

    def _member(self, subject: Subject, tid: int) -> bool:
        return inside(read_control(self._root / f"proc/{tid}/cgroup") or "", "", subject.claim.cgroup)


def _alike(before: Thread, task: TaskMasks | None, layout: Layout) -> bool:
    if task is None:
        return False
    listed = task.thread
    # A kernel thread's name is longer in /proc, and says what it works on.
    same = before.comm == listed.comm or task.of_kernel
    return same and (before.pid, layout.known(before.masks), before.policy) == (listed.pid, listed.masks, listed.policy)


def _shown(thread: Thread) -> str:
    masks = thread.masks
    return f"CPUs {masks.cpus}, memory nodes {masks.mems}, policy {thread.policy} ({thread.comm}, process {thread.pid})"
