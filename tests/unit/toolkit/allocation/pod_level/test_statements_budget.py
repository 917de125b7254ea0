"""Statements of KEP-5526 about a pod's budget that no other test would miss (``docs/statements.md``)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.toolkit.allocation import static_policy
from tests.unit.toolkit.allocation.node_builder import (
    AFFINITY,
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
from tests.unit.toolkit.allocation.static_policy import INIT, SIDECAR, container
from tests.unit.toolkit.kubernetes.pod_manifests import manifest, res
from toolkit.allocation.cpu.requests import exclusive_cpus
from toolkit.allocation.machine import Machine
from toolkit.allocation.planner import plan
from toolkit.allocation.simulate import simulate
from toolkit.allocation.vectors import Event, VectorScenario
from toolkit.errors import InputError
from toolkit.kubernetes.pod import Container, Resources
from toolkit.kubernetes.pod_reader import read_pod, read_vector_pod
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.plan import QosClass

CONTAINER_SCOPE = POD_SCOPE | {"topologyManagerScope": "container", "topologyManagerPolicy": "single-numa-node"}


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_without_the_gate_no_memory_is_pinned_and_no_hint_given(scope: str) -> None:
    """KPL-2: a budget larger than a node is admitted under single-numa-node, because nothing manages it."""
    settings = config(**STATIC_MEMORY, topologyManagerPolicy="single-numa-node", topologyManagerScope=scope)
    made = plan([pod("db", both("10", "20Gi"), resources=both("10", "20Gi"))], settings, machine()).pods[0]

    assert made.admitted
    assert (made.containers[0].isolation, made.containers[0].mems) == (Isolation.HOST, None)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [("a", both("1", "3Gi")), ("b", both("1", "3Gi"))]},
        {"containers": [("a", both("1"))], "initContainers": [("i", both("5"))]},
    ],
    ids=["memory", "init-container"],
)
def test_memory_and_init_containers_keep_to_the_budget_too(spec: dict[str, Any]) -> None:
    """KPL-3: not the app containers' CPUs alone."""
    body = {kind: [{"name": name, "resources": own} for name, own in rows] for kind, rows in spec.items()}
    whole = {"metadata": {"name": "db"}, "spec": {**body, "resources": both("4", "4Gi")}}

    with pytest.raises(InputError, match="a budget that covers the containers"):
        read_pod({"apiVersion": "v1", "kind": "Pod", **whole}, "db")


def test_a_burstable_budget_makes_its_guaranteed_container_burstable() -> None:
    """KPL-4: the budget decides alone, in this direction too."""
    wanted = {"limits": {"cpu": "4", "memory": "2Gi"}, "requests": {"cpu": "2", "memory": "2Gi"}}
    made = read_pod(manifest(res("1", "1Gi", cpu="1", memory="1Gi"), resources=wanted), "p")

    assert made.containers[0].guaranteed
    assert made.qos_class is QosClass.BURSTABLE


def amounts(**of: str) -> dict[str, Quantity]:
    """Return quantities."""
    return {name: Quantity.parse(text) for name, text in of.items()}


@pytest.mark.parametrize(
    ("requests", "limits", "count"),
    [
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, 2),
        ({"cpu": "2"}, {"cpu": "2"}, 0),
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}, 0),
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"}, 0),
        ({"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1500m", "memory": "1Gi"}, 0),
    ],
)
def test_a_container_of_a_budget_is_exclusive_by_itself(
    requests: dict[str, str], limits: dict[str, str], count: int
) -> None:
    """KPL-5: request equals limit for CPU and for memory, and the CPUs are whole."""
    one = Container(name="c", resources=Resources(requests=amounts(**requests), limits=amounts(**limits)))

    assert exclusive_cpus(static_policy.pod("a", one, budget="6"), one, pod_level_managers=True) == count


@pytest.mark.parametrize("scope", ["pod", "container"])
@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_policies_hold_for_budgets(policy: str, scope: str) -> None:
    """KPL-6: seven CPUs are free, on two nodes; only best-effort takes them."""
    settings = config(**POD_SCOPE | {"topologyManagerPolicy": policy, "topologyManagerScope": scope})
    made = plan([pod("one", both("3")), pod("two", both("4")), budget("7", both("7"))], settings, machine())

    assert [one.admitted for one in made.pods[:2]] == [True, True]
    assert made.pods[2].reason == ("" if policy == "best-effort" else "TopologyAffinityError")


