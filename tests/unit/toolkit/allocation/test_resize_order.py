"""In-place resize as v1.36 decides it: what refuses first, what is counted, and what an attempt leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import AFFINITY, GATE, GIB, both, config, machine, pod
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.allocation.resize import POD_LEVEL_OFF, STATIC_CPU, STATIC_MEMORY, ResizeStatus, resize
from toolkit.kubernetes.node_config import read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_submitted_pod, read_vector_pod
from toolkit.model.cpuset import CpuSet

HUGE = {"hugepages-2Mi": "1Gi"}
ALL = CpuSet.parse("0-15")
STATIC_BOTH = {
    "memoryManagerPolicy": "Static",
    "kubeReserved": {"memory": "1Gi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
}
MANAGED = {"PodLevelResourceManagers": True, "InPlacePodVerticalScalingExclusiveCPUs": True}


def some(cpu: str, memory: str = "1Gi") -> dict[str, Any]:
    """Requests without limits: no CPUs of its own."""
    return {"requests": {"cpu": cpu, "memory": memory}}


def huge_machine(pages: int = 1024) -> Machine:
    """Two nodes of 16 GiB with four CPUs each, of which ``pages`` huge pages of 2 MiB."""
    return Machine.from_vector(
        {
            "cpus": [[cpu, cpu, 0, cpu // 4, cpu // 4] for cpu in range(8)],
            "numa": [{"id": i, "memory": 16 * GIB, "hugepages": {"2Mi": pages}} for i in range(2)],
        }
    )


def running(*pods: Pod, on: Machine | None = None, quirks: bool = False, **fields: Any) -> Node:
    """A static node with these pods."""
    node = Node(config(**fields), on or machine(), quirks=quirks)
    for one in pods:
        assert node.admit(one).admitted
    return node


# What is counted


def test_huge_pages_and_the_eviction_threshold_are_no_pods_memory() -> None:
    """Of 32 GiB 4 are huge pages and one is kept free: the API server refuses more than 27, for all pods together."""
    settings = read_settings({"evictionHard": {"memory.available": "1Gi"}}, "kubelet")
    node = Node(settings, huge_machine())
    assert node.admit(pod("web", some("1"))).admitted

    too_much = resize(node, pod("web", some("9", "28Gi")))
    most = resize(node, pod("web", some("8", "27Gi")))

    refusal = "cpu, requested: 9000, allocatable: 8000; memory, requested: {}, allocatable: {}"
    text = 'pods "web" is forbidden: node didn\'t have enough allocatable resources: '
    assert too_much[:2] == (ResizeStatus.FORBIDDEN, text + refusal.format(28 * GIB, 27 * GIB))
    assert most.status is ResizeStatus.DONE


def test_room_beside_others_is_without_huge_pages_too() -> None:
    """The kubelet goes by the same status of the node, less what the others ask for."""
    node = running(pod("web", some("1")), pod("other", some("1", "20Gi")), on=huge_machine(), reservedSystemCPUs="0")

    answer = resize(node, pod("web", some("1", "9Gi")))

    detail = f"memory, requested: {9 * GIB}, used: {20 * GIB}, capacity: {28 * GIB}"
    assert answer[:2] == (ResizeStatus.DEFERRED, f"Node didn't have enough resource: {detail}")


def test_overhead_counts_on_both_sides() -> None:
    """A RuntimeClass's overhead is part of what a pod asks for, and of what the others have."""
    overhead = {"overhead": {"cpu": "1", "memory": "1Gi"}}
    node = running(pod("web", some("1"), **overhead), pod("other", some("4"), **overhead))

    wait = resize(node, pod("web", some("9"), **overhead))
    never = resize(node, pod("web", some("14"), **overhead))

    assert wait.message == "Node didn't have enough resource: cpu, requested: 10000, used: 5000, capacity: 14000"
    assert (never.status, never.message.rpartition(": cpu, ")[2]) == (
        ResizeStatus.FORBIDDEN,
        "requested: 15000, allocatable: 14000",
    )
    assert resize(node, pod("web", some("8"), **overhead)).status is ResizeStatus.DONE


