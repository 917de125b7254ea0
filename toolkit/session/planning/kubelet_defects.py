"""Where the real kubelet decides otherwise than the plan, because of a defect of its own.

A plan is what a kubelet without its known defects decides. They come out where cores have different numbers of threads,
on machines of four or more NUMA nodes, or where node ids have gaps; so the pods are planned a second time, with them.
Source: toolkit/allocation/README.md, "Defects of the real components".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from toolkit.allocation.admission import KubeletPanic
from toolkit.errors import InputError
from toolkit.kubernetes.kubelet_version import MODELLED
from toolkit.model.cpuset import CpuSet
from toolkit.model.isolation import Finding
from toolkit.model.plan import Plan, PodPlan
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.session.planning.plan_findings import even_cores, plan_findings
from toolkit.session.planning.planned import plan_scenario

KUBELET_DEFECT = "kubelet-defect"


def kubelet_defects(scenario: Scenario, topology: Topology, plan: Plan) -> tuple[Finding, ...]:
    """Return where the real kubelet departs from ``plan``, and which promises it breaks by that."""
    try:
        real = plan_scenario(scenario, topology, quirks=True)
    except (KubeletPanic, InputError) as error:
        text = f"kubelet {MODELLED} does not survive these pods: the plan is that of a kubelet without the defect."
        return (_defect(f"scenario {scenario.name}", str(error), text, topology, Outcome.FAILED),)
    if real == plan:
        return ()
    departs = tuple(_defect(where, there, _breaks(there, here), topology) for where, here, there in _pairs(plan, real))
    known = plan_findings(plan, topology)
    broken = [finding for finding in plan_findings(real, topology) if finding not in known]
    return (*departs, *(replace(one, breaks=f"As kubelet {MODELLED} decides: {one.breaks}") for one in broken))


def _pairs(plan: Plan, real: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield what differs: where, in the plan, and with the defects."""
    for here, there in zip(plan.pods, real.pods, strict=True):
        if _admission(here) != _admission(there):
            yield here.name, _admission(here), _admission(there)
            continue
        if here.cpus != there.cpus:
            yield here.name, _cpus(here.cpus), _cpus(there.cpus)
        for mine, theirs in zip(here.containers, there.containers, strict=True):
            where = f"{here.name}/{mine.name}"
            if mine.assigned != theirs.assigned:
                yield where, _cpus(mine.assigned), _cpus(theirs.assigned)
            if mine.mems != theirs.mems:
                yield where, f"memory of nodes {mine.mems}", f"memory of nodes {theirs.mems}"
    if plan.default_cpus != real.default_cpus:
        yield "shared pool", _cpus(plan.default_cpus), _cpus(real.default_cpus)


def _admission(pod: PodPlan) -> str:
    return "admitted" if pod.admitted else f"refused, {pod.reason}: {pod.message}"


def _cpus(cpus: CpuSet | None) -> str:
    return f"CPUs {cpus or 'none'}"


def _breaks(there: str, here: str) -> str:
    return f"Kubelet {MODELLED} decides {there}; without its defect it would decide {here}."


def _defect(where: str, value: str, breaks: str, topology: Topology, outcome: Outcome = Outcome.UNDECIDED) -> Finding:
    even = even_cores(topology)
    cause = f" Cores have different numbers of threads here, which is a common cause: {even[:1].lower()}{even[1:]}."
    remedy = f"Expect the kubelet's answer.{cause if even else ''}"
    return Finding(id=KUBELET_DEFECT, outcome=outcome, path=where, value=value, breaks=breaks, remedy=remedy)
