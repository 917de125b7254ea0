"""Writers of the cgroup file systems: make a cgroup, set its limits, and read back what the kernel made of them.

The reading half is :mod:`toolkit.host.cgroupfs`. Which cgroups exist and when is :mod:`toolkit.apply.sandbox`'s affair.

Source: Documentation/admin-guide/cgroup-v2.rst ("No Internal Process Constraint", "Controlling Controllers"),
cgroup-v1/cpusets.rst section 2, Documentation/scheduler/sched-bwc.rst; docs/facts.md K15, K16, K19, K20, "K-weight".
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

from toolkit.errors import ApplyError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.host.cgroupfs import NO_LIMIT
from toolkit.host.hugetlb import read_hugetlb, size_name
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import linear_weight, shares_of_weight
from toolkit.model.cpuset import CpuSet
from toolkit.model.memory_units import limit_in_force
from toolkit.model.sandbox import CgroupRequest

HUGETLB = "hugetlb"
UNIFIED = "unified"
"""Name of the v2 hierarchy in journals."""

_HINTS = {
    ("cpu.cfs_quota_us", errno.EINVAL): "quota and period must be >= 1000 us, period <= 1 s, and within the parent's",
    ("cpu.cfs_period_us", errno.EINVAL): "quota and period must be >= 1000 us, period <= 1 s, and within the parent's",
    ("cpu.max", errno.EINVAL): "quota and period must be >= 1000 us, period <= 1 s",
    ("cpu.cfs_burst_us", errno.EINVAL): "burst must not exceed the quota",
    ("cpu.max.burst", errno.EINVAL): "burst must not exceed the quota",
    ("cpuset.cpus", errno.EACCES): "the parent cgroup does not have all these CPUs",
    ("cpuset.cpus", errno.EINVAL): "not CPUs of this machine",
    ("cpuset.cpus", errno.EBUSY): "a child cgroup still has other CPUs",
    ("cpuset.cpus", errno.ENOSPC): "a cpuset with tasks cannot be empty",
    ("cpuset.mems", errno.EACCES): "the parent cgroup does not have all these NUMA nodes",
    ("cpuset.mems", errno.EINVAL): "not NUMA nodes of this machine",
    ("cgroup.subtree_control", errno.EBUSY): "the cgroup has processes of its own",
}


def write_once(path: Path, value: str) -> None:
    """Write a control file that exists with one ``write``; the kernel's refusal is an ``OSError``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def write_control(path: Path, value: str) -> None:
    """Write one control file with one ``write``.

    :raises ApplyError: the kernel refuses it.
    """
    try:
        write_once(path, value)
    except OSError as error:
        hint = _HINTS.get((path.name, error.errno or 0))
        why = f"{error.strerror}: {hint}" if hint else error.strerror
        raise ApplyError(f"{path}: the kernel refused {value!r} ({why})") from None


def hierarchies(hierarchy: Hierarchy, *, everything: bool) -> tuple[str, ...]:
    """Name the hierarchies that a sandbox may use; container runtimes use every one that exists."""
    wanted = ("cpuset", "cpu", "cpuacct", "memory")
    legacy = [name for name, _ in hierarchy.legacy if everything or name in wanted]
    return (*legacy, *((UNIFIED,) if hierarchy.unified is not None else ()))


def mount_of(hierarchy: Hierarchy, name: str) -> Path | None:
    """Return the mount point of a hierarchy named by :func:`hierarchies`, ``None`` if this host has none such."""
    return hierarchy.unified if name == UNIFIED else dict(hierarchy.legacy).get(name)


def member_mounts(hierarchy: Hierarchy, *, memory: bool) -> tuple[Path, ...]:
    """Return the hierarchies that a container's tasks join, in the order of joining.

    The v2 hierarchy comes last: it is the identity that the probes know, and a task must not have it before it has the
    cpuset.
    """
    legacy = dict(hierarchy.legacy)
    names = ("cpuset", "cpu", "cpuacct", *(("memory",) if memory else ()))
    mounts = [legacy[name] for name in names if name in legacy]
    if hierarchy.unified is not None:
        mounts.append(hierarchy.unified)
    return tuple(dict.fromkeys(mounts))


