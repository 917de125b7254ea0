"""The Memory Manager: groups of nodes, reuse by init containers, pod-level partition, start-up checks."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.allocation.memory.memory_node import GIB, machine, place, pod, started
from toolkit.allocation.admission import AdmissionError, KubeletPanic, StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.start import check_policy, empty_machine, validate
from toolkit.allocation.memory.state import Block, MemoryState
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import MemoryReservation
from toolkit.kubernetes.pod_reader import read_vector_pod
from toolkit.kubernetes.quantity import Quantity


def test_fills_one_node_then_the_next() -> None:
    """A request goes to the lowest node that has enough; node 0 has 7 of 8 GiB."""
    manager = started()

    assert place(manager, pod("a", "4Gi")) == [(0,)]
    assert place(manager, pod("b", "4Gi")) == [(1,)]
    assert place(manager, pod("d", "3Gi")) == [(0,)]
    assert manager.state.nodes[0].free() == {"memory": 0}


def test_a_group_of_nodes_is_closed_for_single_requests() -> None:
    """Memory over two nodes makes them a group until it is free again, and single use forbids groups."""
    manager = started(machine(3))

    assert place(manager, pod("a", "10Gi")) == [(0, 1)]
    assert manager.state.nodes[0].cells == (0, 1)
    assert place(manager, pod("b", "1Gi")) == [(2,)]
    with pytest.raises(AdmissionError, match="no NUMA nodes with enough memory is available"):
        place(manager, pod("c", "9Gi"))
    manager.remove_stale({})
    assert [node.cells for node in manager.state.nodes.values()] == [(0,), (1,), (2,)]
    assert place(manager, pod("d", "1Gi")) == [(0,)]


def test_init_containers_memory_is_reused_and_leaves_at_the_next_start() -> None:
    """The app reuses what the init container had; the init container's block shrinks and then disappears."""
    manager = started()
    subject = pod("a", "4Gi", init=("6Gi",))
    place(manager, subject)

    assert manager.state.nodes[0].memory["memory"].reserved == 6 * GIB
    assert manager.state.blocks("a", "i0") == (Block((0,), "memory", 2 * GIB),)
    manager.add_container(subject, subject.containers[0])
    assert manager.state.blocks("a", "i0") is not None
    manager.add_container(subject, subject.containers[1])
    assert manager.state.blocks("a", "i0") is None
    assert manager.state.nodes[0].memory["memory"].reserved == 4 * GIB


