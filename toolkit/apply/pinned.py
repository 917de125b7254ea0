"""Tasks of our own that nothing on the host has to change for: an identity in the v2 hierarchy, and an affinity.

A sandbox turns controllers on at the v2 root, which is another's; on kernels before 6.2 that resets the affinity
of every task (docs/facts.md K11). Whatever only watches makes two empty cgroups without any controller instead, and
pins the tasks in them with ``sched_setaffinity``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply import cgroups, runs
from toolkit.apply.cgroupfs_runtime import CgroupfsRuntime
from toolkit.apply.unwind import signals_unwind
from toolkit.errors import ApplyError
from toolkit.host import cgroupfs, procfs
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.cpuset import CpuSet
from toolkit.model.runtimes import CGROUPFS
from toolkit.model.sandbox import Workload


@dataclass(frozen=True, slots=True)
class Pinned:
    """The tasks while they run. :param cgroups: name -> cgroup, which exists in the v2 hierarchy alone."""

    hierarchy: Hierarchy
    cgroups: Mapping[str, str]

    def set_cpus(self, name: str, cpus: CpuSet) -> None:
        """Pin all threads of one name to other CPUs."""
        for pid in cgroupfs.pids(self.hierarchy, self.cgroups[name]):
            for tid in procfs.tids(pid):
                _pin(tid, cpus, name)


def _pin(tid: int, cpus: CpuSet, name: str) -> None:
    try:
        os.sched_setaffinity(tid, cpus)
    except ProcessLookupError:
        return
    except OSError as error:
        raise ApplyError(f"{name}: cannot be pinned to CPUs {cpus}: {error.strerror}") from None


@contextlib.contextmanager
def pinned(
    names: tuple[str, ...], workload: Workload, cpus: CpuSet, *, run_id: str, root: Path = Path("/")
) -> Iterator[Pinned]:
    """Run the workload once for each name, all on ``cpus``, until the block ends; journal first, as a sandbox.

    :raises HostUnsupportedError: a pure v1 host.
    :raises ApplyError: the kernel refuses something; nothing is left.
    """
    hierarchy = cgroupfs.detect(root)
    places = {name: f"{runs.top(run_id)}/{name}" for name in names}
    top = cgroupfs.identity_dir(hierarchy, runs.top(run_id))
    with signals_unwind():
        run, _ = runs.begin(root, hierarchy, run_id, runtime=CGROUPFS, only=(cgroups.UNIFIED,))
        runtime = CgroupfsRuntime(hierarchy, run.directory)
        try:
            for directory in (top, *(cgroupfs.identity_dir(hierarchy, place) for place in places.values())):
                _make(directory)
            roots = _roots(hierarchy)
            procs = {name: (*roots, _procs(hierarchy, place)) for name, place in places.items()}
            runtime.spawn_pinned(procs, workload, cpus)
            yield Pinned(hierarchy, places)
        finally:
            runs.end(root, hierarchy, run)
            runtime.reap()


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o755)
    except OSError as error:
        raise ApplyError(f"{directory}: cannot make the cgroup ({error.strerror})") from None


def _procs(hierarchy: Hierarchy, cgroup: str) -> Path:
    return cgroupfs.identity_dir(hierarchy, cgroup) / "cgroup.procs"


def _roots(hierarchy: Hierarchy) -> tuple[Path, ...]:
    """On a hybrid host our own v1 cgroups may hold us on few CPUs or to a quota; at the roots nothing holds a task."""
    legacy = dict(hierarchy.legacy)
    mounts = dict.fromkeys(legacy[name] for name in ("cpuset", "cpu") if name in legacy)
    return tuple(mount / "cgroup.procs" for mount in mounts)