@pytest.mark.parametrize(
    ("scope", "whole", "message"),
    [
        ("pod", False, AFFINITY),
        ("container", False, AFFINITY),
        ("pod", True, "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"),
        (
            *("container", True),
            "Pod Scope pod with pod-level resources failed admission with a container-level topology manager",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
@pytest.mark.parametrize("wanted", [both("10"), both("2", "20Gi")], ids=["CPUs", "memory"])
def test_what_cannot_be_aligned_is_refused_in_the_kubelets_words(
    wanted: dict[str, Any], policy: str, scope: str, whole: bool, message: str
) -> None:
    """KPL-25: CPUs of two nodes beside memory of one, or the other way round; with and without a budget."""
    settings = config(**POD_SCOPE | STATIC_MEMORY | {"topologyManagerPolicy": policy, "topologyManagerScope": scope})
    (made,) = plan([pod("wide", wanted, **({"resources": wanted} if whole else {}))], settings, machine()).pods

    assert (made.admitted, made.reason, made.message) == (False, "TopologyAffinityError", message)


def test_an_init_container_may_use_what_a_later_sidecar_will_own() -> None:
    """KPL-7, KPL-8: all but the parts of sidecars that run already; a sidecar that shares has the pod's pool."""
    static = static_policy.policy(gate=True)
    owner = static_policy.pod(
        "a",
        container("first", "1", SIDECAR),
        container("init", "", INIT),
        container("later", "1", SIDECAR),
        container("log", "", SIDECAR),
        container("main", "2"),
        container("side", ""),
        budget="6",
    )
    state = static.allocate_pod(static.start(None), owner, None)
    parts, whole = state.entries["a"], state.pods["a"]

    assert parts["init"] == whole - parts["first"]
    assert parts["log"] == parts["side"] == whole - parts["first"] - parts["later"] - parts["main"]


@pytest.mark.parametrize(("scope", "reason"), [("pod", "EmptyPodSharedPoolError"), ("container", "")])
def test_only_pod_scope_has_a_pool_that_can_be_empty(scope: str, reason: str) -> None:
    """KPL-10: a budget used up by its exclusive container, under a policy that refuses nothing else."""
    made = plan([budget("4", both("4"), SHARED)], config(**POD_SCOPE | {"topologyManagerScope": scope}), machine())

    assert made.pods[0].reason == reason


def test_in_container_scope_cpus_and_quotas_are_the_containers_own() -> None:
    """KPL-11, KPL-17: two CPUs of a budget of ten, from one node; the other's quota is the budget's."""
    wanted = pod("mixed", both("2", "2Gi"), SHARED, resources=both("10", "20Gi"))
    made = plan([wanted], config(**CONTAINER_SCOPE), machine())
    own, other = made.pods[0].containers

    assert (len(own.cpus), own.isolation, other.isolation) == (2, Isolation.CONTAINER, Isolation.HOST)
    assert made.default_cpus == machine().cpus - own.cpus
    assert (own.quota_us, other.quota_us) == (NO_QUOTA, 1_000_000)


def test_in_container_scope_memory_blocks_are_the_containers_own() -> None:
    """KPL-11: what each asks for, whatever the budget is."""
    wanted = pod("mixed", both("2", "2Gi"), both("1", "1Gi"), resources=both("10", "20Gi"))
    made = plan([wanted], config(**CONTAINER_SCOPE, **STATIC_MEMORY), machine())

    entries = json.loads(made.states["memory_manager_state"])["entries"]["mixed"]
    assert {name: [block["size"] for block in rows] for name, rows in entries.items()} == {"c0": [2 * GIB], "c1": [GIB]}


@pytest.mark.parametrize("others", [[SHARED], []], ids=["one-shares", "all-guaranteed"])
def test_a_pod_that_the_proposal_admits_and_the_kubelet_does_not_is_explained(others: list[dict[str, Any]]) -> None:
    """KPL-11: nothing is rejected in container scope, and the Memory Manager rejects one that asks for nothing."""
    policy = CONTAINER_SCOPE | {"topologyManagerPolicy": "none"}
    wanted = pod("mixed", both("2", "2Gi"), *others, resources=both("10", "20Gi"))
    made = plan([wanted], config(**policy, **STATIC_MEMORY), machine()).pods[0]

    assert made.admitted is not bool(others)
    assert any("KEP-5526 lets containers that are not Guaranteed (c1) run" in line for line in made.reasons) is bool(
        others
    )


@pytest.mark.parametrize(("value", "on_each_node"), [("true", [3, 3]), ("false", [2, 4])])
def test_options_hold_for_the_slice_of_a_container(value: str, on_each_node: list[int]) -> None:
    """KPL-12: of the pod's ten CPUs a container's six are as evenly spread as the whole."""
    settings = config(**POD_SCOPE, cpuManagerPolicyOptions={"distribute-cpus-across-numa": value})
    cpus = plan([budget("10", both("6"), SHARED)], settings, machine()).pods[0].containers[0].cpus

    assert sorted((cpus.mask & mask).bit_count() for mask in machine().numa_masks.values()) == on_each_node


@pytest.mark.parametrize(("quirks", "beside"), [(False, {}), (True, {"hugepages-2Mi": (1 << 64) - GIB})])
def test_huge_pages_beside_a_budget_are_no_part_of_the_pods_pool(quirks: bool, beside: dict[str, int]) -> None:
    """By its sources v1.36.2 takes them off a pool that has none, and what is left wraps. The API's defaults name them
    in the budget; a pod of the vectors is taken as it is given.
    """
    rows = [{"name": "c", "resources": both("1", "1Gi", **{"hugepages-2Mi": "1Gi"})}, {"name": "d", "resources": {}}]
    given = read_vector_pod({"uid": "p", "name": "p", "containers": rows, "resources": both("2", "8Gi")}, "p")
    numa = [{"id": i, "memory": 16 * GIB, "hugepages": {"2Mi": 1024}} for i in range(2)]
    shape = Machine.from_vector({"cpus": [[cpu, cpu, 0, cpu // 2, 0] for cpu in range(4)], "numa": numa})
    settings = config(**POD_SCOPE | STATIC_MEMORY, reservedSystemCPUs="0")
    scenario = VectorScenario(id="s", machine=shape, config=settings, events=(Event(kind="add", pod=given),))

    containers = simulate(scenario, quirks=quirks)["events"][0]["containers"]

    sizes = {name: {block["type"]: block["size"] for block in one["memory"]} for name, one in containers.items()}
    assert sizes == {"c": {"memory": GIB, "hugepages-2Mi": GIB}, "d": {"memory": 7 * GIB} | beside}
