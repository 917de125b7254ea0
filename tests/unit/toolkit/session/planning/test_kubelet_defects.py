"""Where cores have different numbers of threads: what a plan breaks, and what the kubelet does instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.toolkit.scenario_builder import container, pod, scenario
from tests.unit.toolkit.session.smt_machine import smt_machine
from toolkit.model.isolation import Finding
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.session.planning.kubelet_defects import kubelet_defects
from toolkit.session.planning.plan_findings import plan_findings
from toolkit.session.planning.planned import plan_scenario

AMOUNTS = {"cpu": "3", "memory": "1Gi"}
POD_LEVEL = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "topologyManagerPolicy": "best-effort",
    "topologyManagerScope": "pod",
    "featureGates": {"PodLevelResourceManagers": True},
}


BUDGET = replace(
    scenario(
        pod("budget", container("main", "2"), container("side"), resources={"requests": AMOUNTS, "limits": AMOUNTS}),
        pod("own", container("main", "2")),
    ),
    kubelet=POD_LEVEL,
)
"""A pod with a budget of its own, and an exclusive pod beside it."""


def found(one: Scenario, machine: Topology) -> list[Finding]:
    """Return the findings about the plan, and about what the kubelet makes of it."""
    plan = plan_scenario(one, machine)
    return [*plan_findings(plan, machine), *kubelet_defects(one, machine, plan)]


def test_a_plan_never_leaves_a_pods_cpus() -> None:
    """A container of a pod with a budget gets CPUs of the pod, whichever cores the pod has a part of."""
    machine = smt_machine(4, offline="4")
    plan = plan_scenario(BUDGET, machine)

    first = plan.pods[0]
    assert [str(one.assigned) for one in first.containers] == ["1-2", "5"]
    assert str(first.cpus) == "1-2,5"
    assert plan_findings(plan, machine) == ()


def test_what_the_kubelet_does_instead_is_named_with_both_sets() -> None:
    """Its container leaves the pod's CPUs, which another pod then gets, too."""
    by_place = {(finding.id, finding.path): finding for finding in found(BUDGET, smt_machine(4, offline="4"))}

    defect = by_place["kubelet-defect", "budget/main"]
    assert (defect.outcome, defect.value) == (Outcome.UNDECIDED, "CPUs 2,6")
    assert "without its defect it would decide CPUs 1-2" in defect.breaks
    assert "outside its pod's 1-2,5" in by_place["cpu-outside-its-pod", "budget/main"].breaks
    assert "As kubelet v1.36.2 decides: CPUs 2,6 belong to pod budget" in by_place["cpu-with-two-owners", "own"].breaks


GUEST = pod("guest", container("main", "1"))


@pytest.mark.parametrize(
    ("changes", "where", "does"),
    [
        ({"pods": (*BUDGET.pods, GUEST), "leaves": ("guest",)}, "budget/main", "CPUs 2,6"),
        ({"kubelet_restart": {}}, "budget", "refused, UnexpectedAdmissionError"),
    ],
    ids=["leaves", "restart"],
)
def test_it_is_named_where_the_scenario_changes_the_node_too(changes: dict[str, Any], where: str, does: str) -> None:
    """A node that has a guest for a while has the same kubelet, and so has one whose kubelet is started again."""
    one = replace(BUDGET, **changes)
    values = {f.path: f.value for f in found(one, smt_machine(4, offline="4")) if f.id == "kubelet-defect"}
    assert values[where].startswith(does)


@pytest.mark.parametrize("offline", ["", "4-7"], ids=["all online", "all siblings offline"])
def test_on_a_regular_machine_the_kubelet_decides_as_planned(offline: str) -> None:
    """Equal numbers of threads in all cores: there is nothing to name."""
    assert found(replace(BUDGET, pods=BUDGET.pods[:1]), smt_machine(4, offline)) == []


def test_a_kubelet_that_crashes_is_a_finding() -> None:
    """Huge pages of a size that a node does not have: the plan refuses the pod, the kubelet dies of it."""
    memory = {
        "memoryManagerPolicy": "Static",
        "kubeReserved": {"memory": "1Gi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "topologyManagerPolicy": "best-effort",
    }
    amounts = {"cpu": "1", "memory": "64Mi", "hugepages-2Mi": "2Mi"}
    huge = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    one = scenario(pod("huge", huge))

    (crash,) = found(replace(one, kubelet=one.kubelet | memory), smt_machine(4))

    assert (crash.id, crash.outcome) == ("kubelet-defect", Outcome.FAILED)
    assert "nil pointer" in crash.value


def test_reserved_cpus_that_a_pod_gets_are_named() -> None:
    """A core with as many free threads as the average core has is taken whole, with its reserved thread."""
    one = scenario(pod("own", container("main", "2")))

    machine = smt_machine(4, offline="7")
    plan = plan_scenario(replace(one, kubelet={"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}), machine)

    assert [(f.id, f.path) for f in plan_findings(plan, machine)] == [("reserved-cpus-owned", "own")]
