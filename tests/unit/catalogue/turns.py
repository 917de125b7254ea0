"""What a scenario does to its node besides setting it up, each turned round, and what must then be another.

=================  =======================================  ============================================================
reservation        other CPUs, more of them, more memory    a decision
departure          the pod or container stays               a decision about one that stays or comes later
coming and going   the pod does not come                    the shared pool meanwhile
resize             it asks for what the pod has             what the pod then has, or the answer to the others
promise            it is not asked for                      the verdict about evidence that breaks it
weight             all that contend ask for the same        a weight
=================  =======================================  ============================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.unit.catalogue.edit import Edit
from tests.unit.catalogue.edits import edits
from tests.unit.catalogue.flips import changes_nothing, decisions_of, with_kubelet
from tests.unit.catalogue.stand import Stand, stand
from toolkit.errors import InputError
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import ResizeBehaviour, Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.session.planning.planned import machine_of, plan_all
from validators.registry import judge, rule_named

MIB = 1 << 20
PROMISES: dict[str, tuple[object, str]] = {
    "weights": (False, "part of contended CPU time"),
    "state_files": (False, "state files"),
    "transition_limit_ms": (None, "time of a change"),
    "noise_budget_ns_per_s": (None, "noise budget"),
}
"""Fields that ask for one more promise: what they are without, and the promise."""


def turned(scenario: Scenario, topology: Topology) -> Iterator[tuple[str, bool]]:
    """Yield each of these that a scenario has, with whether it changes nothing on a machine."""
    for name, other in _reservations(scenario, topology):
        yield name, changes_nothing(scenario, other, topology)
    for name in scenario.departures:
        rest = tuple(one for one in scenario.departures if one != name)
        yield f"departure of {name}", _same_without(scenario, replace(scenario, departures=rest), name, topology)
    for name in scenario.leaves:
        work = plan_all(scenario, topology)
        yield f"visit of {name}", work.visited is None or work.visited.default_cpus == work.plan.default_cpus
    if scenario.resizes:
        yield from _resizes(scenario, topology)
    for field, (without, promise) in PROMISES.items():
        if getattr(scenario, field) != without:
            other = replace(scenario, **{field: without})  # type: ignore[arg-type]
            yield field, not only_asked_for(promise, stand(scenario, topology), stand(other, topology))
    if scenario.weights:
        yield "unequal weights", changes_nothing(scenario, _equal(scenario), topology)


def only_asked_for(promise: str, asked: Stand, without: Stand) -> bool:
    """Whether evidence that breaks a promise fails where it is asked for, each time, and where it is not never does."""
    broken = [one for one in edits(asked) if one.promise == promise]
    return bool(broken) and all(_fails(asked, one) and not _fails(without, one) for one in broken)


def _fails(one: Stand, broken: Edit) -> bool:
    # State files are evidence that is taken only where they are asked for.
    seen = broken.evidence if one.evidence.state_files else replace(broken.evidence, state_files=())
    verdicts = judge(one.claims, seen, [rule_named(broken.rule)])
    return any(v.outcome is Outcome.FAILED and v.subject == broken.subject for v in verdicts)


def _reservations(scenario: Scenario, topology: Topology) -> Iterator[tuple[str, Scenario]]:
    """A CPU that has an owner is reserved instead, or the last; one CPU more; as good as all memory of a node."""
    kubelet = scenario.kubelet
    if "reservedSystemCPUs" in kubelet:
        new = owned(scenario, topology) or CpuSet.of([max(topology.online)])
        other = with_kubelet(scenario, reservedSystemCPUs=str(CpuSet.of([new.first()])))
        yield f"reservedSystemCPUs={kubelet['reservedSystemCPUs']}", other
    for part in ("kubeReserved", "systemReserved"):
        if "cpu" in kubelet.get(part, {}):
            more = Quantity.parse(kubelet[part]["cpu"], part) + Quantity.of(1)
            yield f"{part}.cpu", with_kubelet(scenario, **{part: {**kubelet[part], "cpu": str(more)}})
    for number, row in enumerate(kubelet.get("reservedMemory", ())):
        node = next(one for one in machine_of(topology).nodes if one.id == row["numaNode"])
        system = dict(kubelet["systemReserved"])
        # What the two differ by is the threshold of eviction: the kubelet does not start unless the sums are equal.
        gap = _bytes(row["limits"]["memory"]) - _bytes(system["memory"])
        nearly_all = node.memory_bytes // MIB * MIB - MIB
        rows = [dict(one) for one in kubelet["reservedMemory"]]
        rows[number] = {"numaNode": row["numaNode"], "limits": {**row["limits"], "memory": str(nearly_all)}}
        other = with_kubelet(scenario, systemReserved={**system, "memory": str(nearly_all - gap)}, reservedMemory=rows)
        yield f"reservedMemory of node {row['numaNode']}", other


def _bytes(text: str) -> int:
    return Quantity.parse(text, "memory").value


def owned(scenario: Scenario, topology: Topology) -> CpuSet:
    """Return the CPUs that some pod or container owns, before departures or after."""
    work = plan_all(scenario, topology)
    inside = [
        one
        for plan in (work.before or work.plan, work.visited or work.plan)
        for pod in plan.pods
        for one in pod.containers
    ]
    return CpuSet.union(one.cpus for one in inside if one.isolation is not Isolation.HOST)


def _same_without(scenario: Scenario, other: Scenario, name: str, topology: Topology) -> bool:
    """Whether all but what departs are decided the same when nothing does, and the pool is the same."""
    one, two = plan_all(scenario, topology).plan, plan_all(other, topology).plan
    return _others(one, name) == _others(two, name)


def _others(plan: Plan, name: str) -> tuple[object, ...]:
    """What is decided for all but a pod, or a container of one."""
    pod, _, container = name.partition("/")
    kept = [
        replace(one, containers=tuple(inside for inside in one.containers if inside.name != container))
        for one in plan.pods
        if container or one.name != pod
    ]
    return decisions_of(replace(plan, pods=tuple(kept)))


def _resizes(scenario: Scenario, topology: Topology) -> Iterator[tuple[str, bool]]:
    """Each resize asks for what the pod has already; and all are asked of the other node."""
    asked = {pod["metadata"]["name"]: pod for pod in scenario.pods}
    for number, wanted in enumerate(scenario.resizes):
        name = wanted["metadata"]["name"]
        rest = (*scenario.resizes[:number], asked[name], *scenario.resizes[number + 1 :])
        yield f"resize of {name}", changes_nothing(scenario, replace(scenario, resizes=rest), topology)
    if scenario.resize_behaviour is not ResizeBehaviour.V1_36:
        other = replace(scenario, resize_behaviour=ResizeBehaviour.V1_36)
        yield f"resizeBehaviour={scenario.resize_behaviour}", changes_nothing(scenario, other, topology)


def _equal(scenario: Scenario) -> Scenario:
    """Let every container that asks for CPU time ask for as much as the first."""
    pods = deepcopy(list(scenario.pods))
    requests = [one["resources"]["requests"] for pod in pods for one in _with_requests(pod)]
    if not requests:
        raise InputError(f"scenario {scenario.name}", "weights without requests", "requests of CPU time")
    for other in requests[1:]:
        other["cpu"] = requests[0]["cpu"]
    return replace(scenario, pods=tuple(pods))


def _with_requests(pod: dict[str, Any]) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = pod["spec"]["containers"]
    return [one for one in containers if "cpu" in one.get("resources", {}).get("requests", {})]