def make(hierarchy: Hierarchy, cgroup: str, request: CgroupRequest) -> None:
    """Make one cgroup below an existing parent in every hierarchy that it needs, and set its limits.

    :raises ApplyError: it exists, or the kernel refuses a value.
    """
    path = cgroupfs.relative(cgroup)
    for mount in member_mounts(hierarchy, memory=request.memory_max_bytes is not None):
        directory = mount / path
        if mount == hierarchy.unified:
            _delegate(directory.parent, _wanted(hierarchy))
            if request.hugepages and offered(hierarchy, HUGETLB):
                for parent in [mount / part for part in reversed(Path(path).parents)]:
                    _delegate(parent, (HUGETLB,))
        _make_directory(directory)
        if (directory / "cpuset.cpus").exists() and not hierarchy.is_v2("cpuset"):
            # v1 refuses tasks in a cpuset without CPUs or nodes (K16): start with the parent's.
            for name in ("cpuset.mems", "cpuset.cpus"):
                write_control(directory / name, (read_control(directory.parent / name) or "").strip())
    set_limits(hierarchy, cgroup, request)


def _make_directory(directory: Path) -> None:
    # A limit below a pod makes the pod's own directory necessary in that hierarchy too.
    missing = [parent for parent in directory.parents if not parent.exists()]
    try:
        for parent in reversed(missing):
            parent.mkdir(mode=0o755)
        directory.mkdir(mode=0o755)
    except OSError as error:
        # cgroup v1 charges a new cgroup to its parent's limit.
        hint = ": the memory limit above it has no room" if error.errno == errno.ENOMEM else ""
        raise ApplyError(f"{directory}: cannot make the cgroup ({error.strerror}{hint})") from None


def _wanted(hierarchy: Hierarchy) -> tuple[str, ...]:
    return tuple(name for name in ("cpuset", "cpu", "memory") if offered(hierarchy, name))


def offered(hierarchy: Hierarchy, controller: str) -> bool:
    """Return whether the v2 hierarchy offers the controller."""
    return hierarchy.is_v2(controller) and hierarchy.find_controller(controller) is not None


def _delegate(directory: Path, controllers: tuple[str, ...]) -> None:
    """Turn controllers on for the children of a v2 cgroup, those that are off."""
    enabled = (read_control(directory / "cgroup.subtree_control") or "").split()
    missing = [f"+{name}" for name in controllers if name not in enabled]
    if missing:
        write_control(directory / "cgroup.subtree_control", " ".join(missing))


def set_limits(hierarchy: Hierarchy, cgroup: str, request: CgroupRequest) -> None:
    """Write the limits of a request and compare what the kernel reads back.

    :raises ApplyError: refused, or read back differently.
    """
    if request.mems:
        set_mems(hierarchy, cgroup, request.mems)
    if request.cpus:
        set_cpus(hierarchy, cgroup, request.cpus)
    if request.quota_us is not None:
        set_bandwidth(hierarchy, cgroup, request.quota_us, request.period_us, request.burst_us)
    if request.shares is not None or request.weight is not None:
        set_weight(hierarchy, cgroup, shares=request.shares, weight=request.weight)
    if request.memory_max_bytes is not None:
        set_memory_max(hierarchy, cgroup, request.memory_max_bytes)
    for limit in request.hugepages:
        if offered(hierarchy, HUGETLB):
            set_hugepages(hierarchy, cgroup, limit.page_bytes, limit.limit_bytes)


def set_cpus(hierarchy: Hierarchy, cgroup: str, cpus: CpuSet) -> None:
    """Write ``cpuset.cpus``; when this returns, every task that was in the cgroup has been moved (K12)."""
    path = hierarchy.controller_dir("cpuset") / cgroupfs.relative(cgroup)
    write_control(path / "cpuset.cpus", str(cpus))
    _same(cgroup, "cpuset.cpus", cpus, cgroupfs.read_files(hierarchy, cgroup, 0).cpus)


def set_mems(hierarchy: Hierarchy, cgroup: str, mems: CpuSet) -> None:
    """Write ``cpuset.mems``."""
    path = hierarchy.controller_dir("cpuset") / cgroupfs.relative(cgroup)
    write_control(path / "cpuset.mems", str(mems))
    _same(cgroup, "cpuset.mems", mems, cgroupfs.read_files(hierarchy, cgroup, 0).mems)


