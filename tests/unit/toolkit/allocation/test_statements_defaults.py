"""Statements about what holds without an option, and about options together (``docs/statements.md``)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import (
    GIB,
    POD_SCOPE,
    SHARED,
    STATIC_MEMORY,
    both,
    budget,
    config,
    machine,
    pod,
)
from toolkit.allocation.node import start_node
from toolkit.allocation.planner import plan
from toolkit.errors import InputError
from toolkit.kubernetes.feature_gates import CPU_ALPHA_OPTIONS, CPU_BETA_OPTIONS, FeatureGates
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import QosClass
from toolkit.sources.kubelet.configuration import read_configuration

STRICT = {"strict-cpu-reservation": "true"}
CONTAINER_SCOPE = POD_SCOPE | {"topologyManagerScope": "container"}


@pytest.mark.parametrize("limit", ["1", "2", "5", "7000m"])
def test_a_container_has_as_many_cpus_as_its_limit(limit: str) -> None:
    """NRM-32: neither more nor fewer, so that nothing else has to bound its usage."""
    (own,) = plan([pod("db", both(limit))], config(), machine()).pods[0].containers
    assert (len(own.cpus), own.quota_us) == (int(limit.replace("000m", "")), NO_QUOTA)


def test_without_options_a_core_is_filled_and_may_have_two_owners() -> None:
    """NRM-33: threads of one core go to two containers, before another core is begun."""
    made = plan([pod("a", both("1")), pod("b", both("1"))], config(), machine())
    assert [str(one.containers[0].cpus) for one in made.pods] == ["1", "9"]


def test_without_options_a_node_is_filled_before_the_next() -> None:
    """NRM-33: node 1 has eight CPUs; two of ten spill over to the other node, onto one core."""
    (own,) = plan([pod("a", both("10"))], config(), machine()).pods[0].containers
    assert str(own.cpus) == "1,4-7,9,12-15"


@pytest.mark.parametrize(
    ("gates", "alpha", "beta"),
    [({}, False, True), ({CPU_ALPHA_OPTIONS: True}, True, True), ({CPU_BETA_OPTIONS: False}, False, False)],
)
def test_beta_options_may_be_named_from_the_start_and_alpha_ones_not(
    gates: dict[str, bool], *, alpha: bool, beta: bool
) -> None:
    """NRM-34: by the gates' defaults; a gate alone switches no option on."""
    assert (FeatureGates(gates)[CPU_ALPHA_OPTIONS], FeatureGates(gates)[CPU_BETA_OPTIONS]) == (alpha, beta)
    both_on = config(featureGates={**gates, CPU_ALPHA_OPTIONS: True})
    wanted = [pod("a", both("1")), pod("b", both("1"))]
    assert plan(wanted, both_on, machine()).default_cpus == plan(wanted, config(), machine()).default_cpus
    for option, open_ in (("distribute-cpus-across-cores", alpha), ("distribute-cpus-across-numa", beta)):
        named = config(featureGates=gates, cpuManagerPolicyOptions={option: "true"})
        assert _starts(named) is open_


def _starts(settings: NodeConfig) -> bool:
    try:
        start_node(settings, machine())
    except InputError:
        return False
    return True


def test_a_pods_pool_is_apart_from_slices_and_from_the_nodes_pool() -> None:
    """NRM-35: what shares in the pod shares with no other."""
    made = plan([budget("4", both("2"), SHARED, SHARED), pod("web", SHARED)], config(**POD_SCOPE), machine())
    own, one, other = made.pods[0].containers
    assert one.cpus == other.cpus
    assert (len(one.cpus), one.cpus.isdisjoint(own.cpus), one.cpus.isdisjoint(made.default_cpus)) == (2, True, True)
    assert made.pods[1].containers[0].cpus == made.default_cpus


@pytest.mark.parametrize("scope", [POD_SCOPE, CONTAINER_SCOPE])
def test_a_budgets_limits_bound_all_containers_together(scope: dict[str, Any]) -> None:
    """NRM-36: in the pod's own cgroup, in both scopes, while a container has CPUs of its own."""
    (made,) = plan([budget("4", both("2"), SHARED)], config(**scope), machine()).pods
    assert (made.quota_us, made.memory_limit_bytes) == (400_000, 4 * GIB)
    assert made.containers[0].quota_us == NO_QUOTA


def test_memory_nodes_go_to_the_containers_cpuset() -> None:
    """MEM-10: of a Guaranteed pod those where its memory is; of others none."""
    made = plan([pod("db", both("2", "2Gi")), pod("web", SHARED)], config(**STATIC_MEMORY), machine())
    assert [one.containers[0].mems for one in made.pods] == [CpuSet.parse("0"), None]


@pytest.mark.parametrize(("reserved", "complaint"), [("", "memory"), ("100Mi", ""), ("200Mi", "memory")])
def test_policy_static_needs_reserved_memory(reserved: str, complaint: str) -> None:
    """MEM-11: of a file that says nothing else, the hard eviction threshold of 100 MiB must be on some node."""
    lines = [
        "apiVersion: kubelet.config.k8s.io/v1beta1",
        "kind: KubeletConfiguration",
        "memoryManagerPolicy: Static",
        *([f"reservedMemory: [{{numaNode: 0, limits: {{memory: {reserved}}}}}]"] if reserved else []),
    ]
    settings = read_configuration(("config.yaml", "\n".join(lines))).node
    try:
        said = "" if start_node(settings, machine()) else "nothing"
    except InputError as error:
        said = str(error)
    assert (bool(said), complaint in said) == (bool(complaint), True)


