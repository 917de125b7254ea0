"""Whose task is that? Sorts tasks without a claim on watched CPUs into :class:`OwnerClass`.

Source: docs/facts.md K9 and K13; include/linux/sched.h for the flags (stable ABI of ``/proc/pid/stat`` field 9).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from probes.switches.records import CPUSET_SPACE, LEFT_VISIT, PODS_IDENT, IntruderKey, IntruderSums
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.procfs import PF_NO_SETAFFINITY
from toolkit.model.evidence import OwnerClass

PF_KTHREAD = 0x00200000


def classify(sums: IntruderSums, observer_pid: int, key: IntruderKey | None = None) -> OwnerClass:
    """Say which class a task belongs to, by where it was: one that was moved has a record for each cgroup. One that
    left a claim or a pod without ending is still of it, unless it was there on a visit.

    Only the observer's own threads are the toolkit's: whatever else pinproof starts, workloads above all, is a task
    like any other.
    """
    if sums.flags & PF_KTHREAD:
        percpu = sums.flags & PF_NO_SETAFFINITY and sums.nr_cpus_allowed == 1
        return OwnerClass.PERCPU_KTHREAD if percpu else OwnerClass.KTHREAD
    origin = key.origin if key is not None and not key.left & LEFT_VISIT else 0
    ident = sums.ident or origin
    if ident:
        return OwnerClass.FOREIGN_POD if ident == PODS_IDENT else OwnerClass.CLAIM
    return OwnerClass.TOOLKIT if sums.tgid == observer_pid else OwnerClass.SYSTEM


KEPT_WINDOWS, WALK_WINDOWS = 20, 10
"""So many windows after something last saw a cgroup, or asked for it, its path is forgotten; and so many are without a
walk at most."""


class CgroupNames:
    """Paths of cgroups by id, kept for a while after the cgroup is gone."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        assert hierarchy.unified is not None  # probes.loaded refuses the others
        self._unified = hierarchy.unified
        self._cpusets = None if hierarchy.is_v2("cpuset") else hierarchy.controller_dir("cpuset")
        self._paths: dict[int, str] = {}
        self._window = 0
        self._named: dict[int, int] = {}
        """In which window each was noted, seen or asked for last."""
        self._walks: tuple[int | None, int | None] = (None, None)
        """How many cgroups had been made when the last two windows were over in which all were looked for."""
        self._walked_in = 0
        """The last of these windows."""

    def __getitem__(self, cgroup_id: int) -> str:
        """Return the path below the cgroup root, or ``""`` if it vanished before anything looked."""
        if cgroup_id not in self._paths:
            if not cgroup_id & CPUSET_SPACE:
                self.refresh()
            elif self._cpusets is not None:
                self._walk(self._cpusets, CPUSET_SPACE)
            self._paths.setdefault(cgroup_id, "")
        self._named[cgroup_id] = self._window
        return self._paths[cgroup_id]

    def gone(self, cgroup_id: int) -> bool:
        """Return whether a cgroup was deleted: its path leads nowhere, or to another one of its name."""
        path, space = self[cgroup_id], cgroup_id & CPUSET_SPACE
        mount = self._cpusets if space else self._unified
        if mount is None or not path:
            return mount is not None
        try:
            return (mount / cgroupfs.relative(path)).stat().st_ino | space != cgroup_id
        except OSError:
            return True

    def note(self, cgroup_id: int, path: str) -> None:
        """Know the path of a cgroup that may be gone when it is asked for."""
        self._paths[cgroup_id], self._named[cgroup_id] = path, self._window

    def next_window(self, present: Iterable[int]) -> None:
        """Forget what nothing has named for long. :param present: ids of the cgroups that have claims."""
        self._window += 1
        self._named |= dict.fromkeys(self._paths.keys() & set(present), self._window)
        old = [number for number, window in self._named.items() if window < self._window - KEPT_WINDOWS]
        for number in old:
            del self._paths[number], self._named[number]

    def refresh(self) -> None:
        """Walk the hierarchy and remember what is there. No two cgroups have one number, and none is renamed."""
        self._walk(self._unified)

    def refresh_once(self, made: int | None) -> None:
        """Do that at the end of a window, where cgroups were made since it was done at the ends of two: one that was
        being made at the first could not be seen.

        :param made: how many cgroups of the machine were made until now; ``None``: nothing counts them.
        """
        if made is not None and self._walks == (made, made) and self._window - self._walked_in < WALK_WINDOWS:
            return
        self._walks, self._walked_in = (self._walks[1], made), self._window
        self.refresh()

    def _walk(self, mount: Path, space: int = 0) -> None:
        for directory, inode in cgroupfs.directories(str(mount)):
            number = inode | space
            self._named[number] = self._window
            if not self._paths.get(number):
                self._paths[number] = cgroupfs.spelt(directory, mount)
