"""CPUs that a plan gives, changed in the plan itself: the rule ``admission`` must notice.

Who keeps CPUs through a change is moved by it; who is expected to get some gets others, for each part of what is
expected by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.model.scenario import Expectation
from toolkit.model.topology import Topology
from toolkit.session.planning.from_plan import claim_name
from toolkit.session.planning.kept import kept
from toolkit.session.planning.planned import Planned
from toolkit.session.planning.resizing import containers

PLANS = ("before", "plan", "visited", "resized")
"""The plans of a scenario in the order of time."""
LAST = {"departures": "plan", "leaves": "visited", "resize": "resized", "restart": "plan"}
"""The plan that holds after a change."""


def moved(work: Planned) -> Iterator[tuple[str, Planned]]:
    """Yield for each container that keeps its CPUs through a change: the verdict's subject, and it has others."""
    for one in kept(work.scenario, work):
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
            new = with_cpus(plan, name, _other(key, cpus, work.topology))
            yield name, key, replace(work, scenario=alone, **{part: new})  # type: ignore[arg-type]


def with_cpus(plan: Plan, name: str, cpus: CpuSet) -> Plan:
    """Return a plan that gives a container other CPUs."""

    def changed(pod: PodPlan, one: ContainerPlan) -> ContainerPlan:
        return replace(one, cpus=cpus) if claim_name(pod, one) == name else one

    pods = (replace(pod, containers=tuple(changed(pod, one) for one in pod.containers)) for pod in plan.pods)
    return replace(plan, pods=tuple(pods))


def _parts(wanted: Expectation) -> list[tuple[str, object]]:
    """Return what is said of a container's CPUs, part by part."""
    return [(one.name, value) for one in fields(wanted) if (value := getattr(wanted, one.name)) != one.default]


def _other(key: str, cpus: CpuSet, topology: Topology) -> CpuSet:
    """Return CPUs that lie otherwise: all in one place where several are used, in each where one is."""
    if key in ("cpus", "same_as", "whole_numa_nodes"):
        return cpus - CpuSet.of([max(cpus)])
    groups = {
        "cores": topology.cores,
        "uncore_caches": topology.l3_groups,
        "sockets": topology.sockets,
    }.get(key, topology.numa_cpus)
    used = [group for group in groups.values() if group & cpus]
    one_of_each = CpuSet.of(group.first() for group in groups.values() if group)
    return used[0] if len(used) > 1 and key != "nearest_numa_nodes" else one_of_each
