"""Another writes the NUMA nodes that a container's memory may lie on."""

from __future__ import annotations

from toolkit.faults import control_files
from toolkit.faults.fault import AT_ONCE_S, Alternatives, Fault, Scope, Target, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.model.scenario import NegativeControl

ID = "mems-write"


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write ``mems``, or all nodes that the target's parent has."""
    return (control_files.cpusets(host, injection.targets, "cpuset.mems", injection.mems),)


def _widen(_control: NegativeControl, target: Target) -> Injection:
    return Injection(fault=ID, targets=(target.cgroup,), mems=target.memory_nodes)


def _nothing_to_widen(target: Target) -> str | None:
    if target.memory_nodes <= (target.mems or target.memory_nodes):
        return f"{target.claim} has memory on all nodes ({target.memory_nodes}) anyway: nothing to widen"
    return None


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="another program writes the memory nodes",
    changes="cpuset.mems of the target becomes all nodes that have memory",
    field=("F13",),
    rules=("applied", "mems-containment"),
    prepare=prepare,
    injectable=False,
    words=(Word(word="widen-mems", when=When.SANDBOX, watch_s=AT_ONCE_S, aim=_widen, idle=_nothing_to_widen),),
)
