"""A node has other settings or other pods than the scenario says: what it then promises is broken, or it refuses."""

from __future__ import annotations

from dataclasses import replace

from toolkit.faults.fault import Fault, Scope, When, Word
from toolkit.model.scenario import NegativeControl, Scenario


def vary(control: NegativeControl, scenario: Scenario) -> Scenario:
    """Return the scenario with a control's settings and pods on top."""
    kubelet = {key: value for key, value in {**scenario.kubelet, **control.kubelet}.items() if value is not None}
    pods = {pod["metadata"]["name"]: pod for pod in (*scenario.pods, *control.pods)}
    return replace(scenario, kubelet=kubelet, pods=tuple(pods.values()))


FAULT = Fault(
    id="node-changed",
    scope=Scope.RUN,
    title="the node has other settings or other pods",
    changes="kubelet settings and pods of the control come on top of the scenario's; the node promises accordingly",
    field=("F2",),
    rules=("admission", "exclusive-cpus", "reserved-cpus"),
    injectable=False,
    words=(Word(word="change-node", when=When.PROMISE, vary=vary),),
)