def test_nothing_asked_for_fits_where_everything_is_taken() -> None:
    """Pods that arrived with more CPU than there is keep no pod from more memory that asks for no CPU."""
    node = running(pod("web", {"requests": {"memory": "1Gi"}}), pod("other", some("20")))

    assert resize(node, pod("web", {"requests": {"memory": "2Gi"}})).status is ResizeStatus.DONE


def test_memory_that_no_recording_tells_is_not_compared() -> None:
    """A machine that was recorded without its memory refuses no pod because of it."""
    shape = Machine.from_vector({"cpus": [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0]], "numa": [{"id": 0}]})
    node = running(pod("web", some("100m")), on=shape, reservedSystemCPUs="0")

    assert resize(node, pod("web", some("1", "2Gi"))).status is ResizeStatus.DONE
    assert resize(node, pod("web", some("2", "2Gi"))).status is ResizeStatus.FORBIDDEN


def given(cpu: str, containers: tuple[dict[str, Any], ...], name: str = "db") -> Pod:
    """A pod with a budget of CPU and 8 GiB as the vectors give it: the budget's huge pages are not filled in."""
    rows = [{"name": f"c{i}", "resources": resources} for i, resources in enumerate(containers)]
    return read_vector_pod({"uid": name, "name": name, "containers": rows, "resources": both(cpu, "8Gi")}, name)


def test_huge_pages_beside_a_budget_are_counted() -> None:
    """A budget replaces the sum of what it names; what it does not name stays the containers' sum."""
    node = running(
        given("2", (both("1", "1Gi", **HUGE),)),
        pod("other", both("1", **HUGE)),
        on=huge_machine(256),
        reservedSystemCPUs="0",
    )

    answer = resize(node, given("3", (both("1", "1Gi", **HUGE),)))

    assert answer[:2] == (
        ResizeStatus.DEFERRED,
        f"Node didn't have enough resource: hugepages-2Mi, requested: {GIB}, used: {GIB}, capacity: {GIB}",
    )


# What refuses first


def test_the_api_server_refuses_before_the_kubelet() -> None:
    """Not valid, then more than the node has, and only then what is infeasible beside the static policy."""
    node = running(pod("db", both("2")))
    body = {"containers": [{"name": "c0", "resources": both("40") | {"limits": {"cpu": "1", "memory": "1Gi"}}}]}
    wrong = read_submitted_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}, "spec": body}, "db")

    answers = [resize(node, one) for one in (wrong, pod("db", both("40")), pod("db", both("4")))]

    assert [one.status for one in answers] == [ResizeStatus.INVALID, ResizeStatus.FORBIDDEN, ResizeStatus.INFEASIBLE]
    assert "above its limit" in answers[0].message


def test_the_kubelet_looks_at_the_budget_first_then_at_cpus_then_at_memory() -> None:
    """Gate of pod-level resizes, static CPU Manager, Static Memory Manager: one message, the first."""
    off = {"featureGates": {"InPlacePodLevelResourcesVerticalScaling": False}}
    before, after = (pod("db", both(n, f"{n}Gi"), resources=both(n, f"{n}Gi")) for n in ("2", "3"))

    without_gate = resize(running(before, **STATIC_BOTH, **off), after)
    with_gate = resize(running(before, **STATIC_BOTH), after)
    memory_only = resize(running(pod("db", both("2")), **STATIC_BOTH), pod("db", both("2", "2Gi")))

    found = (without_gate.message, with_gate.message, memory_only.message)
    assert found == (POD_LEVEL_OFF, STATIC_CPU, STATIC_MEMORY)
    assert {one.status for one in (without_gate, with_gate, memory_only)} == {ResizeStatus.INFEASIBLE}


def test_the_managers_are_asked_before_the_room_beside_other_pods() -> None:
    """Neither fits: the reason is the Topology Manager's."""
    node = running(pod("db", both("2")), pod("other", some("10")), **GATE, topologyManagerPolicy="restricted")

    assert resize(node, pod("db", both("6")))[:2] == (ResizeStatus.DEFERRED, AFFINITY)


# What the managers say


