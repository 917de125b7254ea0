"""Nothing is left for the containers of the shared pool, and the empty set gives them everything."""

from __future__ import annotations

from toolkit.faults import control_files
from toolkit.faults.fault import Alternatives, Fault, Masks, Scope
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import Isolation


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Empty the CPUs of each target."""
    files = ("cpuset.cpus",)
    return (tuple(change for cgroup in injection.targets for change in control_files.emptied(host, cgroup, files)),)


FAULT = Fault(
    id="pool-emptied",
    scope=Scope.CGROUP,
    title="the shared pool becomes empty",
    changes="cpuset.cpus of all targets (the containers of the pool) becomes empty, so that they have their "
    "parent's CPUs, exclusive ones too; where there are tasks, and on cgroup v1, the parent's CPUs are written",
    field=("F2", "F3", "F33"),
    rules=("applied", "affinity-mask"),
    prepare=prepare,
    keeps=Masks.TARGETS,
    aims_at=Isolation.HOST,
)
