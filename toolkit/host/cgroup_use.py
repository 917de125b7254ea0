"""What the cgroups of a machine are used for: the CPUs that each grants, and which processes are in it.

Facts only; :mod:`toolkit.session.planning.guard` says what follows. Source: cgroup-v2.rst; cgroup-v1/cpusets.rst.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroup_paths import mounts, relative
from toolkit.host.cgroupfs import Hierarchy
from toolkit.model.cpuset import CpuSet

MAX_CGROUPS = 20_000
"""How many are looked at; a machine with more is at work by any measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupUse:
    """One cgroup. :param cpus: the effective set; ``None``: it has no cpuset of its own. :param pids: of its own."""

    path: str
    cpus: CpuSet | None
    pids: frozenset[int] = field(default_factory=frozenset)


def read_cgroup_use(hierarchy: Hierarchy) -> tuple[CgroupUse, ...]:
    """Return every cgroup of the hierarchies that matter, the root first."""
    found = []
    for path in cgroupfs.subtree(hierarchy, "/")[:MAX_CGROUPS]:
        pids: set[int] = set()
        for mount in mounts(hierarchy):
            words = (read_control(mount / relative(path) / "cgroup.procs") or "").split()
            pids.update(int(word) for word in words if word.isdigit())
        cpus = cgroupfs.read_effective_cpus(hierarchy, path)
        found.append(CgroupUse(path=path, cpus=cpus, pids=frozenset(pids)))
    return tuple(found)
