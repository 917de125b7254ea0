"""Statements of "Control Memory Management Policies on a Node" that no other test would miss."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.allocation import node_builder as nodes
from tests.unit.toolkit.allocation.memory.memory_node import GIB, machine, place, pod, started
from toolkit.allocation.admission import AdmissionError
from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.manager import MemoryManager
from toolkit.allocation.memory.state import Block, MemoryState
from toolkit.allocation.planner import plan
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_vector_pod


def start(rows: list[tuple[int, str, str]], **more: Any) -> None:
    """Start a node of two NUMA nodes on which 1 GiB is reserved for the kubelet, and so much of each node's memory."""
    settings = {
        "cpuManagerPolicy": "static",
        "kubeReserved": {"cpu": "1", "memory": "1Gi"},
        "evictionHard": {"memory.available": "0%"},
        "memoryManagerPolicy": "Static",
        "reservedMemory": [{"numaNode": node, "limits": {kind: amount}} for node, kind, amount in rows],
        **more,
    }
    plan([], read_settings(settings, "kubelet"), nodes.machine())


def test_what_fits_on_one_node_is_of_one_node() -> None:
    """MEM-1: of the hints, the one that is preferred is what memory is taken by."""
    assert place(started(), pod("a", "3Gi")) == [(0,)]


@pytest.mark.parametrize("resources", [{"requests": {"memory": "1Gi"}}, {}], ids=["burstable", "best-effort"])
def test_pods_that_are_not_guaranteed_have_no_hint_and_no_block(resources: dict[str, Any]) -> None:
    """MEM-2: in either scope."""
    manager = started()
    subject = read_vector_pod({"uid": "b", "containers": [{"name": "c", "resources": resources}]}, "p")

    assert manager.pod_hints(subject) is None
    assert manager.container_hints(subject, subject.containers[0]) is None
    place(manager, subject)
    assert manager.state.entries == {}


@pytest.mark.parametrize("each", ["773Mi", "774Mi", "775Mi"])
def test_reserved_memory_is_the_sum_of_three_reservations(each: str) -> None:
    """MEM-4: 1 GiB, 500 MiB and 24 MiB are twice 774 MiB: neither more nor less."""
    more = {"systemReserved": {"memory": "500Mi"}, "evictionHard": {"memory.available": "24Mi"}}
    rows = [(node, "memory", each) for node in (0, 1)]
    if each == "774Mi":
        start(rows, **more)
        return
    with pytest.raises(InputError, match="determined by Node Allocatable feature"):
        start(rows, **more)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, "memory", "512Mi"), (0, "memory", "512Mi")], "duplicate value for NUMA node 0"),
        ([(0, "memory", "1Gi"), (1, "memory", "0")], "may not be zero for NUMA node 1"),
        ([(0, "memory", "512Mi"), (2, "memory", "512Mi")], "NUMA node 2 that does not exist"),
        ([(0, "memory", "1Gi"), (1, "cpu", "1")], 'type "cpu" for NUMA node 1 is not supported'),
        ([(0, "memory", "1Gi"), (1, "hugepages-1Gi", "1Gi")], 'of type "hugepages-1Gi" is not equal'),
    ],
    ids=["duplicate", "zero", "missing-node", "type", "hugepages"],
)
def test_configurations_to_avoid(rows: list[tuple[int, str, str]], message: str) -> None:
    """MEM-5: each is refused by what is wrong with it."""
    with pytest.raises(InputError, match=message):
        start(rows)


def test_each_size_of_huge_pages_is_accounted_apart() -> None:
    """MEM-9: 1 GiB pages for it are on node 1 only; what is left of each size is exact, and too much is refused."""
    pages = ({"2Mi": 512, "1Gi": 1}, {"2Mi": 512, "1Gi": 3})
    rows = [{"id": node, "memory": 8 * GIB, "hugepages": own} for node, own in enumerate(pages)]
    manager = started(Machine.from_vector({"cpus": [[i, i, 0, i, None] for i in range(2)], "numa": rows}))

    def wants(uid: str, **more: str) -> Pod:
        both = {"requests": (amounts := {"cpu": "1", "memory": "1Gi", **more}), "limits": amounts}
        return read_vector_pod({"uid": uid, "containers": [{"name": "c0", "resources": both}]}, "pod")

    assert place(manager, wants("a", **{"hugepages-1Gi": "2Gi"})) == [(1,)]
    assert manager.state.nodes[1].free() == {"hugepages-1Gi": GIB, "hugepages-2Mi": GIB, "memory": 3 * GIB}
    assert set(manager.state.blocks("a", "c0")) == {
        Block((1,), "memory", GIB),
        Block((1,), "hugepages-1Gi", 2 * GIB),
    }
    assert place(manager, wants("b", **{"hugepages-2Mi": "1Gi"})) == [(0,)]
    with pytest.raises(AdmissionError):
        place(manager, wants("c", **{"hugepages-1Gi": "3Gi"}))


def test_policy_none_has_no_opinion() -> None:
    """MEM-6: no hint in either scope, and nothing is written down."""
    manager = MemoryManager("None", machine(), {})
    manager.start(MemoryState())
    subject = pod("a", "3Gi")

    assert manager.pod_hints(subject) is None
    assert manager.container_hints(subject, subject.containers[0]) is None
    assert place(manager, subject) == [()]
    assert manager.state == MemoryState()
