"""A container's cpuset is emptied, which on v2 means its parent's."""

from __future__ import annotations

from toolkit.faults import control_files
from toolkit.faults.fault import Alternatives, Fault, Masks, Scope
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import Isolation


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Empty CPUs and nodes of each target."""
    files = ("cpuset.cpus", "cpuset.mems")
    return (tuple(change for cgroup in injection.targets for change in control_files.emptied(host, cgroup, files)),)


FAULT = Fault(
    id="cpuset-emptied",
    scope=Scope.CGROUP,
    title="the cpuset is emptied as systemctl daemon-reload does it",
    changes="cpuset.cpus and cpuset.mems of the target become empty, so that it has its parent's; where there "
    "are tasks, and on cgroup v1, the kernel refuses an empty set: there the parent's values are written",
    field=("F13", "F19"),
    rules=("applied", "affinity-mask"),
    prepare=prepare,
    keeps=Masks.TARGETS,
    aims_at=Isolation.HOST,
)