def test_no_memory_policy_is_policy_none() -> None:
    """MEM-12: as if there were no Memory Manager."""
    assert read_settings({}, "kubelet").memory_manager_policy == "None"
    assert plan([pod("db", both("1"))], config(), machine()).pods[0].containers[0].mems is None


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({"limits": {"cpu": "2", "memory": "1Gi"}}, QosClass.GUARANTEED),
        ({"limits": {"cpu": "300m", "memory": "1Gi"}}, QosClass.GUARANTEED),
        ({"limits": {"cpu": "2"}}, QosClass.BURSTABLE),
        ({"limits": {"memory": "1Gi"}}, QosClass.BURSTABLE),
    ],
)
def test_a_guaranteed_pod_names_cpu_and_memory(resources: dict[str, Any], qos: QosClass) -> None:
    """MEM-13: one of both is not enough."""
    assert pod("db", resources).qos_class is qos


@pytest.mark.parametrize("scope", [POD_SCOPE, CONTAINER_SCOPE])
def test_a_pod_without_a_budget_is_managed_as_before(scope: dict[str, Any]) -> None:
    """KPL-19: the gate changes nothing for it."""
    wanted = [pod("db", both("2"), both("1")), pod("mixed", both("1"), both("500m")), pod("web", both("500m"))]
    off = {**scope, "featureGates": {**scope["featureGates"], "PodLevelResourceManagers": False}}
    on, without = (plan(wanted, config(**fields), machine()) for fields in (scope, off))
    assert [one.containers for one in on.pods] == [one.containers for one in without.pods]
    assert [one.quota_us for one in on.pods] == [one.quota_us for one in without.pods]


def test_every_containers_part_is_written_down_at_admission() -> None:
    """KPL-20: in the state file before any of them runs, those that share included."""
    node = start_node(config(**POD_SCOPE), machine())
    assert node.admit(budget("4", both("2"), SHARED, SHARED)).admitted
    state = json.loads(node.checkpoints().cpu or "")
    assert state["entries"]["db"].keys() == {"c0", "c1", "c2"}
    assert state["entries"]["db"]["c1"] == state["entries"]["db"]["c2"]
    parts = (CpuSet.parse(cpus) for cpus in state["entries"]["db"].values())
    assert CpuSet.union(parts) == CpuSet.parse(state["podEntries"]["db"]["cpuSet"])


def test_the_next_pod_has_what_the_last_one_had() -> None:
    """KPL-23: two budgets that do not fit beside each other, one after the other, have the same CPUs and memory."""
    node = start_node(config(**POD_SCOPE, **STATIC_MEMORY), machine())
    had = []
    for name in ("first", "second"):
        wanted = pod(name, both("2", "2Gi"), SHARED, resources=both("10", "20Gi"))
        assert node.admit(wanted).admitted
        had.append((node.cpu_state.pods[name], node.memory.numa_nodes(name, "c0")))
        node.remove(name)
    assert had[0] == had[1]


def test_a_budget_outlives_the_kubelet() -> None:
    """KPL-26: what is in the state files is had again, of the pod and of its containers (readmission: F26)."""
    node = start_node(config(**POD_SCOPE, **STATIC_MEMORY), machine())
    assert node.admit(budget("4", both("2"), SHARED)).admitted
    again = node.restarted()
    assert (again.cpu_state, again.checkpoints()) == (node.cpu_state, node.checkpoints())
    assert again.memory.state == node.memory.state


def test_the_quota_comes_back_with_its_gate_off() -> None:
    """KPL-24: a way back for whom it helps; the CPUs stay exclusive."""
    off = config(featureGates={"DisableCPUQuotaWithExclusiveCPUs": False})
    (made,) = plan([pod("db", both("2"))], off, machine()).pods
    assert (made.quota_us, made.containers[0].quota_us) == (200_000, 200_000)
    assert made.containers[0].isolation is Isolation.CONTAINER


@pytest.mark.parametrize(("cpus", "reason"), [("3", "SMTAlignmentError"), ("4", "")])
def test_whole_cores_and_caches_go_with_strict_reservation(cpus: str, reason: str) -> None:
    """STR-8: what is not a multiple of a core is refused; the rest is of one cache, off the reserved CPUs."""
    options = {**STRICT, "full-pcpus-only": "true", "prefer-align-cpus-by-uncorecache": "true"}
    whole = plan([pod("db", both(cpus))], config(cpuManagerPolicyOptions=options), machine())
    (made,) = whole.pods
    assert made.reason == reason
    assert whole.default_cpus.isdisjoint(CpuSet.parse("0,8"))
    for own in made.containers:
        assert own.cpus.isdisjoint(CpuSet.parse("0,8"))
        assert len({cpu % 8 // 4 for cpu in own.cpus}) == 1
        assert all((cpu + 8) % 16 in own.cpus for cpu in own.cpus)


def test_best_effort_pods_are_admitted_where_no_cpu_is_left_for_them() -> None:
    """STR-9: they may starve; they do not run on reserved CPUs."""
    made = plan([pod("big", both("14")), pod("web", SHARED)], config(cpuManagerPolicyOptions=STRICT), machine())
    assert (made.pods[1].admitted, made.pods[1].containers[0].cpus) == (True, CpuSet())


@pytest.mark.parametrize("fields", [{"cpuManagerPolicy": "none"}, {"reservedSystemCPUs": ""}])
def test_strict_reservation_needs_the_static_policy_and_a_reservation(fields: dict[str, str]) -> None:
    """STR-7: a kubelet without one of both does not start with the option."""
    with pytest.raises(InputError):
        plan([pod("web", SHARED)], config(cpuManagerPolicyOptions=STRICT, **fields), machine())
