"""Pods of a scenario that come and leave again: what a node decides without and with them."""

from __future__ import annotations

from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan_of
from toolkit.errors import InputError
from toolkit.model.plan import Plan, QosClass
from toolkit.model.pod import Pod
from toolkit.model.scenario import Scenario


def plan_visit(scenario: Scenario, pods: list[Pod], node: Node) -> tuple[Plan, Plan]:
    """Admit those who stay, then the visitors; return the plan without them (before and afterwards), and with them.

    :param node: freshly started.
    :raises InputError: something else changes, too; a visitor whose coming changes weights.
    """
    where = f"scenario {scenario.name}"
    for key in ("departures", "resizes", "arrivals", "restarts", "weights"):
        if getattr(scenario, key):
            raise InputError(where, f"leaves and {key}", "one of them")
    stay = [(pod, node.admit(pod), node.cpu_state.default) for pod in pods if pod.name not in scenario.leaves]
    before = plan_of(node, stay)
    visitors = [node.seen(pod) for pod in pods if pod.name in scenario.leaves]
    for pod in visitors:
        if pod.qos_class is not QosClass.GUARANTEED:
            raise InputError(where, f"leaves: pod {pod.name} is {pod.qos_class.value}", "a Guaranteed pod")
    came = [(pod, node.admit(pod), node.cpu_state.default) for pod in visitors]
    return before, plan_of(node, [*stay, *came])