def set_weight(hierarchy: Hierarchy, cgroup: str, *, shares: int | None, weight: int | None) -> None:
    """Write ``cpu.weight`` or ``cpu.shares``, whichever the hierarchy has.

    Where only the other unit is given it is converted: :mod:`toolkit.model.cpu_units`.
    """
    path = hierarchy.controller_dir("cpu") / cgroupfs.relative(cgroup)
    if hierarchy.is_v2("cpu"):
        if weight is None:
            assert shares is not None
            weight = linear_weight(shares)
        write_control(path / "cpu.weight", str(weight))
        _same(cgroup, "cpu.weight", weight, cgroupfs.read_files(hierarchy, cgroup, 0).weight)
        return
    if shares is None:
        assert weight is not None
        shares = shares_of_weight(weight)
    write_control(path / "cpu.shares", str(shares))
    _same(cgroup, "cpu.shares", shares, cgroupfs.read_files(hierarchy, cgroup, 0).shares)


def set_hugepages(hierarchy: Hierarchy, cgroup: str, page_bytes: int, limit_bytes: int) -> None:
    """Write the v2 limit of one huge page size (-1: none); the kernel keeps whole pages.

    :raises ApplyError: this kernel has no such size, or refuses.
    """
    name = f"hugetlb.{size_name(page_bytes)}.max"
    path = hierarchy.controller_dir(HUGETLB) / cgroupfs.relative(cgroup)
    write_control(path / name, "max" if limit_bytes == NO_LIMIT else str(limit_bytes))
    whole_bytes = limit_bytes // page_bytes * page_bytes
    wanted = NO_LIMIT if limit_bytes == NO_LIMIT else limit_in_force(whole_bytes, page_bytes)
    _same(cgroup, name, wanted, read_hugetlb(hierarchy, "", cgroup, page_bytes).limit_bytes)


def set_memory_max(hierarchy: Hierarchy, cgroup: str, limit_bytes: int) -> None:
    """Write the memory limit; the kernel rounds it down to pages, and takes one beyond its counter for none."""
    name = hierarchy.memory_limit_file
    path = hierarchy.controller_dir("memory") / cgroupfs.relative(cgroup)
    write_control(path / name, str(limit_bytes))
    expected = limit_in_force(limit_bytes // mmap.PAGESIZE * mmap.PAGESIZE)
    _same(cgroup, name, expected, cgroupfs.read_files(hierarchy, cgroup, 0).memory_max_bytes)


def set_bandwidth(hierarchy: Hierarchy, cgroup: str, quota_us: int, period_us: int, burst_us: int | None) -> None:
    """Write the CFS bandwidth of a cgroup, in steps that never allow more than the old or the new value does."""
    path = hierarchy.controller_dir("cpu") / cgroupfs.relative(cgroup)
    before = cgroupfs.read_files(hierarchy, cgroup, 0)
    v2 = hierarchy.is_v2("cpu")
    burst_file = path / ("cpu.max.burst" if v2 else "cpu.cfs_burst_us")
    if burst_us and before.burst_us is None:
        raise ApplyError(f"{burst_file}: this kernel has no CPU burst (it came with 5.14)")
    if before.burst_us and (burst_us or 0) < before.burst_us:
        # A quota below the present burst would be refused.
        write_control(burst_file, str(burst_us or 0))
    if v2:
        write_control(path / "cpu.max", f"{'max' if quota_us == NO_QUOTA else quota_us} {period_us}")
    else:
        _bandwidth_v1(path, quota_us, period_us, before.quota_us or NO_QUOTA, before.period_us or 100_000)
    if burst_us:
        # Written again even if unchanged: kernels before 49217ea147df let a write of cpu.max corrupt it (K20).
        write_control(burst_file, str(burst_us))
    after = cgroupfs.read_files(hierarchy, cgroup, 0)
    _same(cgroup, "CFS quota", quota_us, after.quota_us)
    _same(cgroup, "CFS period", period_us, after.period_us)
    if after.burst_us is not None:
        _same(cgroup, "CFS burst", burst_us or 0, after.burst_us)


def _bandwidth_v1(path: Path, quota_us: int, period_us: int, old_quota_us: int, old_period_us: int) -> None:
    quota = (path / "cpu.cfs_quota_us", str(quota_us))
    period = (path / "cpu.cfs_period_us", str(period_us))
    if quota_us == NO_QUOTA:
        quota_first = True
    elif old_quota_us == NO_QUOTA:
        quota_first = False
    else:
        quota_first = quota_us * period_us <= old_quota_us * old_period_us
    for file, value in (quota, period) if quota_first else (period, quota):
        write_control(file, value)


def _same(cgroup: str, what: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise ApplyError(f"{cgroup}: {what} was set to {str(wanted)!r} but reads back {str(found)!r}")
