"""What is wrong with a plan, named: CPUs with two owners, reserved CPUs of a pod, half cores of full-pcpus-only. Pure.

Pods that the API accepts get neither on a regular machine; where siblings are offline a kubelet can do both.
Source: docs/simulate-format.md ("quirks"); kubernetes v1.36.2 ``pkg/kubelet/cm/cpumanager/policy_static.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from toolkit.model.claims import Alignment, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.isolation import Finding
from toolkit.model.plan import ContainerRole, Plan, PodPlan
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome

RESERVED_OWNED = "reserved-cpus-owned"
ONLINE = "Bring the offline siblings online (or take all siblings offline)"
SMT_OFF = "Turn SMT off, so that all cores have one thread (nosmt, or off in /sys/devices/system/cpu/smt/control)"


def plan_findings(plan: Plan, topology: Topology) -> tuple[Finding, ...]:
    """Return the findings."""
    remedy = f"{even_cores(topology) or ONLINE}, and plan again."
    whole = whole_cores(plan.reserved_cpus, topology)
    keep = f"Reserve whole cores (reservedSystemCPUs: {whole}), and plan again."
    keeps = two_kinds(topology) and whole != plan.reserved_cpus
    return tuple(
        replace(one, remedy=keep if keeps and one.id == RESERVED_OWNED else remedy)
        for one in (*_owners(plan), *_half_cores(plan, topology))
    )


def two_kinds(topology: Topology) -> bool:
    """Whether the machine has cores with different numbers of threads that no offline sibling explains."""
    return len(topology.threads_per_core) > 1 and (len(topology.core_types) > 1 or not topology.offline)


def even_cores(topology: Topology) -> str:
    """Return what gives all cores the same number of threads, which a kubelet reckons with; empty: they have it."""
    if two_kinds(topology):
        return SMT_OFF
    return ONLINE if len(topology.threads_per_core) > 1 else ""


def whole_cores(cpus: CpuSet, topology: Topology) -> CpuSet:
    """Return the CPUs with all siblings of their cores."""
    return CpuSet.union([cpus, *(core for core in topology.cores.values() if core & cpus)])


def _owners(plan: Plan) -> Iterator[Finding]:
    taken: dict[str, CpuSet] = {}
    all_taken = CpuSet()
    for pod in plan.pods:
        owned = CpuSet.union(c.assigned for c in pod.containers if c.assigned is not None)
        for container in pod.containers:
            outside = (container.assigned or CpuSet()) - (pod.cpus or CpuSet())
            if pod.cpus is not None and outside:
                text = f"CPUs {outside} are outside its pod's {pod.cpus}."
                yield _found("cpu-outside-its-pod", f"{pod.name}/{container.name}", container.assigned, text)
        everything = owned | (pod.cpus or CpuSet())
        yield from _inside(pod)
        if everything & plan.reserved_cpus:
            text = f"The reserved CPUs {everything & plan.reserved_cpus} are the pod's: system tasks run there, too."
            yield _found(RESERVED_OWNED, pod.name, everything, text)
        shared = everything & plan.default_cpus
        if shared:
            text = f"CPUs {shared} are in the shared pool, too: other pods run there."
            yield _found("cpu-with-two-owners", pod.name, everything, text)
        for other, cpus in taken.items() if everything & all_taken else ():
            if cpus & everything:
                text = f"CPUs {cpus & everything} belong to pod {other}, too."
                yield _found("cpu-with-two-owners", pod.name, everything, text)
        taken[pod.name] = everything
        all_taken |= everything


def _inside(pod: PodPlan) -> Iterator[Finding]:
    """Yield what two exclusive containers of one pod both own; what an init container had is used again."""
    own = [
        one
        for one in pod.containers
        if one.isolation is Isolation.CONTAINER and one.assigned and one.role is not ContainerRole.INIT
    ]
    for one, other in combinations(own, 2):
        both = (one.assigned or CpuSet()) & (other.assigned or CpuSet())
        if both:
            text = f"CPUs {both} belong to container {other.name}, too."
            yield _found("cpu-with-two-owners", f"{pod.name}/{one.name}", one.assigned, text)


def _half_cores(plan: Plan, topology: Topology) -> Iterator[Finding]:
    for pod in plan.pods:
        # A pod's own CPUs are cut into containers inside the pod: whole cores are promised of them together.
        if pod.cpus and any(Alignment.SMT_POD in container.alignments for container in pod.containers):
            yield from _half_core(topology, pod.name, pod.cpus, "pod")
        for container in pod.containers:
            whole = Alignment.SMT in container.alignments and container.role is not ContainerRole.INIT
            if container.assigned and whole:
                yield from _half_core(topology, f"{pod.name}/{container.name}", container.assigned, "container")


def _half_core(topology: Topology, where: str, cpus: CpuSet, owner: str) -> Iterator[Finding]:
    missing = CpuSet.union(core - cpus for core in topology.cores.values() if core & cpus)
    if missing:
        text = f"full-pcpus-only promises whole cores, and the siblings {missing} are not the {owner}'s."
        yield _found("half-core", where, cpus, text)


def _found(name: str, where: str, cpus: CpuSet | None, text: str) -> Finding:
    value = f"CPUs {cpus}"
    return Finding(id=name, outcome=Outcome.FAILED, path=where, value=value, breaks=text, remedy="")
