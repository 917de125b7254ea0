"""All threads of a container keep to one of its CPUs, as threads do that are never balanced (F36)."""

from __future__ import annotations

import contextlib
import os

from toolkit.errors import InputError
from toolkit.faults.fault import Alternatives, Deed, Fault, Masks, Scope, Target, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.cpuset import CpuSet
from toolkit.model.scenario import NegativeControl

ID = "pile-up"


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write no file: the masks that :func:`act` changes are kept with the journal."""
    for cgroup in injection.targets:
        if not cgroupfs.tids(host.hierarchy, cgroup):
            raise InputError(f"--target {cgroup}", "it has no thread", "a cgroup with threads to narrow")
    return ((),)


def act(deed: Deed) -> int:
    """Narrow the threads of all targets to the first of ``cpus`` (default: of the target's own)."""
    for cgroup in deed.injection.targets:
        cpus = deed.injection.cpus or cgroupfs.read_effective_cpus(deed.host.hierarchy, cgroup)
        narrow(deed.host.hierarchy, cgroup, cpus or deed.host.online())
    return 0


def narrow(hierarchy: Hierarchy, cgroup: str, cpus: CpuSet) -> None:
    """Let every thread of a cgroup narrow itself to the first of some CPUs."""
    done: set[int] = set()
    # Threads inherit the mask of their creator, so the last round finds no new thread.
    while fresh := set(cgroupfs.tids(hierarchy, cgroup)) - done:
        for tid in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(tid, {cpus.first()})
        done |= fresh


def _pile_up(_control: NegativeControl, target: Target) -> Injection:
    return Injection(fault=ID, targets=(target.cgroup,), cpus=target.cpus or target.online)


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="threads pile up on one CPU",
    changes="the affinity of every thread of the target becomes the first of its CPUs",
    field=("F36",),
    rules=("weight-share",),
    prepare=prepare,
    act=act,
    keeps=Masks.TARGETS,
    injectable=False,
    words=(Word(word="pile-up", when=When.SANDBOX, aim=_pile_up),),
)