def test_memory_alone_is_held_against_whole_cores_too() -> None:
    """full-pcpus-only wants as many free cores as the container has already; one that changes nothing is not asked."""
    node = running(pod("db", both("8")), cpuManagerPolicyOptions={"full-pcpus-only": "true"})

    answer = resize(node, pod("db", both("8", "2Gi")))

    detail = "available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2"
    text = f"SMT Alignment Error: not enough free physical CPUs: {detail}"
    assert answer[:2] == (ResizeStatus.DEFERRED, text)
    assert resize(node, pod("db", both("8", "1024Mi"))).status is ResizeStatus.DONE


@pytest.mark.parametrize(
    ("policy", "scope", "status"),
    [
        ("restricted", "container", ResizeStatus.DONE),
        ("restricted", "pod", ResizeStatus.DEFERRED),
        ("single-numa-node", "pod", ResizeStatus.DEFERRED),
        ("best-effort", "pod", ResizeStatus.DONE),
    ],
)
def test_in_pod_scope_every_containers_cpus_must_be_as_many_as_it_asks_for(
    policy: str, scope: str, status: ResizeStatus
) -> None:
    """A container that asks for no whole CPUs any more has no wish of its own, but its pod has."""
    node = running(pod("db", both("2"), both("1")), **GATE, topologyManagerPolicy=policy, topologyManagerScope=scope)
    before = node.cpu_state

    answer = resize(node, pod("db", both("1500m"), both("1")))

    assert (answer.status, answer.message) == (status, AFFINITY if status is ResizeStatus.DEFERRED else "")
    assert node.cpu_state.entries == before.entries
    assert node.cpu_state.default == before.default


def test_memory_blocks_stay_where_the_gate_lets_memory_be_resized() -> None:
    """The managers know of no resize: the request is taken, the blocks are those of the creation."""
    gate = {"featureGates": {"InPlacePodVerticalScalingExclusiveMemory": True}}
    node = running(pod("db", both("2")), **STATIC_BOTH, **gate, topologyManagerPolicy="restricted")
    blocks = node.memory.state.blocks("db", "c0")

    assert resize(node, pod("db", both("2", "2Gi"))).status is ResizeStatus.DONE
    assert node.memory.state.blocks("db", "c0") == blocks
    assert node.active["db"].containers[0].request("memory").value == 2 * GIB


# What an attempt leaves behind


@pytest.mark.parametrize("quirks", [False, True])
def test_a_container_that_comes_to_ask_for_whole_cpus_gets_them(quirks: bool) -> None:
    """A half CPU more makes them exclusive; with quirks even while there is no room for the resize."""
    node = running(pod("db", both("1500m")), quirks=quirks, **GATE)
    done = resize(node, pod("db", both("2")))
    full = running(pod("db", both("1500m")), pod("other", some("13")), quirks=quirks, **GATE)
    waits = resize(full, pod("db", both("2")))

    assert (done.status, {name: str(cpus) for name, cpus in done.cpus.items()}) == (ResizeStatus.DONE, {"c0": "1,9"})
    assert node.cpu_state.default == ALL - CpuSet.parse("1,9")
    assert waits.status is ResizeStatus.DEFERRED
    assert (full.cpu_state.assigned("db", "c0") is not None) is quirks
    assert full.active["db"].containers[0].request("cpu").milli == 1500


@pytest.mark.parametrize(("quirks", "db", "pool"), [(False, "1,9", "0,2-8,10-15"), (True, "2,10", "0,3-8,11-15")])
def test_a_pod_with_a_budget_keeps_what_it_has(quirks: bool, db: str, pool: str) -> None:
    """Pod scope: v1.36.2 allocates such a pod once more, and what it had before has no owner ever again."""
    shape = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod"}
    node = running(
        pod("db", both("2", "2Gi"), resources=both("2", "2Gi")),
        quirks=quirks, **shape, **STATIC_BOTH, featureGates=MANAGED,
    )  # fmt: skip
    before = node.memory.copy().state

    answer = resize(node, pod("db", both("2", "2Gi"), resources=both("2", "3Gi")))

    assert answer.status is ResizeStatus.DONE
    assert (str(node.cpu_state.pods["db"]), str(node.cpu_state.default)) == (db, pool)
    assert (node.memory.state == before) is not quirks
