"""Whose task is that? Sorts tasks without a claim on watched CPUs into :class:`OwnerClass`.

Source: docs/facts.md K9 and K13; include/linux/sched.h for the flags (stable ABI of ``/proc/pid/stat`` field 9).
"""

from __future__ import annotations

from probes.switches.records import IntruderSums
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.model.evidence import OwnerClass

PF_KTHREAD = 0x00200000
PF_NO_SETAFFINITY = 0x04000000
"""Userland may not meddle with cpus_mask: together with a single allowed CPU, a thread of that CPU."""


def classify(sums: IntruderSums, observer_pid: int) -> OwnerClass:
    """Say which class a task belongs to, by where it was: one that was moved has a record for each cgroup.

    Only the observer's own threads are the toolkit's: whatever else pinproof starts, workloads above all, is a task
    like any other.
    """
    if sums.flags & PF_KTHREAD:
        percpu = sums.flags & PF_NO_SETAFFINITY and sums.nr_cpus_allowed == 1
        return OwnerClass.PERCPU_KTHREAD if percpu else OwnerClass.KTHREAD
    if sums.in_pods:
        return OwnerClass.FOREIGN_POD
    return OwnerClass.TOOLKIT if sums.tgid == observer_pid else OwnerClass.SYSTEM


class CgroupNames:
    """Paths of cgroups by id, kept after the cgroup is gone."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        assert hierarchy.unified is not None  # probes.loaded refuses the others
        self._unified = hierarchy.unified
        self._paths: dict[int, str] = {}

    def __getitem__(self, cgroup_id: int) -> str:
        """Return the path below the cgroup root, or ``""`` if it vanished before anybody looked."""
        if cgroup_id not in self._paths:
            self.refresh()
            self._paths.setdefault(cgroup_id, "")
        return self._paths[cgroup_id]

    def note(self, cgroup_id: int, path: str) -> None:
        """Know the path of a cgroup that may be gone when it is asked for."""
        self._paths[cgroup_id] = path

    def refresh(self) -> None:
        """Walk the hierarchy and remember what is there. No two cgroups have one number, and none is renamed."""
        for directory, number in cgroupfs.directories(str(self._unified)):
            if not self._paths.get(number):
                self._paths[number] = cgroupfs.spelt(directory, self._unified)
