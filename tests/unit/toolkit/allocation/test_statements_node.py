"""Statements of "Node Resource Managers" and KEP-5526 that no other test would miss (``docs/statements.md``)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import BUDGET, PLR, STATIC_MEMORY, both, config, machine, pod
from toolkit.allocation.device.manager import read_devices
from toolkit.allocation.planner import plan
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.cpuset import CpuSet

NIC = "example.com/nic"


def test_under_policy_none_limits_are_quotas() -> None:
    """NRM-1: of Guaranteed and of Burstable pods, at the pod and at the container."""
    burst = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    made = plan([pod("db", both("2")), pod("web", burst)], NodeConfig(), machine())

    assert [(one.quota_us, one.containers[0].quota_us) for one in made.pods] == [(200_000, 200_000)] * 2


def test_whole_cpus_of_a_burstable_container_are_not_exclusive() -> None:
    """NRM-2, NRM-3: a request of whole CPUs is not enough, the pod must be Guaranteed."""
    burst = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "1Gi"}}
    made = plan([pod("web", burst)], config(), machine()).pods[0].containers[0]

    assert (made.assigned, made.isolation) == (None, Isolation.HOST)


def test_one_exclusive_container_takes_its_pods_quota_away() -> None:
    """NRM-8: the pod has no quota, and the container that shares keeps its own."""
    made = plan([pod("db", both("2"), both("500m"))], config(), machine()).pods[0]

    assert [made.quota_us, *(one.quota_us for one in made.containers)] == [NO_QUOTA, NO_QUOTA, 50_000]


def test_a_beta_option_without_its_gate_is_refused() -> None:
    """NRM-16: the gate that a node's configuration switches off is the one that is asked."""
    gates = {"CPUManagerPolicyBetaOptions": False}
    settings = config(cpuManagerPolicyOptions={"distribute-cpus-across-numa": "true"}, featureGates=gates)

    with pytest.raises(InputError, match="Beta-level Options not enabled"):
        plan([], settings, machine())


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(("nodes", "cpu", "expected"), [((1,), "2", "4,12"), ((0, 1), "8", "4-7,12-15")])
def test_device_and_cpus_come_from_one_node(scope: str, nodes: tuple[int, ...], cpu: str, expected: str) -> None:
    """NRM-18: with a NIC on node 1 only, and with one on each where only node 1 has eight CPUs that are free."""
    rows = [{"resource": NIC, "id": f"eth{node}", "numa": node} for node in nodes]
    settings = config(topologyManagerPolicy="single-numa-node", topologyManagerScope=scope)

    made = plan([pod("p", both(cpu, **{NIC: "1"}))], settings, machine(), devices=read_devices(rows, "devices"))

    assert (str(made.pods[0].containers[0].cpus), made.pods[0].containers[0].devices) == (expected, ("eth1",))


def test_a_budget_lies_where_the_pods_hint_says() -> None:
    """NRM-19: six CPUs do not fit beside the first pod, so all of the budget's are of the other node."""
    wanted = pod("b", both("2"), {}, resources=both("6", "6Gi"))
    made = plan([pod("a", both("2")), wanted], config(**PLR), machine()).pods[1]

    assert made.cpus is not None
    assert made.cpus <= machine().cpus_in_numa((1,))


@pytest.mark.parametrize("scope", ["pod", "container"])
@pytest.mark.parametrize(("policy", "reason"), [("restricted", ""), ("single-numa-node", "TopologyAffinityError")])
def test_a_budget_of_two_nodes_is_none_of_one(policy: str, reason: str, scope: str) -> None:
    """KPL-27: ten CPUs lie on two nodes at least; only single-numa-node minds."""
    settings = config(**PLR | {"topologyManagerPolicy": policy, "topologyManagerScope": scope})
    (made,) = plan([pod("a", both("10"), resources=both("10"))], settings, machine()).pods

    assert made.reason == reason


def test_a_budgets_memory_is_of_its_cpus_node() -> None:
    """KPL-27: the first pod leaves too few CPUs on one node, so CPUs and memory are of the other."""
    settings = config(**PLR | STATIC_MEMORY | {"topologyManagerPolicy": "single-numa-node"})
    wanted = pod("b", both("2", "2Gi"), {}, resources=both("6", "6Gi"))
    made = plan([pod("a", both("2")), wanted], settings, machine()).pods[1]

    assert made.cpus is not None
    (node,) = (one for one in (0, 1) if made.cpus <= machine().cpus_in_numa((one,)))
    assert [one.mems for one in made.containers] == [CpuSet.of([node])] * 2
    assert node == 1


@pytest.mark.parametrize(
    ("cpu", "memory", "reason"),
    [
        ("3", "3Gi", "EmptyPodSharedPoolError"),
        ("2", "3Gi", "EmptyPodSharedPoolError"),
        ("3", "2Gi", "EmptyPodSharedPoolError"),
        ("2", "2Gi", ""),
    ],
)
def test_a_sidecars_part_of_the_budget_counts(cpu: str, memory: str, reason: str) -> None:
    """NRM-21, NRM-22: what a sidecar owns leaves nothing to share, by CPUs or by memory alone."""
    sidecars = [
        {"name": "proxy", "restartPolicy": "Always", "resources": both("1", "1Gi")},
        {"name": "log", "restartPolicy": "Always", "resources": {}},
    ]
    settings = config(**PLR | {"topologyManagerPolicy": "best-effort"} | STATIC_MEMORY)

    made = plan([pod("p", both(cpu, memory), resources=BUDGET, initContainers=sidecars)], settings, machine()).pods[0]

    assert made.reason == reason


@pytest.mark.parametrize(
    "other",
    [
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        {"requests": {"cpu": "1", "memory": "1Gi"}},
    ],
    ids=["burstable", "cpu-only", "requests-only"],
)
def test_in_container_scope_each_container_must_be_guaranteed_itself(other: dict[str, Any]) -> None:
    """NRM-25, KPL-5: of CPU and memory; the budget makes no container exclusive and is not handed out."""
    settings = config(**PLR | {"topologyManagerScope": "container"})
    made = plan([pod("mixed", both("2", "2Gi"), other, resources=BUDGET)], settings, machine()).pods[0]
    own, shared = made.containers

    assert made.cpus is None
    assert (len(own.cpus), own.isolation) == (2, Isolation.CONTAINER)
    assert (shared.assigned, shared.isolation) == (None, Isolation.HOST)


def test_without_static_policies_a_budget_is_admitted_and_gets_nothing() -> None:
    """NRM-29: the gate is on, and neither manager hands anything out."""
    made = plan([pod("p", both("2", "2Gi"), {}, resources=BUDGET)], read_settings(PLR, "kubelet"), machine()).pods[0]

    assert (made.admitted, made.cpus) == (True, None)
    assert [(one.assigned, one.mems) for one in made.containers] == [(None, None)] * 2
