"""Statements about pods with pod-level resources, pod scope (KEP-5526): rows of the table in the allocation README."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.allocation.node_builder import GIB, POD_SCOPE, SHARED, both, budget, config, machine, pod
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import start_node
from toolkit.allocation.planner import plan
from toolkit.model.cpuset import CpuSet


def sockets() -> Machine:
    """Return two sockets of two NUMA nodes of two CPUs each."""
    return Machine.from_vector(
        {
            "cpus": [[cpu, cpu, cpu // 4, cpu // 2, cpu // 2] for cpu in range(8)],
            "numa": [{"id": i, "memory": 16 * GIB} for i in range(4)],
        }
    )


def caches() -> Machine:
    """Return one NUMA node of eight CPUs with two caches, whose CPUs alternate."""
    return Machine.from_vector(
        {
            "cpus": [[cpu, cpu, 0, 0, cpu % 2] for cpu in range(8)],
            "numa": [{"id": 0, "memory": 16 * GIB}],
        }
    )


def test_what_no_container_asks_for_stays_reserved() -> None:
    """Of a budget of four CPUs three are asked for: the fourth is the pod's, and no task runs there."""
    made = plan([budget("4", both("2"), both("1")), pod("web", SHARED)], config(**POD_SCOPE), machine())
    db = made.pods[0]

    assert db.cpus is not None
    parts = CpuSet.union(one.cpus for one in db.containers)
    assert (len(db.cpus), len(parts), parts < db.cpus) == (4, 3, True)
    assert made.default_cpus.isdisjoint(db.cpus)


def test_a_pods_cpus_are_persistent() -> None:
    """Neither the node nor the pod's pool gets CPUs when a container ends; with the pod all of them come back."""
    node = start_node(config(**POD_SCOPE), machine())
    whole, wanted = node.cpu_state.default, budget("4", both("2"), SHARED, SHARED)
    assert node.admit(wanted).admitted
    own, pool = node.cpu_state.pods["db"], node.cpu_state.cpus_of("db", "c1")

    for name in ("c0", "c2"):
        node.cpu_state = node.cpu_policy.release(node.cpu_state, "db", name)

    assert node.cpu_state.pods["db"] == own
    assert node.cpu_state.cpus_of("db", "c1") == pool
    assert node.cpu_state.default == whole - own
    node.remove("db")
    assert node.cpu_state.default == whole


@pytest.mark.parametrize(("memory", "reason"), [("4Gi", "EmptyPodSharedPoolError"), ("3Gi", "")])
def test_memory_that_leaves_nothing_to_share_is_refused(memory: str, reason: str) -> None:
    """CPUs are left for the other container, memory is not: refused with the Memory Manager, which says so."""
    settings = config(
        **POD_SCOPE,
        memoryManagerPolicy="Static",
        systemReserved={"memory": "100Mi"},
        evictionHard={"memory.available": "0%"},
        reservedMemory=[{"numaNode": 0, "limits": {"memory": "100Mi"}}],
    )

    made = plan([budget("4", both("2", memory), SHARED)], settings, machine()).pods[0]

    assert (made.reason, "memory" in made.message) == (reason, bool(reason))


@pytest.mark.parametrize(("options", "count"), [({"align-by-socket": "true"}, 1), ({}, 2)])
def test_a_pod_keeps_to_a_socket(options: dict[str, str], count: int) -> None:
    """Four CPUs need two NUMA nodes: with align-by-socket these are of one socket, without it the first that do."""
    fields = {**POD_SCOPE, "topologyManagerPolicy": "restricted", "reservedSystemCPUs": "0"}
    made = plan([budget("4", both("1"), SHARED)], config(**fields, cpuManagerPolicyOptions=options), sockets()).pods[0]

    assert made.cpus is not None
    assert len({cpu // 4 for cpu in made.cpus}) == count


@pytest.mark.parametrize("strict", [True, False])
def test_a_pod_keeps_off_reserved_cpus(strict: bool) -> None:
    """The pod's CPUs are never reserved ones; with the option neither are the shared pool's, beside it."""
    options = {"strict-cpu-reservation": "true"} if strict else {}
    settings = config(**POD_SCOPE, cpuManagerPolicyOptions=options)
    made = plan([budget("4", both("2"), SHARED), pod("web", SHARED)], settings, machine())

    assert made.pods[0].cpus is not None
    assert made.pods[0].cpus.isdisjoint(made.reserved_cpus)
    assert made.pods[1].containers[0].cpus.isdisjoint(made.reserved_cpus) is strict


@pytest.mark.parametrize(("option", "count"), [("true", 1), ("false", 2)])
def test_a_pod_keeps_to_a_cache(option: str, count: int) -> None:
    """The budget of three CPUs lies in one cache; without the option CPUs are taken as they come, of both."""
    options = {"prefer-align-cpus-by-uncorecache": option}
    settings = config(**POD_SCOPE | {"reservedSystemCPUs": "0", "cpuManagerPolicyOptions": options})
    made = plan([budget("3", both("1"), SHARED)], settings, caches()).pods[0]

    assert made.cpus is not None
    assert len({cpu % 2 for cpu in made.cpus}) == count
