"""A task of no container runs on a CPU that a container owns (the task: ``rogue.py``)."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit.apply import cgroups, launch
from toolkit.apply.launch import Started
from toolkit.apply.workloads import Command
from toolkit.errors import InputError
from toolkit.faults.fault import Alternatives, Deed, Fault, Scope
from toolkit.faults.injection import Host, Injection
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

ID = "rogue-task"
PROGRAM = Path(__file__).resolve().parent / "rogue.py"


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Make a cgroup beside the target's pod; the task comes with :func:`act`."""
    _place(host, injection)
    return ((host.guest(injection.targets[0]),),)


def _place(host: Host, injection: Injection) -> CpuSet:
    """Return the CPU that the task is pinned to."""
    own = cgroupfs.read_effective_cpus(host.hierarchy, injection.targets[0])
    cpus = injection.cpus or own
    if not cpus or not cpus <= host.online():
        raise InputError("--cpus", str(cpus or "none"), f"a CPU that is online ({host.online()})")
    return CpuSet.of([cpus.first()])


def act(deed: Deed) -> int:
    """Start the task in the new cgroup, and return its process id when it works."""
    host, (guest, *_) = deed.host, deed.changes
    path = cgroupfs.relative(guest.path)
    stderr = deed.run.directory / "rogue.stderr"
    what = f"inject {ID}"
    mounts = [cgroups.mount_of(host.hierarchy, name) for name in guest.hierarchies]
    process = launch.spawn(
        (sys.executable, "-ISE", str(PROGRAM), str(_place(host, deed.injection).first())),
        cpus=None,
        procs=tuple(mount / path / "cgroup.procs" for mount in mounts if mount is not None),
        stderr=stderr,
        what=what,
        directory=deed.run.directory,
    )
    deed.children.append(process)
    started = Started(process.pid, process)
    command = Command(argv=(), comm="pinproof-rogue", workers=0)
    launch.await_ready(started, command, what=what, stderr=stderr)
    return process.pid


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="a rogue task is pinned to an exclusive CPU",
    changes="a new cgroup beside the target's pod, in it a busy task pinned to --cpus (default: the target's first)",
    field=("F2", "F7", "F8"),
    rules=("exclusive-cpus",),
    prepare=prepare,
    act=act,
    about_a_cpu=True,
    consequences=(),
)
