"""What a scenario's node is set to, each setting turned round: another plan, or the scenario does not show it.

What a scenario does to its node besides (reservations, departures, resizes, promises that are asked for) is turned
round in :mod:`tests.unit.catalogue.turns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from toolkit.errors import PinproofError
from toolkit.model.plan import Plan
from toolkit.model.scenario import Adjustment, Scenario
from toolkit.model.topology import Topology
from toolkit.session.planning.planned import plan_all

OPTIONS = ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions")
POLICIES = {
    "cpuManagerPolicy": {"static": "none", "none": "static"},
    "topologyManagerPolicy": {"none": "restricted"},
    "topologyManagerScope": {"container": "pod", "pod": "container"},
    "memoryManagerPolicy": {},
    "cpuCFSQuotaPeriod": {},
}
"""Policies and what they are turned into; others are left out."""

BESIDE: dict[str, object] = {"devices": (), "cpu_plugins": {}, "adjusters": (), "dra_claims": {}}
"""What decides beside the kubelet; turned round, it does not exist."""

OTHER_CLASS = {"Guaranteed": "Burstable", "Burstable": "Guaranteed", "BestEffort": "Guaranteed"}


def flips(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield each option, gate and policy that a scenario sets, with the scenario in which it is the other way round."""
    kubelet = scenario.kubelet

    def flipped(**changes: Any) -> Scenario:
        return with_kubelet(scenario, **changes)

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
    for part, turned in POLICIES.items():
        if part in kubelet:
            yield f"{part}={kubelet[part]}", flipped(**{part: turned.get(kubelet[part])})
    yield from _beside(scenario)


def _beside(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """What decides beside the kubelet, taken away; adjusters of another class of pods."""
    for key, nothing in BESIDE.items():
        if getattr(scenario, key):
            yield key, replace(scenario, **{key: nothing})  # type: ignore[arg-type]
    if scenario.devices_of_host:
        yield "devices of the host", replace(scenario, devices_of_host=False)
    for number, one in enumerate(scenario.adjusters):
        other = Adjustment(name=one.name, qos_classes=tuple(OTHER_CLASS[word] for word in one.qos_classes))
        rest = (*scenario.adjusters[:number], other, *scenario.adjusters[number + 1 :])
        yield f"{one.name} of {', '.join(one.qos_classes)}", replace(scenario, adjusters=rest)


def with_kubelet(scenario: Scenario, **changes: Any) -> Scenario:
    """Return a scenario with other settings; ``None`` takes one away."""
    merged = {**scenario.kubelet, **changes}
    return replace(scenario, kubelet={key: value for key, value in merged.items() if value is not None})


def changes_nothing(scenario: Scenario, other: Scenario, topology: Topology) -> bool:
    """Say whether the node decides the same; that no kubelet starts is another decision."""
    try:
        return decided(other, topology) == decided(scenario, topology)
    except PinproofError:
        return False


def decided(scenario: Scenario, topology: Topology) -> tuple[object, ...]:
    """Return what a node decides and answers: pods, CPUs, memory nodes, quotas, weights, limits, resizes.

    Not what was promised thereby.
    """
    work = plan_all(scenario, topology)
    plans = (work.before, work.plan, work.visited, work.resized)
    answers = tuple((one.pod, one.text) for one in work.answers)
    return (work.restarted, answers, *(decisions_of(plan) for plan in plans if plan is not None))


def decisions_of(plan: Plan) -> tuple[object, ...]:
    """Return what one plan decides for the node and each pod of it."""
    pods = tuple(
        (
            pod.name,
            pod.admitted,
            pod.reason,
            pod.cpus,
            (pod.quota_us, pod.period_us, pod.shares, pod.memory_limit_bytes),
            tuple(
                (
                    (one.name, one.cpus, one.isolation, one.mems),
                    (one.quota_us, one.period_us, one.shares, one.memory_limit_bytes, one.hugepages),
                )
                for one in pod.containers
            ),
        )
        for pod in plan.pods
    )
    return plan.default_cpus, plan.strict_reservation, pods
