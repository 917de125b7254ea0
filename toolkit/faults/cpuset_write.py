"""Another writes a container's cpuset: a CPU manager of another make, an operator's shell, a runtime's update."""

from __future__ import annotations

from toolkit.errors import InputError
from toolkit.faults import control_files
from toolkit.faults.fault import AT_ONCE_S, Alternatives, Fault, Masks, Scope, Target, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import WorkloadKind
from toolkit.model.scenario import NegativeControl

ID = "cpuset-write"


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write ``cpus``, or all that the target's parent has."""
    return (control_files.cpusets(host, injection.targets, "cpuset.cpus", injection.cpus),)


def _widen(_control: NegativeControl, target: Target) -> Injection:
    return Injection(fault=ID, targets=(target.cgroup,), cpus=target.online)


def _nothing_to_widen(target: Target) -> str | None:
    if target.online <= (target.cpus or target.online):
        return f"{target.claim} has all CPUs ({target.online}) anyway: nothing to widen"
    return None


def _narrow(control: NegativeControl, target: Target) -> Injection:
    cpus = target.cpus or target.online
    if len(cpus) < 2:
        raise InputError(f"negative control {control.rule}", f"one CPU ({cpus})", "a target with two or more")
    return Injection(fault=ID, targets=(target.cgroup,), cpus=CpuSet.of([cpus.first()]))


def _far(_control: NegativeControl, target: Target) -> Injection:
    return Injection(fault=ID, targets=(target.cgroup,), cpus=target.far_cpus)


def _nothing_far(target: Target) -> str | None:
    return None if target.far_cpus else f"{target.claim} has CPUs of every NUMA node: none is far"


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="another program writes the cpuset",
    changes="cpuset.cpus of the target becomes --cpus (default: all that its parent has)",
    field=("F4", "F7", "F15", "F16"),
    rules=("applied", "affinity-mask"),
    prepare=prepare,
    keeps=Masks.TARGETS,
    aims_at=Isolation.HOST,
    # A busy task may stay where it is; one that visits each CPU uses what the wider set allows.
    load=WorkloadKind.AFFINITY_ESCAPER,
    consequences=("cpuset-containment", "exclusive-cpus", "quota-throttling", "layers-agree"),
    words=(
        # Every online CPU, and a task of the target runs on each in turn.
        Word(
            word="widen-cpuset",
            when=When.SANDBOX,
            watch_s=AT_ONCE_S,
            aim=_widen,
            idle=_nothing_to_widen,
            load=WorkloadKind.AFFINITY_ESCAPER,
        ),
        # All CPUs of other NUMA nodes in place of its own.
        Word(word="far-cpuset", when=When.SANDBOX, watch_s=AT_ONCE_S, aim=_far, idle=_nothing_far),
        # All of its CPUs but the first are lost.
        Word(word="narrow-cpuset", when=When.SANDBOX, watch_s=AT_ONCE_S, aim=_narrow),
    ),
)
