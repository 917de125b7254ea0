"""What a scenario's node is set to, each setting turned round: another plan, or the scenario does not show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from toolkit.errors import PinproofError
from toolkit.model.plan import Plan
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.session.planning import plan_all

OPTIONS = ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions")
POLICIES = {
    "cpuManagerPolicy": {"static": "none", "none": "static"},
    "topologyManagerPolicy": {"none": "restricted"},
    "topologyManagerScope": {"container": "pod", "pod": "container"},
    "memoryManagerPolicy": {},
}
"""Policies and what they are turned into; others are left out."""

BESIDE: dict[str, object] = {"devices": (), "cpu_plugins": {}, "adjusters": (), "dra_claims": {}}
"""What decides beside the kubelet; turned round, it does not exist."""


def flips(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield each option, gate and policy that a scenario sets, with the scenario in which it is the other way round."""
    kubelet = scenario.kubelet

    def flipped(**changes: Any) -> Scenario:
        merged = {**kubelet, **changes}
        return replace(scenario, kubelet={key: value for key, value in merged.items() if value is not None})

    for part in OPTIONS:
        for name, value in kubelet.get(part, {}).items():
            others = {key: other for key, other in kubelet[part].items() if key != name}
            opposite = {"true": "false", "false": "true"}.get(value)
            yield f"{name}={value}", flipped(**{part: others if opposite is None else {**others, name: opposite}})
    for name, value in kubelet.get("featureGates", {}).items():
        yield f"{name}={value}", flipped(featureGates={**kubelet["featureGates"], name: not value})
    for name, value in (scenario.kubelet_restart or {}).items():
        rest = {key: other for key, other in (scenario.kubelet_restart or {}).items() if key != name}
        if value != kubelet.get(name):
            yield f"restart {name}", replace(scenario, kubelet_restart=rest)
    for key, nothing in BESIDE.items():
        if getattr(scenario, key):
            yield key, replace(scenario, **{key: nothing})  # type: ignore[arg-type]
    for part, turned in POLICIES.items():
        if part in kubelet:
            yield f"{part}={kubelet[part]}", flipped(**{part: turned.get(kubelet[part])})


def changes_nothing(scenario: Scenario, other: Scenario, topology: Topology) -> bool:
    """Say whether the node decides the same; that no kubelet starts is another decision."""
    try:
        return decided(other, topology) == decided(scenario, topology)
    except PinproofError:
        return False


def decided(scenario: Scenario, topology: Topology) -> tuple[object, ...]:
    """Return what a node decides: pods, CPUs, memory nodes, quotas, weights; not what was promised thereby."""
    work = plan_all(scenario, topology)
    plans = (work.before, work.plan, work.visited, work.resized)
    return (work.restarted, *(_decided(plan) for plan in plans if plan is not None))


def _decided(plan: Plan) -> tuple[object, ...]:
    pods = tuple(
        (
            pod.name,
            pod.admitted,
            pod.reason,
            pod.cpus,
            pod.quota_us,
            tuple((one.name, one.cpus, one.isolation, one.mems, one.quota_us) for one in pod.containers),
        )
        for pod in plan.pods
    )
    return plan.default_cpus, plan.strict_reservation, pods
