"""The kubelet's view where it departs from the hardware: each rule of cAdvisor's discovery alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.host.sysroots import CPU, NODE, cache, cpu, node, write
from toolkit.host.kubelet_view import read_kubelet_view
from toolkit.host.sysfs import SysTree
from toolkit.model.topology import KubeletView


def view(root: Path, s390x: bool = False) -> KubeletView:
    """Discover the tree."""
    return read_kubelet_view(SysTree(root), s390x)


def test_without_nodes_packages_are_nodes(tmp_path: Path) -> None:
    """No node folders: each package becomes a node without memory, and offline CPUs are counted though not placed."""
    write(tmp_path, {**cpu(0), **cpu(1, core=1), **cpu(2, package=4), f"{CPU}/online": "0,2"})
    found = view(tmp_path)
    assert found.logical_cpus == 3
    assert [(n.id, str(n.cpus), n.memory, n.distances) for n in found.nodes] == [(0, "0", 0, None), (4, "2", 0, None)]


def test_without_package_ids_there_are_no_nodes(tmp_path: Path) -> None:
    """Neither node folders nor package ids: CPUs are counted, nothing else is known, and that is no error."""
    for number in range(2):
        (tmp_path / CPU / f"cpu{number}").mkdir(parents=True)
    found = view(tmp_path)
    assert (found.error, found.logical_cpus, found.nodes, found.cpus) == (None, 2, (), {})


def test_cpus_without_a_core_id_are_left_out(tmp_path: Path) -> None:
    """A CPU whose core_id or package id is missing does not exist for the kubelet."""
    write(tmp_path, {**cpu(0), f"{CPU}/cpu1/topology/physical_package_id": 0, f"{CPU}/cpu2/topology/core_id": 0})
    node(tmp_path, 0, (0, 1, 2))
    found = view(tmp_path)
    assert sorted(found.cpus) == [0]
    assert found.logical_cpus == 1


def test_core_ids_are_compared_within_a_node(tmp_path: Path) -> None:
    """Equal core ids of one package are one core within a node, and two cores in two nodes."""
    write(tmp_path, {**cpu(0), **cpu(1), **cpu(2)})
    node(tmp_path, 0, (0, 1))
    node(tmp_path, 1, (2,))
    assert {number: found.core_key for number, found in view(tmp_path).cpus.items()} == {0: 0, 1: 0, 2: 2}


def test_books_and_drawers_count_on_s390_only(tmp_path: Path) -> None:
    """On s390 the book is part of a core's name, and a CPU without a drawer id is left out."""
    write(tmp_path, {**cpu(0, book_id=0, drawer_id=0), **cpu(1, book_id=1, drawer_id=0), **cpu(2, book_id=1)})
    node(tmp_path, 0, (0, 1, 2))
    assert {n: c.core_key for n, c in view(tmp_path, s390x=True).cpus.items()} == {0: 0, 1: 1}
    assert {n: c.core_key for n, c in view(tmp_path).cpus.items()} == {0: 0, 1: 0, 2: 0}


def four_cores(root: Path, shared: tuple[str, ...], ident: int | None = 5) -> Path:
    """One node of four cores, with an L3 shared as told per CPU."""
    for number, mask in enumerate(shared):
        write(root, cpu(number, core=number) | cache(number, 0, level=1, shared=f"{1 << number:x}"))
        write(root, cache(number, 3, level=3, shared=mask, ident=ident))
    node(root, 0, tuple(range(len(shared))))
    return root


def test_a_cache_of_the_whole_node_is_not_uncore(tmp_path: Path) -> None:
    """An L3 shared by exactly the node's threads belongs to the node; a smaller or larger one to the cores."""
    found = view(four_cores(tmp_path / "whole", ("f",) * 4))
    assert found.nodes[0].node_l3 == (5,)
    assert {c.uncore_cache_id for c in found.cpus.values()} == {None}

    for name, shared in (("half", ("3", "3", "c", "c")), ("more", ("ff",) * 4)):
        found = view(four_cores(tmp_path / name, shared))
        assert found.nodes[0].node_l3 == ()
        assert {c.uncore_cache_id for c in found.cpus.values()} == {5}


