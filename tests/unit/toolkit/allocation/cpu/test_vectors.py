"""Recorded decisions of the real CPU Manager (v1.36.2), replayed without NUMA hints.

Scenarios with a Topology Manager or Memory Manager policy need those managers and are replayed by the tests of
``pinproof simulate``; here every scenario of the CPU areas with policy ``none`` must come out the same, by the model
alone and, where the real component has a defect, with ``quirks``.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.recordings import decisions
from toolkit.allocation.cpu.manager import CpuAdmissionError, CpuPolicy, CpuPolicyError, CpuState, make_policy
from toolkit.allocation.machine import Machine
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_vector_pod
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.cpuset import CpuSet

FILES = ("cpu-static-basic", "cpu-static-basic-fuzz", "cpu-static-options", "cpu-static-options-fuzz")
DEFECTS = {"exclusive-overlap", "combination-aliasing"}
Scenario = dict[str, Any]


def build(kubelet: dict[str, Any], machine: Machine, *, quirks: bool) -> CpuPolicy:
    """Build the policy of a recorded configuration."""
    milli = sum(
        Quantity.parse(kubelet[name]["cpu"]).milli
        for name in ("kubeReserved", "systemReserved")
        if "cpu" in kubelet.get(name, {})
    )
    listed = CpuSet.parse(kubelet.get("reservedSystemCPUs", ""))
    gates = kubelet.get("featureGates", {})
    return make_policy(
        kubelet["cpuManagerPolicy"],
        kubelet.get("cpuManagerPolicyOptions", {}),
        machine,
        reserved_milli=1000 * len(listed) if listed else milli,
        reserved_list=listed,
        alpha_options=gates.get("CPUManagerPolicyAlphaOptions", False),
        pod_level_managers=gates.get("PodLevelResourceManagers", False),
        quirks=quirks,
    )


def active(pods: dict[str, Pod]) -> dict[str, frozenset[str]]:
    """Name the containers of active pods."""
    return {uid: frozenset(item.name for item in pod.containers) for uid, pod in pods.items()}


def add(policy: CpuPolicy, state: CpuState, pods: dict[str, Pod], pod: Pod) -> tuple[CpuState, dict[str, Any]]:
    """Admit a pod and describe the outcome as the recordings do."""
    state = policy.remove_stale(state, active(pods))
    try:
        for item in pod.containers:
            state = policy.allocate(state, pod, item, None)
    except CpuAdmissionError as error:
        state = policy.remove_stale(error.state, active(pods))
        return state, {"admitted": False, "reason": error.reason, "message": error.message}
    pods[pod.uid] = pod
    containers = {}
    for item in pod.containers:
        own = state.assigned(pod.uid, item.name)
        containers[item.name] = {
            "cpus": str(state.cpus_of(pod.uid, item.name)),
            "assigned": None if own is None else str(own),
            "isolation": str(policy.isolation(state, pod, item)),
        }
    return state, {"admitted": True, "containers": containers}


def replay(scenario: Scenario, machine: Machine, *, quirks: bool) -> tuple[list[Any], list[Any]]:
    """Return what was recorded and what the model says, cut down to what the CPU Manager alone decides."""
    policy = build(scenario["kubelet"], machine, quirks=quirks)
    state = policy.start(None)
    pods: dict[str, Pod] = {}
    startup = scenario["expect"]["startup"]
    recorded = [(startup["allocatable_cpus"], startup["default_cpuset"])]
    found = [(str(policy.allocatable), str(state.default))]
    for event, result in zip(scenario["events"], scenario["expect"]["events"], strict=True):
        if "add" in event:
            state, outcome = add(policy, state, pods, read_vector_pod(event["add"], scenario["id"]))
            found.append(outcome)
            expected = {key: result[key] for key in ("admitted", "reason", "message") if key in result}
            if result["admitted"]:
                expected["containers"] = {
                    name: {key: item[key] for key in ("cpus", "assigned", "isolation")}
                    for name, item in result["containers"].items()
                }
            recorded.append(expected)
        elif "remove" in event:
            pods.pop(event["remove"], None)
            state = policy.remove_stale(state, active(pods))
        found.append(str(state.default))
        recorded.append(result["default_cpuset"])
    return recorded, found


def load() -> list[tuple[Scenario, Machine]]:
    """Read the scenarios that the CPU Manager decides alone."""
    chosen = []
    for name in FILES:
        data = decisions(name)
        machines = {key: Machine.from_vector(value, key) for key, value in data["machines"].items()}
        for scenario in data["scenarios"]:
            kubelet = scenario["kubelet"]
            alone = kubelet.get("topologyManagerPolicy", "none") == "none"
            if alone and not any("restart_kubelet" in event for event in scenario["events"]):
                chosen.append((scenario, machines[scenario["machine"]]))
    return chosen


def differing(scenarios: list[tuple[Scenario, Machine]], *, quirks: bool) -> list[str]:
    """Name the scenarios whose replay differs."""
    different = []
    for scenario, machine in scenarios:
        recorded, found = replay(scenario, machine, quirks=quirks)
        if recorded != found:
            different.append(scenario["id"])
    return different


def test_recorded_decisions() -> None:
    """The model decides as the real component did, wherever that had no defect."""
    healthy = [item for item in load() if not DEFECTS & set(item[0].get("tags", ()))]
    assert len(healthy) > 400
    assert differing(healthy, quirks=False) == []


def test_recorded_defects() -> None:
    """With quirks the defects are reproduced and nothing else changes; without, no CPU goes to two pods."""
    scenarios = load()
    assert differing(scenarios, quirks=True) == []
    tagged = [item for item in scenarios if DEFECTS & set(item[0].get("tags", ()))]
    assert len(tagged) >= 10
    assert sorted(differing(tagged, quirks=False)) == sorted(scenario["id"] for scenario, _ in tagged)


def test_replay_can_fail() -> None:
    """A recording that is changed is noticed."""
    scenario, machine = next(item for item in load() if item[0]["expect"]["events"])
    scenario["expect"]["events"][-1]["default_cpuset"] = "77"
    assert differing([(scenario, machine)], quirks=False) == [scenario["id"]]


@pytest.mark.parametrize("quirks", [False, True])
def test_startup_errors(quirks: bool) -> None:
    """Configurations that the real CPU Manager refuses are refused with its message, the accepted ones accepted."""
    data = decisions("startup-errors")
    machines = {key: Machine.from_vector(value, key) for key, value in data["machines"].items()}
    refused = 0
    for scenario in data["scenarios"]:
        error = scenario["expect"].get("startup_error")
        if error is not None and error["stage"] != "cpu-manager":
            continue
        kubelet = scenario["kubelet"]
        try:
            build(kubelet, machines[scenario["machine"]], quirks=quirks)
            message = None
        except CpuPolicyError as problem:
            message = str(problem)
        if kubelet.get("topologyManagerPolicy", "none") == "none":
            assert message == (error["message"] if error else None), scenario["id"]
            refused += error is not None
    assert refused >= 5
