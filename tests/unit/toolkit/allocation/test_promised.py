"""What is promised about places: by request, options and machine; the CPUs that were chosen have no say in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import both, config, machine, pod
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan_of
from toolkit.allocation.promised import Promised, promised
from toolkit.kubernetes.pod import Pod
from toolkit.model.claims import Alignment, Preference
from toolkit.model.cpuset import CpuSet

NODES = machine(nodes=4, cores=2)
"""Four NUMA nodes of two cores of two threads."""
GATES = {"CPUManagerPolicyAlphaOptions": True, "PodLevelResources": True, "PodLevelResourceManagers": True}


def asked(one: Pod, on: Machine = NODES, **fields: Any) -> tuple[Promised, ...]:
    """Return what each container is promised."""
    node = Node(config(featureGates=GATES, **fields), on)
    assert node.admit(one).admitted
    return tuple(promised(node, one, container) for container in one.containers)


@pytest.mark.parametrize(
    ("cpu", "policy", "alignments", "most"),
    [
        ("2", "none", (), None),
        ("2", "best-effort", (), None),
        ("2", "restricted", (), 1),
        ("6", "restricted", (), 2),
        ("12", "restricted", (), 3),
        ("2", "single-numa-node", (Alignment.NUMA,), None),
        ("500m", "single-numa-node", (), None),
    ],
)
def test_topology_policies(cpu: str, policy: str, alignments: tuple[Alignment, ...], most: int | None) -> None:
    """single-numa-node promises one node, restricted as few as the request needs on this machine."""
    assert asked(pod("db", both(cpu)), topologyManagerPolicy=policy) == (
        Promised(alignments=alignments, max_numa_nodes=most),
    )


def test_pod_scope_promises_for_the_pod_together() -> None:
    """Three CPUs and three CPUs fit on one node each; the pod needs two, and gets no more than two."""
    (one, other) = asked(
        pod("db", both("3"), both("3")), topologyManagerPolicy="restricted", topologyManagerScope="pod"
    )

    assert one == other == Promised(alignments=(Alignment.NUMA_POD,), max_numa_nodes=2)


@pytest.mark.parametrize(
    ("option", "alignments", "preferences"),
    [
        ("full-pcpus-only", (Alignment.SMT,), ()),
        ("distribute-cpus-across-numa", (Alignment.NUMA_EVEN,), ()),
        ("distribute-cpus-across-cores", (), (Preference.CORES,)),
        ("align-by-socket", (), (Preference.SOCKET,)),
        ("prefer-align-cpus-by-uncorecache", (), (Preference.LLC,)),
        ("strict-cpu-reservation", (), ()),
    ],
)
def test_options(option: str, alignments: tuple[Alignment, ...], preferences: tuple[Preference, ...]) -> None:
    """Each option has its guarantee or preference, whether or not the CPUs that are chosen keep it; off, none."""
    on = asked(pod("db", both("2")), cpuManagerPolicyOptions={option: "true"})
    off = asked(pod("db", both("2")), cpuManagerPolicyOptions={option: "false"})

    assert on == (Promised(alignments=alignments, preferences=preferences),)
    assert off == (Promised(),)


def test_closest_nodes_are_preferred() -> None:
    """The Topology Manager's own option, under any policy but none."""
    fields = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
    rows = [[10 if one == other else 20 for other in range(4)] for one in range(4)]
    cpus = [[cpu, cpu, 0, cpu // 2, cpu // 2] for cpu in range(12)]
    on = Machine.from_vector(
        {"cpus": cpus[:8], "numa": [{"id": i, "memory": 1 << 34, "distances": rows[i]} for i in range(4)]}
    )

    found = asked(pod("db", both("2")), on, topologyManagerPolicy="best-effort", reservedSystemCPUs="0", **fields)

    assert found == (Promised(preferences=(Preference.CLOSEST,)),)


def test_a_pod_with_a_budget_shares_its_cores() -> None:
    """In pod scope the pod has whole cores and one node; its containers may share both."""
    one = pod("db", both("1"), {}, resources=both("4"))
    fields = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}

    found = asked(one, cpuManagerPolicyOptions={"full-pcpus-only": "true"}, **fields)

    assert found == (Promised(alignments=(Alignment.SMT_POD, Alignment.NUMA, Alignment.NUMA_POD)),) * 2


def test_a_bad_choice_does_not_lose_the_promise() -> None:
    """Half a core and two nodes under full-pcpus-only and single-numa-node: both guarantees stay, for rules to fail."""
    node = Node(
        config(topologyManagerPolicy="single-numa-node", cpuManagerPolicyOptions={"full-pcpus-only": "true"}), NODES
    )
    one = pod("db", both("2"))
    admission = node.admit(one)
    node.cpu_state = node.cpu_state.with_entry(one.uid, "c0", CpuSet.parse("1,2"))

    (container,) = plan_of(node, [(one, admission, node.cpu_state.default)]).pods[0].containers

    assert str(container.cpus) == "1-2"
    assert container.alignments == (Alignment.SMT, Alignment.NUMA)
