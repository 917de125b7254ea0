"""A kubelet without gate PodLevelResources does not look at a budget: wherever pods arrive, leave, change or stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import GATE, SHARED, both, config, pod
from tests.unit.toolkit.allocation.node_builder import machine as node_machine
from tests.unit.toolkit.scenario_builder import container, machine, scenario
from tests.unit.toolkit.scenario_builder import pod as manifest
from toolkit.allocation.cgroup_values import container_values, pod_values
from toolkit.allocation.node import start_node
from toolkit.allocation.planner import plan_of
from toolkit.allocation.resize import ResizeStatus, resize
from toolkit.errors import InputError
from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.plan import Plan, QosClass
from toolkit.model.scenario import ResizeBehaviour, Scenario
from toolkit.session.planning.planned import plan_all

OFF = {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}
BUDGET = both("4", "4Gi")


def gated(given: Scenario, gates: dict[str, bool], **changes: Any) -> Scenario:
    """A scenario of a kubelet with these gates."""
    return replace(given, kubelet={**given.kubelet, "featureGates": gates}, **changes)


def seen(plan: Plan) -> list[tuple[str, QosClass, int | None, int | None]]:
    """What each admitted pod is taken for, and its cgroup's quota and shares."""
    return [(one.name, one.qos_class, one.quota_us, one.shares) for one in plan.pods if one.admitted]


BY_ITS_CONTAINER = ("a", QosClass.BURSTABLE, NO_QUOTA, 512)
"""Pod ``a`` asks for half a CPU without a limit, in a budget of two that would make it Guaranteed."""
BY_ITS_BUDGET = ("a", QosClass.GUARANTEED, 200_000, 2048)


def asks(name: str = "a", cpu: str = "500m") -> dict[str, Any]:
    """The manifest of a pod with a budget of two CPUs, whose container asks for less."""
    own = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return manifest(name, own, resources=both("2", "1Gi"))


@pytest.mark.parametrize(("gates", "expected"), [(OFF, BY_ITS_CONTAINER), ({}, BY_ITS_BUDGET)])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"departures": ("gone",)},
        {"leaves": ("gone",)},
        {"kubelet_restart": {}},
        {"resizes": (manifest("gone", container("c", "2")),)},
    ],
    ids=["arrive", "depart", "leave", "restart", "resize"],
)
def test_every_way_of_a_pod_has_the_same_sight(
    changes: dict[str, Any], gates: dict[str, bool], expected: tuple[object, ...]
) -> None:
    """The plans before and after, of those that stay: QoS class, quota and weight are the containers' own."""
    work = plan_all(
        gated(scenario(asks(), manifest("gone", container("c", "1"))), gates, **changes),
        machine(6),
    )
    plans = [plan for plan in (work.before, work.plan, work.visited, work.resized) if plan is not None]
    assert plans
    for plan in plans:
        assert [one for one in seen(plan) if one[0] == "a"] == [expected]


def test_a_restart_with_the_gate_changes_what_is_seen() -> None:
    """The next kubelet sees the budget that the one before did not look at, and the other way round."""
    for first, second in ((OFF, {}), ({}, OFF)):
        given = gated(scenario(asks()), first, kubelet_restart={"featureGates": second})
        work = plan_all(given, machine(6))
        assert work.restarted is not None
        found = [seen(work.restarted.before)[0], seen(work.plan)[0]]
        assert found == [BY_ITS_CONTAINER if gates == OFF else BY_ITS_BUDGET for gates in (first, second)]


def test_room_is_counted_without_the_budget() -> None:
    """Two budgets of ten CPUs each fit on fourteen where their containers ask for one."""
    node = start_node(config(featureGates=OFF), node_machine(), predicate=True)
    wanted = [pod(name, {"requests": {"cpu": "1"}}, resources=both("10", "4Gi")) for name in ("a", "b")]
    assert [node.admit(one).admitted for one in wanted] == [True, True]
    other = start_node(config(), node_machine(), predicate=True)
    assert [other.admit(one).admitted for one in wanted] == [True, False]


def test_a_resize_is_of_the_containers_alone() -> None:
    """A budget that changes changes nothing; containers that outgrow it are no reason to refuse."""
    node = start_node(config(featureGates=OFF), node_machine())
    assert node.admit(pod("a", {"requests": {"cpu": "1"}}, resources=BUDGET)).admitted
    assert resize(node, pod("a", {"requests": {"cpu": "1"}}, resources=both("40", "4Gi"))).status is ResizeStatus.DONE
    answer = resize(node, pod("a", {"requests": {"cpu": "3"}}, resources=BUDGET))
    assert answer.status is ResizeStatus.DONE
    assert node.active["a"].containers[0].resources.requests["cpu"].milli == 3000


@pytest.mark.parametrize("behaviour", list(ResizeBehaviour))
def test_the_managers_leave_a_pod_with_a_budget_alone(behaviour: ResizeBehaviour) -> None:
    """Guaranteed by its container, which asks for whole CPUs: it shares, with a quota, and so it does when resized."""
    node = start_node(config(featureGates={**OFF, **GATE["featureGates"]}), node_machine())
    wanted = pod("a", both("2"), resources=BUDGET)
    answer = node.admit(wanted)
    (made,) = plan_of(node, [(wanted, answer, node.cpu_state.default)]).pods
    assert (made.admitted, made.qos_class, made.quota_us) == (True, QosClass.GUARANTEED, 200_000)
    assert (made.containers[0].isolation, made.containers[0].quota_us) == (Isolation.HOST, 200_000)
    assert made.containers[0].alignments == ()
    assert resize(node, pod("a", both("3"), resources=BUDGET), behaviour=behaviour).status is ResizeStatus.DONE
    assert node.cpu_state.assigned("a", "c0") is None


def test_cgroup_values_are_without_the_budget() -> None:
    """Of the pod and of a container without limits, which would have the budget's."""
    wanted = pod("a", SHARED, both("1"), resources=BUDGET)
    for gates, quota, shares, own in ((OFF, NO_QUOTA, 1024, NO_QUOTA), ({}, 400_000, 4096, 400_000)):
        settings = config(featureGates=gates)
        values = pod_values(wanted, settings, quota_disabled=False)
        assert (values.quota_us, values.shares) == (quota, shares)
        assert container_values(wanted, wanted.containers[0], settings, quota_disabled=False).quota_us == own


def test_a_visitor_is_what_its_containers_make_it() -> None:
    """Guaranteed by its budget alone it is Burstable here, and may not visit."""
    given = gated(scenario(asks("v"), manifest("w", container("c"))), OFF, leaves=("v",))
    with pytest.raises(InputError, match="pod v is Burstable"):
        plan_all(given, machine(6))
