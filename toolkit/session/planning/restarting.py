"""A kubelet that is started anew over the state files of the one before, with other settings or the same. Pure.

What runs is left alone; the new kubelet reads the files, refuses to start over them or admits the running pods again.
Source: Kubernetes documentation "Resource managers" (downgrades and state checkpoints), "Control CPU Management
Policies on the Node" (changing the policy); :meth:`toolkit.allocation.node.Node.restarted`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolkit.allocation.admission import StartupError
from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan_of
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Pod
from toolkit.model.plan import Plan
from toolkit.model.scenario import Scenario

Read = Callable[[dict[str, Any]], NodeConfig]
"""How settings become a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """What became of the new kubelet. :param before: what held until then.

    :param refusal: why it does not start; empty: it does.

    :param evicted: pods that ran and that it does not admit again, with the reason.
    """

    before: Plan
    refusal: str = ""
    evicted: tuple[tuple[str, str], ...] = ()


def settings_after(scenario: Scenario) -> dict[str, Any]:
    """Return the settings of the new kubelet: the scenario's with the restart's over them, ``None`` takes one away."""
    merged = {**scenario.kubelet, **(scenario.kubelet_restart or {})}
    return {key: value for key, value in merged.items() if value is not None}


def plan_restart(scenario: Scenario, pods: list[Pod], node: Node, read: Read) -> tuple[Plan, Restarted]:
    """Admit the pods, then start another kubelet over the state; return what holds afterwards.

    The plan is that of the old kubelet where the new one does not start: nothing touches what runs.

    :param node: freshly started: the old kubelet. :param read: of the new one's settings.
    :raises InputError: something else changes, too.
    """
    for key in ("departures", "resizes", "leaves"):
        if getattr(scenario, key):
            raise InputError(f"scenario {scenario.name}", f"kubeletRestart and {key}", "one of them")
    results = []
    for pod in pods:
        answer = node.admit(pod)
        results.append((pod, answer, node.cpu_state.default))
        for container in pod.containers if answer.admitted else ():
            node.start_container(pod, container)
    before = plan_of(node, results)
    try:
        new = node.restarted(read(settings_after(scenario)))
    except StartupError as error:
        return before, Restarted(before=before, refusal=error.sentence())
    again = {pod.uid: answer for pod, answer in new.readmit()}
    after = [(pod, again.get(pod.uid, answer), new.cpu_state.default) for pod, answer, _ in results]
    evicted = tuple(
        (pod.name, f"{again[pod.uid].reason}: {again[pod.uid].message}")
        for pod, _, _ in results
        if pod.uid in again and not again[pod.uid].admitted
    )
    return plan_of(new, after), Restarted(before=before, evicted=evicted)
