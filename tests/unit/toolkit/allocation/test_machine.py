"""The kubelet's view of a machine: ids, groups, quotients, and hostile input."""

from __future__ import annotations

import pytest

from tests.recordings import DECISIONS, decisions
from toolkit.allocation.machine import Machine
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import KubeletCpu, KubeletNode, KubeletView

SMT = {
    "cpus": [[0, 70, 0, 0, None], [1, 71, 0, 0, None], [4, 70, 0, 0, None], [5, 71, 0, 0, None], [9, 80, 1, 3, 12]],
    "numa": [{"id": 3, "memory": 1024, "hugepages": {"2Mi": 4}, "distances": [10, 20]}, {"id": 0, "memory": 2048}],
}


def test_core_ids_are_the_lowest_online_cpu() -> None:
    """Labels of cores are opaque; the identity of a core is its lowest online CPU."""
    machine = Machine.from_vector(SMT)
    assert {core: str(CpuSet(mask)) for core, mask in machine.core_masks.items()} == {0: "0,4", 1: "1,5", 9: "9"}
    assert machine.details[5].core == 1


def test_missing_cache_falls_back_to_the_socket() -> None:
    """A core without an uncore cache belongs to the cache with its socket's id."""
    machine = Machine.from_vector(SMT)
    assert {uncore: str(CpuSet(mask)) for uncore, mask in machine.uncore_masks.items()} == {0: "0-1,4-5", 12: "9"}


def test_sizes_are_quotients_of_totals() -> None:
    """Threads per core and CPUs per socket are integer quotients, also where cores differ, and that is noticed."""
    machine = Machine.from_vector(SMT)
    assert (machine.cpus_per_core, machine.cpus_per_socket, machine.cpus_per_uncore) == (1, 2, 2)
    assert machine.irregular
    assert not Machine.from_vector({"cpus": SMT["cpus"][:4], "numa": []}).irregular


def test_nodes_are_sorted_and_keep_their_memory() -> None:
    """Nodes ascend by id; hugepages are counted by page size in bytes."""
    machine = Machine.from_vector(SMT)
    assert [node.id for node in machine.nodes] == [0, 3]
    assert machine.nodes[1].hugepages == {2 << 20: 4}
    assert machine.nodes[1].distances == (10, 20)
    assert machine.nodes[0].distances is None


def test_groups_of_cpus() -> None:
    """CPUs of nodes, sockets of nodes and whole cores are found; ids that do not exist add nothing."""
    machine = Machine.from_vector(SMT)
    assert str(machine.cpus_in_numa([3, 99])) == "9"
    assert machine.sockets_of_numa([0, 3]) == {0, 1}
    assert str(machine.whole_cores(CpuSet.of([5, 9]))) == "1,5,9"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "no list of CPUs"),
        ({"cpus": [[0, 0, 0]]}, "cpus\\[0\\]"),
        ({"cpus": [[0, 0, 0, 0, None], [0, 1, 0, 0, None]]}, "a CPU twice"),
        ({"cpus": [[70000, 0, 0, 0, None]]}, "an id from 0 to 65535"),
        ({"cpus": [[True, 0, 0, 0, None]]}, "an id"),
        ({"cpus": [], "numa": {}}, "a list"),
        ({"cpus": [], "numa": [{"id": 0}, {"id": 0}]}, "a node twice"),
        ({"cpus": [], "numa": [{"id": 0, "memory": -1}]}, "not negative"),
        ({"cpus": [], "numa": [{"id": 0, "hugepages": {"2Zi": 1}}]}, "a page size"),
        ({"cpus": [], "numa": [{"id": 0, "distances": "10"}]}, "a list of numbers"),
    ],
)
def test_hostile_machines_are_refused(data: object, message: str) -> None:
    """Wrong types, doubles and absurd ids end with one clear line."""
    with pytest.raises(InputError, match=message):
        Machine.from_vector(data)


def test_kubelet_view_is_taken_over() -> None:
    """Discovery's cores, sockets, nodes and caches become the machine; no cache means the socket's id."""
    view = KubeletView(
        cpus={
            2: KubeletCpu(core_id=0, core_key=2, socket=1, numa=0, uncore_cache_id=None),
            3: KubeletCpu(core_id=0, core_key=2, socket=1, numa=0, uncore_cache_id=None),
            7: KubeletCpu(core_id=1, core_key=7, socket=1, numa=0, uncore_cache_id=5),
        },
        logical_cpus=3,
        nodes=(
            KubeletNode(
                id=0, memory=4096, cpus=CpuSet.parse("2-3,7"), hugepages_kb={"2048": 8}, distances=(10,), node_l3=()
            ),
        ),
    )
    machine = Machine.from_topology(view)
    assert {core: str(CpuSet(mask)) for core, mask in machine.core_masks.items()} == {2: "2-3", 7: "7"}
    assert set(machine.uncore_masks) == {1, 5}
    assert machine.nodes[0].hugepages == {2 << 20: 8}


def test_failed_discovery_is_told() -> None:
    """Where the kubelet's discovery gives up there is no machine to plan for."""
    with pytest.raises(InputError, match="no socket id"):
        Machine.from_topology(KubeletView(error="no socket id"))


def test_all_recorded_machines_are_read() -> None:
    """Every machine of the vectors has as many CPUs as rows."""
    seen = 0
    for area in DECISIONS:
        for name, data in decisions(area)["machines"].items():
            machine = Machine.from_vector(data, name)
            assert len(machine.cpus) == machine.num_cpus == len(data["cpus"])
            seen += 1
    assert seen > 20
