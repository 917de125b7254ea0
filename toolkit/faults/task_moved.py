"""A process leaves its container's cgroup, and with it everything that the container was promised."""

from __future__ import annotations

from toolkit.apply import cgroups
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.errors import InputError
from toolkit.faults.fault import Alternatives, Fault, Masks, Scope
from toolkit.faults.injection import Host, Injection
from toolkit.host import cgroupfs, procfs
from toolkit.host.cgroup_mounts import read_control


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Move a process of the first target to a new cgroup beside its pod: one that has no children there."""
    cgroup = injection.targets[0]
    guest = host.guest(cgroup)
    path = cgroupfs.relative(cgroup)
    members = {}
    for name in guest.hierarchies:
        mount = cgroups.mount_of(host.hierarchy, name)
        assert mount is not None
        members[name] = {int(word) for word in (read_control(mount / path / "cgroup.procs") or "").split()}
    pids = sorted(set().union(*members.values()))
    if not pids:
        raise InputError(f"--target {cgroup}", "it has no process", "a cgroup with a process to move")
    # A main process may only wait for its children. Numbers do not say what is younger: they begin again at the top.
    parents = {pid for pid in pids if set(procfs.children(pid, host.root) or ()) & set(pids)}
    pid = next((one for one in reversed(pids) if one not in parents), pids[-1])
    began = procfs.start_time(pid, host.root)
    if began is None:
        raise InputError(f"--target {cgroup}", f"process {pid} has just ended", "a cgroup whose processes stay")
    moved = HostChange(
        kind=ChangeKind.MEMBER,
        before=cgroup,
        after=guest.path,
        hierarchies=tuple(name for name in guest.hierarchies if pid in members[name]),
        pid=pid,
        start_time=began,
    )
    return ((guest, moved),)


FAULT = Fault(
    id="task-moved",
    scope=Scope.CGROUP,
    title="a task is moved out of its cgroup",
    changes="a process of the target, one that has no children there, moves to a new cgroup beside the pod, in every "
    "hierarchy",
    field=("F46", "F47"),
    rules=("exclusive-cpus",),
    prepare=prepare,
    keeps=Masks.TARGETS,
)
