"""Changes of a cgroup's control files that several faults are made of. Reads the host, writes nothing.

Source: ``docs/facts.md`` K12-K20.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from toolkit import presence
from toolkit.apply import changes
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.errors import InputError
from toolkit.faults.injection import Host
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet


def write(host: Host, controller: str, cgroup: str, name: str, after: str) -> HostChange:
    """Return the change that gives one control file another content.

    :raises InputError: there is no such file, or it says so already.
    """
    change = _content(host, controller, cgroup, name, after)
    if changes.same(name, change.before, after):
        raise InputError(
            f"--target {cgroup}", f"{name} is {change.before.strip()!r} already", "a fault that changes something"
        )
    return change


def _content(host: Host, controller: str, cgroup: str, name: str, after: str) -> HostChange:
    path, before = host.control(controller, cgroup, name)
    return HostChange(kind=ChangeKind.CONTROL, path=path, before=before, after=after)


def cpusets(host: Host, cgroups: Iterable[str], name: str, wanted: CpuSet | None) -> tuple[HostChange, ...]:
    """Return the changes that give ``cpuset.cpus`` or ``cpuset.mems`` of cgroups other content.

    :param wanted: ``None`` or empty: all that each cgroup's parent has. :raises InputError: as :func:`write`.
    """
    return tuple(write(host, "cpuset", cgroup, name, str(wanted or parents(host, cgroup, name))) for cgroup in cgroups)


def parents(host: Host, cgroup: str, name: str) -> CpuSet:
    """Return the CPUs or nodes of the nearest cgroup above that has any."""
    above = cgroup.rpartition("/")[0]
    while above:
        files = cgroupfs.read_files(host.hierarchy, above, 0)
        found = files.cpus_effective if name == "cpuset.cpus" else files.mems_effective
        if found:
            return found
        above = above.rpartition("/")[0]
    return host.online() if name == "cpuset.cpus" else host.memory_nodes()


def emptied(host: Host, cgroup: str, files: tuple[str, ...]) -> tuple[HostChange, ...]:
    """Return the changes that empty files of a cpuset.

    No kernel takes an empty set where there are tasks (``validate_change``: ENOSPC): the parent's is written there.

    :raises InputError: it has nothing of its own.
    """
    directory = host.hierarchy.controller_dir("cpuset") / cgroupfs.relative(cgroup)
    populated = "populated 1" in (read_control(directory / "cgroup.events") or "").split("\n")
    can_be_empty = host.hierarchy.is_v2("cpuset") and not populated
    made = []
    for name in files:
        change = _content(host, "cpuset", cgroup, name, "" if can_be_empty else str(parents(host, cgroup, name)))
        # What is empty already has its parent's, and could not be made empty again.
        if change.before.strip() and not changes.same(name, change.before, change.after):
            made.append(change)
    if not made:
        raise InputError(f"--target {cgroup}", "it has its parent's CPUs already", "a cgroup with CPUs of its own")
    return tuple(made)


def bandwidth(host: Host, cgroup: str, quota_us: int, period_us: int | None = None) -> tuple[HostChange, ...]:
    """Return the changes that give a cgroup another CFS quota.

    :param quota_us: -1 for none. :param period_us: ``None`` leaves the period as it is.
    :raises InputError: it has no quota file, or has this bandwidth already.
    """
    if host.hierarchy.is_v2("cpu"):
        period = period_us or int(host.control("cpu", cgroup, "cpu.max")[1].split()[-1])
        return (write(host, "cpu", cgroup, "cpu.max", f"{'max' if quota_us < 0 else quota_us} {period}"),)
    if period_us is None:
        return (write(host, "cpu", cgroup, "cpu.cfs_quota_us", str(quota_us)),)
    return _two_files(host, cgroup, quota_us, period_us)


def _two_files(host: Host, cgroup: str, quota_us: int, period_us: int) -> tuple[HostChange, ...]:
    """v1 refuses any step that is more than the pod's: the way there, and back, leads over the smaller bandwidth."""
    found = {}
    for name, wanted in (("cpu.cfs_quota_us", quota_us), ("cpu.cfs_period_us", period_us)):
        found[name] = _content(host, "cpu", cgroup, name, str(wanted))
    quota, period = (int(change.before) for change in found.values())
    # That of the new quota in the old period, or that of the old quota in the new period.
    quota_first = quota_us < 0 or (quota >= 0 and quota_us * period_us <= quota * period)
    made = [change for change in found.values() if int(change.before) != int(change.after)]
    if not made:
        raise InputError(f"--target {cgroup}", f"its bandwidth is {quota}/{period} us already", "another one")
    return tuple(made if quota_first else reversed(made))


def pods_quota(host: Host, cgroup: str, quota_us: int, period_us: int) -> tuple[HostChange, ...]:
    """Return the change that lifts the quota of a container's pod, if that is the tighter one; else nothing.

    The pod's own quota would still hold the container back, and v1 refuses a child above its parent.
    """
    pod = cgroup.rpartition("/")[0]
    files = cgroupfs.read_files(host.hierarchy, pod, 0)
    if files.quota_us is None or files.quota_us <= 0:
        return ()
    if quota_us >= 0 and quota_us * (files.period_us or 100_000) <= files.quota_us * period_us:
        return ()
    return bandwidth(host, pod, NO_QUOTA)


def every(host: Host, cgroup: str, controller: str, pattern: str, after: str) -> tuple[HostChange, ...]:
    """Return the changes of all files of a cgroup that a pattern names and that say something else.

    :raises InputError: there are none.
    """
    directory = host.hierarchy.controller_dir(controller) / cgroupfs.relative(cgroup)
    names = [path.name for path in presence.below(Path(directory), pattern)]
    found = ((name, _content(host, controller, cgroup, name, after)) for name in names)
    made = [change for name, change in found if not changes.same(name, change.before, after)]
    if not made:
        raise InputError(f"--target {cgroup}", f"no {pattern} but {after!r}", "a cgroup with such a limit")
    return tuple(made)
