"""What containers of the catalogue do: each works, and an owner of CPUs stays away from its pod's quota.

Of one that sleeps there is no evidence, and its run is undecided. Beside a quota that is nearly used up, a machine that
stands still for a moment throttles an owner of CPUs, which no quota of its own bounds: the rule would say so, in truth.
"""

from __future__ import annotations

import pytest

from tests.lab.harness.catalogue import scenarios
from tests.unit.catalogue.places import PLACES, placed
from toolkit.model.claims import Claim
from toolkit.model.sandbox import Sandbox, SandboxContainer
from toolkit.model.scenario import Scenario
from toolkit.session.planning.from_plan import Stage, claim_set, sandbox_request, stages
from toolkit.session.planning.planned import plan_all

CONTAINERS = [
    (name, f"{pod['metadata']['name']}/{container['name']}")
    for name, scenario in scenarios().items()
    for pod in scenario.pods
    if pod["metadata"]["name"] not in scenario.rejected_pods
    for kind in ("initContainers", "containers")
    for container in pod["spec"].get(kind, ())
]


@pytest.mark.parametrize(("name", "container"), CONTAINERS)
def test_each_container_has_a_load(name: str, container: str) -> None:
    """Each container that is admitted is judged."""
    assert scenarios()[name].workloads.get(container)


MOST = 0.75
"""Part of a pod's quota: a quarter of a period of 100 ms is what a stop of 25 ms takes."""


def claimed(scenario: Scenario, stage: Stage) -> tuple[Claim, ...]:
    """Return what is promised in a stage, as if its containers stood somewhere."""
    request = sandbox_request(stage.plan, scenario, stage.containers)
    places = tuple(
        SandboxContainer(claim=one.claim, cgroup=f"/s/{one.cgroup.path}", pids=()) for one in request.containers
    )
    made = Sandbox(run_id="s", root="/s", runtime="cgroupfs", containers=places)
    return claim_set(stage.plan, scenario, made, stage.containers).claims


def used(claims: tuple[Claim, ...], pod: str) -> float:
    """Return the CPUs' worth of time that the containers of a pod may use."""
    limits = [(one, one.quota_us / one.period_us if (one.quota_us or -1) > 0 else one.demand_cpus) for one in claims]
    return sum(min(one.demand_cpus or 0.0, limit or 0.0) for one, limit in limits if one.pod == pod)


@pytest.mark.parametrize("place", PLACES)
def test_an_owner_of_cpus_is_far_from_its_pods_quota(place: str) -> None:
    """Where an owner is free of a quota of its own, and its pod has one."""
    topology, fit = placed(place)
    near = []
    for scenario in fit:
        work = plan_all(scenario, topology)
        for stage in stages(work.plan, work.before):
            claims = claimed(scenario, stage)
            for one in claims:
                free = one.exclusive and one.container and (one.quota_us or -1) < 0
                pod_cpus = (one.pod_quota_us or 0) / one.period_us
                if free and pod_cpus > 0 and used(claims, one.pod) > MOST * pod_cpus:
                    near.append((scenario.name, one.name, used(claims, one.pod), pod_cpus))

    assert near == []