def test_only_guaranteed_pods_count() -> None:
    """Burstable and BestEffort pods get no blocks and no hints."""
    manager = started()
    subject = read_vector_pod(
        {"uid": "b", "containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]}, "p"
    )

    assert manager.container_hints(subject, subject.containers[0]) is None
    assert place(manager, subject) == [()]


def test_hints_prefer_as_few_nodes_as_an_empty_machine_needs() -> None:
    """3 GiB fit on one node, so both single nodes are preferred and the pair is not."""
    subject = pod("a", "3Gi")
    hints = started().container_hints(subject, subject.containers[0])

    assert hints == {"memory": [TopologyHint(1, True), TopologyHint(2, True), TopologyHint(3, False)]}


def test_the_hint_is_extended_where_it_does_not_suffice() -> None:
    """The merged hint of all managers may name fewer nodes than the memory needs."""
    manager = started()
    subject = pod("a", "10Gi")
    manager.allocate(subject, subject.containers[0], TopologyHint(1, False))

    assert manager.numa_nodes("a", "c0") == (0, 1)


def test_a_missing_hugepage_size() -> None:
    """The real component crashes; the model refuses the pod, and crashes only on request."""
    resources = {"cpu": "1", "memory": "1Gi", "hugepages-1Gi": "1Gi"}
    subject = read_vector_pod(
        {"uid": "a", "containers": [{"name": "c", "resources": {"requests": resources, "limits": resources}}]}, "pod"
    )

    with pytest.raises(AdmissionError, match="no NUMA nodes with enough memory"):
        place(started(), subject)
    with pytest.raises(KubeletPanic, match="nil pointer"):
        place(started(quirks=True), subject)


BUDGET = {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}


def test_pod_scope_partitions_the_budget() -> None:
    """One Guaranteed container has its slice, the others share the rest, all on the pod's nodes."""
    manager = started(pod_level=True)
    subject = pod("a", "1Gi", resources=BUDGET)
    mixed = read_vector_pod(
        {
            "uid": "m",
            "resources": BUDGET,
            "containers": [
                {
                    "name": "own",
                    "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
                },
                {"name": "shared"},
            ],
        },
        "pod",
    )
    manager.allocate_pod(mixed)

    assert manager.state.pod_entries["m"] == (Block((0,), "memory", 4 * GIB),)
    assert manager.state.blocks("m", "own") == (Block((0,), "memory", GIB),)
    assert manager.state.blocks("m", "shared") == (Block((0,), "memory", 3 * GIB),)
    manager.remove_container("m", "own")
    assert manager.state.nodes[0].memory["memory"].reserved == 4 * GIB, "kept until the last container goes"
    manager.remove_container("m", "shared")
    assert manager.state.nodes[0].memory["memory"].reserved == 0
    assert started(pod_level=False).pod_hints(subject) is None, "without the gate a budget is not looked at"


def test_an_empty_shared_pool_is_refused() -> None:
    """Exclusive containers that use up the budget leave nothing for the others."""
    full = {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}
    subject = read_vector_pod(
        {"uid": "a", "resources": BUDGET, "containers": [{"name": "own", "resources": full}, {"name": "shared"}]}, "pod"
    )
    manager = started(pod_level=True)

    assert manager.pod_hints(subject) == {"memory": ()}
    with pytest.raises(AdmissionError) as raised:
        manager.allocate_pod(subject)
    assert raised.value.reason == "EmptyPodSharedPoolError"


def reserve(*entries: tuple[int, str]) -> tuple[MemoryReservation, ...]:
    """Build reservedMemory."""
    return tuple(MemoryReservation(numa_node=n, limits={"memory": Quantity.parse(q)}) for n, q in entries)


@pytest.mark.parametrize(
    ("policy", "entries", "reservation", "message"),
    [
        ("BestEffort", (), "0", 'policy "BestEffort" is not available for platform "linux"'),
        ("static", (), "0", 'unknown policy: "static"'),
        ("Static", (), "0", "[memorymanager] you should specify the system reserved memory"),
        (
            "Static",
            ((0, "1Gi"),),
            "1124Mi",
            (
                'the total amount "1Gi" of type "memory" is not equal to the value "1124Mi" '
                "determined by Node Allocatable feature"
            ),
        ),
        (
            "Static",
            ((7, "1Gi"),),
            "1Gi",
            "the reserved memory configuration references a NUMA node 7 that does not exist on this machine",
        ),
    ],
)
def test_start_messages(policy: str, entries: tuple[tuple[int, str], ...], reservation: str, message: str) -> None:
    """A configuration with which the kubelet does not start is refused in its words."""
    with pytest.raises(StartupError) as raised:
        check_policy(policy, machine(), {"memory": Quantity.parse(reservation)}, reserve(*entries))

    assert (raised.value.stage, raised.value.message) == ("memory-manager", message)


def test_a_restored_state_must_fit_the_machine() -> None:
    """More memory than before, or a node that is gone, stops the start."""
    state = MemoryState(nodes=empty_machine(machine(), {0: {"memory": GIB}}))

    validate(state, machine(), {0: {"memory": GIB}}, pod_level=False)
    for shape, reserved in ((machine(gib=9), GIB), (machine(1), GIB), (machine(), 2 * GIB)):
        with pytest.raises(StartupError, match="expected machine state is different from the real one"):
            validate(state, shape, {0: {"memory": reserved}}, pod_level=False)


def test_a_group_of_unlike_nodes_crashes_the_next_start_of_the_real_component_only() -> None:
    """Node 0 has huge pages and node 1 has none: comparing what the group has of them fails on a missing entry.

    Source: kubernetes v1.36.2, pkg/kubelet/cm/memorymanager/policy_static.go, ``areMachineStatesEqual``.
    """
    nodes = [{"id": 0, "memory": 8 * GIB, "hugepages": {"2Mi": 512}}, {"id": 1, "memory": 8 * GIB}]
    unlike = Machine.from_vector({"cpus": [[i, i, 0, i, None] for i in range(2)], "numa": nodes})
    manager = started(unlike)
    assert place(manager, pod("a", "10Gi")) == [(0, 1)]

    validate(manager.state, unlike, {0: {"memory": GIB}}, pod_level=False)
    with pytest.raises(KubeletPanic, match="nil pointer dereference"):
        validate(manager.state, unlike, {0: {"memory": GIB}}, pod_level=False, quirks=True)
    manager.remove_stale({})
    validate(manager.state, unlike, {0: {"memory": GIB}}, pod_level=False, quirks=True)


def test_hints_come_in_the_kubelets_order() -> None:
    """Few nodes first, then low ids: of that order is the pair at which the real merger crashes (topology/walk.py)."""
    hints = started(machine(3)).pod_hints(pod("a", "1Gi"))

    assert hints is not None
    assert [found.numa for found in hints["memory"] or ()] == [0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111]


def test_hugepages_are_kept_apart_from_memory() -> None:
    """Pages are no ordinary memory, and they are counted by size."""
    nodes = empty_machine(machine(1, hugepages=512), {})

    assert nodes[0].free() == {"hugepages-2Mi": GIB, "memory": 7 * GIB}


def test_hints_of_absurdly_many_nodes_are_refused() -> None:
    """The number of combinations doubles with each node: a hostile machine must not eat all memory."""
    subject = pod("a", "1Gi")
    with pytest.raises(InputError, match="40 NUMA nodes"):
        started(machine(40)).container_hints(subject, subject.containers[0])
