"""A cgroup's memory limit becomes twice what it was promised: it may take what others were promised."""

from __future__ import annotations

from toolkit.apply.change import HostChange
from toolkit.errors import InputError
from toolkit.faults import control_files
from toolkit.faults.fault import AT_ONCE_S, Alternatives, Fault, Scope, Target, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import NO_LIMIT
from toolkit.model.scenario import NegativeControl

ID = "memory-raised"
FACTOR = 2
"""Not "no limit": cgroup v1 reads that back as a number of its own."""


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write twice the limit of each target."""
    return (tuple(_raised(host, cgroup) for cgroup in injection.targets),)


def _raised(host: Host, cgroup: str) -> HostChange:
    limit = cgroupfs.read_files(host.hierarchy, cgroup, 0).memory_max_bytes
    if limit is None or limit == NO_LIMIT:
        raise InputError(f"--target {cgroup}", "it has no memory limit", "a cgroup with one")
    return control_files.write(host, "memory", cgroup, host.hierarchy.memory_limit_file, str(limit * FACTOR))


def _raise(_control: NegativeControl, target: Target) -> Injection:
    return Injection(fault=ID, targets=(target.cgroup,))


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="the memory limit is raised",
    changes="memory.max (memory.limit_in_bytes) of the target becomes twice what it is",
    field=(),
    rules=("applied",),
    prepare=prepare,
    injectable=False,
    # Of a container, a pod or a QoS class that has a limit.
    words=(Word(word="raise-memory", when=When.SANDBOX, watch_s=AT_ONCE_S, aim=_raise),),
)