def test_without_cache_ids_there_is_no_uncore_cache(tmp_path: Path) -> None:
    """A cache folder without an id ends the search for the node; on s390 the id is always 0 and is not read."""
    root = four_cores(tmp_path, ("3", "3", "c", "c"), ident=None)
    assert {c.uncore_cache_id for c in view(root).cpus.values()} == {None}
    assert view(root, s390x=True).cpus == {}, "on s390 a CPU without a book id is left out"
    for number in range(4):
        write(root, {f"{CPU}/cpu{number}/topology/{name}": 0 for name in ("book_id", "drawer_id")})
    assert {c.uncore_cache_id for c in view(root, s390x=True).cpus.values()} == {0}


def test_the_first_unreadable_cache_stops_the_node(tmp_path: Path) -> None:
    """Cores before a broken cache keep their uncore cache, later ones get none: in the byte order of folder names."""
    root = four_cores(tmp_path, ("3", "3", "c", "c"))
    (root / CPU / "cpu2/cache/index3/size").unlink()
    found = view(root)
    assert [found.cpus[number].uncore_cache_id for number in range(4)] == [5, 5, None, None]


def test_folders_come_in_byte_order(tmp_path: Path) -> None:
    """cpu10 is met before cpu2, so the cores after the broken cache of CPU 10 include CPU 2."""
    for number in (0, 2, 10):
        write(tmp_path, cpu(number, core=number) | cache(number, 3, level=3, shared="1"))
    (tmp_path / CPU / "cpu10/cache/index3/id").unlink()
    node(tmp_path, 0, (0, 2, 10))
    assert {n: c.uncore_cache_id for n, c in view(tmp_path).cpus.items()} == {0: 0, 2: None, 10: None}


def test_a_node_without_cpus_is_kept(tmp_path: Path) -> None:
    """A memory-only node is a node of MachineInfo with its memory and hugepages."""
    write(tmp_path, cpu(0))
    node(tmp_path, 0, (0,), 100, "10 20")
    node(tmp_path, 1, (), 200, "20 10")
    write(tmp_path, {f"{NODE}/node1/hugepages/hugepages-1048576kB/nr_hugepages": 3})
    found = view(tmp_path)
    assert [(n.id, str(n.cpus), n.memory, n.hugepages_kb, n.distances) for n in found.nodes] == [
        (0, "0", 102400, {}, (10, 20)),
        (1, "", 204800, {"1048576": 3}, (20, 10)),
    ]


@pytest.mark.parametrize("online", ["", "x", "0-1-2", "1-0", "0-99999"])
def test_an_unreadable_online_list_hides_every_cpu(tmp_path: Path, online: str) -> None:
    """cAdvisor takes a CPU for offline when it cannot read the list."""
    write(tmp_path, {**cpu(0), f"{CPU}/online": online})
    node(tmp_path, 0, (0,))
    assert view(tmp_path).logical_cpus == 0


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        (f"{CPU}/cpu0/topology/core_id", "x", 'strconv.Atoi: parsing "x": invalid syntax'),
        (f"{NODE}/node0/meminfo", "nothing", "failed to match regexp"),
        (f"{NODE}/node0/distance", "10  20", "cannot convert  to int"),
        (f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages", "x", "could not parse file nr_hugepage"),
        (f"{NODE}/node0/hugepages/other", "x", "strconv.ParseUint"),
    ],
)
def test_what_makes_cadvisor_give_up(tmp_path: Path, file: str, content: str, error: str) -> None:
    """Malformed numbers end the whole discovery: no CPU, no node, and the reason."""
    write(tmp_path, cpu(0))
    node(tmp_path, 0, (0,))
    assert view(tmp_path).error is None
    write(tmp_path, {file: content})
    found = view(tmp_path)
    assert error in (found.error or "")
    assert (found.cpus, found.nodes, found.logical_cpus) == ({}, (), 0)


def test_no_cpu_at_all(tmp_path: Path) -> None:
    """A tree without CPUs is cAdvisor's own error."""
    assert view(tmp_path).error == "no CPU is available, cpusPath: /sys/devices/system/cpu"
