"""What a plan gives, changed in the plan itself: the rule ``admission`` must notice.

What keeps CPUs through a change is moved by it; what is expected to get some gets others, for each part of what is
expected by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.model.scenario import VALUES, Expectation
from toolkit.model.topology import Topology
from toolkit.session.planning.from_plan import claim_name
from toolkit.session.planning.planned import Planned
from toolkit.session.planning.resizing import containers
from toolkit.session.planning.retained import retained

PLANS = ("before", "plan", "visited", "resized")
"""The plans of a scenario in the order of time."""
LAST = {"departures": "plan", "leaves": "visited", "resize": "resized", "restart": "plan"}
"""The plan that holds after a change."""


def moved(work: Planned) -> Iterator[tuple[str, Planned]]:
    """Yield for each container that keeps its CPUs through a change: the verdict's subject, and it has others."""
    for one in retained(work.scenario, work):
        name, _, change = one.subject.partition(" (")
        part = LAST[change.rstrip(")")]
        plan: Plan = getattr(work, part)
        cpus = containers(plan)[name][1].cpus
        others = work.online - cpus
        # Neither more than before nor less, so that no resize explains it.
        new = others if others else cpus - CpuSet.of([cpus.first()])
        yield one.subject, replace(work, **{part: with_cpus(plan, name, new)})  # type: ignore[arg-type]


def displaced(work: Planned) -> Iterator[tuple[str, str, Planned]]:
    """Yield for each part of what is expected of a container: its name, the part, and a plan without it."""
    for name, wanted in work.scenario.expect.items():
        part = next(part for part in reversed(PLANS) if (plan := getattr(work, part)) and name in containers(plan))
        plan = getattr(work, part)
        cpus = containers(plan)[name][1].cpus
        for key, value in _parts(wanted):
            alone = replace(work.scenario, expect={name: replace(Expectation(), **{key: value})})  # type: ignore[arg-type]
            new = (
                _without(plan, name, key)
                if key in VALUES and key != "count"
                else with_cpus(plan, name, _other(key, cpus, work.topology))
            )
            yield name, key, replace(work, scenario=alone, **{part: new})  # type: ignore[arg-type]


def _values_of(one: ContainerPlan) -> Iterator[tuple[str, ContainerPlan]]:
    """Yield wrong values of a container, each by itself."""
    yield "doubled weight", replace(one, shares=2 * one.shares)
    if one.memory_limit_bytes:
        yield "doubled memory limit", replace(one, memory_limit_bytes=2 * one.memory_limit_bytes)
    if one.mems:
        yield "no memory nodes", replace(one, mems=CpuSet())
        yield "another memory node", replace(one, mems=CpuSet.parse("63"))
    else:
        yield "memory nodes that are not promised", replace(one, mems=CpuSet.parse("0"))
    if one.isolation is Isolation.CONTAINER:
        yield "a CPU fewer for owners", replace(one, cpus=one.cpus - CpuSet.of([max(one.cpus)]))
    if one.quota_us == NO_QUOTA and one.isolation is Isolation.CONTAINER:
        yield "a quota on owned CPUs", replace(one, quota_us=100_000)
    if one.quota_us != NO_QUOTA:
        yield "doubled quota", replace(one, quota_us=2 * one.quota_us)
        yield "no quota", replace(one, quota_us=NO_QUOTA)


def _values_of_pod(pod: PodPlan) -> Iterator[tuple[str, PodPlan]]:
    """Yield wrong values of a pod and of all its containers."""
    wrong = [dict(_values_of(one)) for one in pod.containers]
    for kind in sorted({kind for kinds in wrong for kind in kinds}):
        parts = (kinds.get(kind, one) for kinds, one in zip(wrong, pod.containers, strict=True))
        yield kind, replace(pod, containers=tuple(parts))
    yield (
        "another quota of pods",
        replace(pod, quota_us=100_000 if pod.quota_us == NO_QUOTA else 2 * (pod.quota_us or 0)),
    )


def miscalculated(work: Planned) -> Iterator[tuple[str, Planned]]:
    """Yield a plan in which one kind of value is wrong everywhere, for each kind of which there is any."""
    plans = {part: plan for part in PLANS if (plan := getattr(work, part)) is not None}
    kinds = {kind for plan in plans.values() for pod in plan.pods if pod.admitted for kind, _ in _values_of_pod(pod)}
    for kind in sorted(kinds):
        wrong = {
            part: replace(
                plan, pods=tuple(dict(_values_of_pod(pod)).get(kind, pod) if pod.admitted else pod for pod in plan.pods)
            )
            for part, plan in plans.items()
        }
        if wrong != plans:
            yield kind, replace(work, **wrong)  # type: ignore[arg-type]


def _without(plan: Plan, name: str, key: str) -> Plan:
    """Return a plan with another value for a container, or for its pod: one more where there is none, else twice it."""
    field = {"memory_max": "memory_limit_bytes"}.get(key, key)

    def other(value: Any) -> Any:
        return CpuSet.parse("63") if field == "mems" else 100_000 if value in (None, -1) else 2 * value

    def changed(pod: PodPlan) -> PodPlan:
        if not any(claim_name(pod, one) == name for one in pod.containers):
            return pod
        if field == "pod_quota_us":
            return replace(pod, quota_us=other(pod.quota_us))
        parts = (
            replace(one, **{field: other(getattr(one, field))}) if claim_name(pod, one) == name else one
            for one in pod.containers
        )
        return replace(pod, containers=tuple(parts))

    return replace(plan, pods=tuple(map(changed, plan.pods)))


def with_cpus(plan: Plan, name: str, cpus: CpuSet) -> Plan:
    """Return a plan that gives a container other CPUs."""

    def changed(pod: PodPlan, one: ContainerPlan) -> ContainerPlan:
        return replace(one, cpus=cpus) if claim_name(pod, one) == name else one

    pods = (replace(pod, containers=tuple(changed(pod, one) for one in pod.containers)) for pod in plan.pods)
    return replace(plan, pods=tuple(pods))


def _parts(wanted: Expectation) -> list[tuple[str, object]]:
    """Return what is said of a container, part by part."""
    return [(one.name, value) for one in fields(wanted) if (value := getattr(wanted, one.name)) != one.default]


def _other(key: str, cpus: CpuSet, topology: Topology) -> CpuSet:
    """Return CPUs that lie otherwise: all in one place where several are used, in each where one is."""
    if key in ("cpus", "same_as", "whole_numa_nodes", "count"):
        return cpus - CpuSet.of([max(cpus)])
    groups = {
        "cores": topology.cores,
        "uncore_caches": topology.l3_groups,
        "sockets": topology.sockets,
    }.get(key, topology.numa_cpus)
    used = [group for group in groups.values() if group & cpus]
    one_of_each = CpuSet.of(group.first() for group in groups.values() if group)
    return used[0] if len(used) > 1 and key != "nearest_numa_nodes" else one_of_each
