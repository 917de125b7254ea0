"""The topology reader on small trees: what is missing, sparse, repeated or contradictory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.host.sysroots import CPU, NODE, cache, cpu, node, write
from toolkit.errors import InputError
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet


def test_no_cpu_folder_is_the_only_error(tmp_path: Path) -> None:
    """A folder without any CPU is refused with one line; one bare CPU folder is enough to be read."""
    with pytest.raises(InputError, match="no sys/devices/system/cpu/cpuN folder"):
        read_topology(tmp_path)
    with pytest.raises(InputError):
        read_topology(tmp_path / "nowhere")

    (tmp_path / CPU / "cpu0").mkdir(parents=True)
    topology = read_topology(tmp_path)
    assert topology.online == CpuSet.of([0])
    assert topology.cpus[0].core_key is None
    assert (topology.numa, topology.distances, topology.smt_level, topology.threads_per_core) == ((), None, None, {})


def test_online_comes_from_each_cpu_without_a_list(tmp_path: Path) -> None:
    """Without cpu/online a CPU is online unless its own file says 0; a CPU without the file cannot go offline."""
    write(tmp_path, {**cpu(0), **cpu(1, core=1), **cpu(2, core=2), f"{CPU}/cpu1/online": 0, f"{CPU}/cpu2/online": 1})
    assert read_topology(tmp_path).online == CpuSet.parse("0,2")


def test_offline_cpu_keeps_its_folder_but_no_facts(tmp_path: Path) -> None:
    """An offline CPU whose topology folder is still there has no core, socket or siblings, and counts in no group."""
    write(tmp_path, {**cpu(0, thread_siblings="1"), **cpu(1, thread_siblings="3"), f"{CPU}/online": "0"})
    topology = read_topology(tmp_path)
    assert topology.offline == CpuSet.of([1])
    assert (topology.cpus[1].core, topology.cpus[1].core_key, topology.cpus[1].siblings) == (None, None, None)
    assert topology.threads_per_core == {"1": 1}


def test_groups_come_from_masks_not_from_ids(tmp_path: Path) -> None:
    """Two s390 books number their sockets and cores alike: the masks and the book ids keep them apart."""
    for number, (book, mask) in enumerate([(0, "3"), (0, "3"), (1, "c"), (1, "c")]):
        siblings = {"thread_siblings": f"{1 << number:x}", "core_siblings": mask}
        write(tmp_path, cpu(number, core=number % 2, book_id=book, drawer_id=0, **siblings))
    topology = read_topology(tmp_path)
    assert topology.sockets == {0: CpuSet.parse("0-1"), 2: CpuSet.parse("2-3")}
    assert topology.cores == {n: CpuSet.of([n]) for n in range(4)}
    assert [(c.book, c.drawer) for c in topology.cpus] == [(0, 0), (0, 0), (1, 0), (1, 0)]
    assert topology.arch == "s390x"


def test_groups_come_from_ids_without_masks(tmp_path: Path) -> None:
    """Without sibling files equal ids make a group, but never across books, packages, dies or nodes."""
    write(tmp_path, {**cpu(0), **cpu(1), **cpu(2, package=1), **cpu(3, package=1, die_id=1), **cpu(4, book_id=1)})
    write(tmp_path, {**cpu(5, core=7), **cpu(6, core=7)})
    node(tmp_path, 0, (0, 1, 2, 3, 4, 5))
    node(tmp_path, 1, (6,))
    topology = read_topology(tmp_path)
    assert topology.cores == {
        0: CpuSet.parse("0-1"),
        **{n: CpuSet.of([n]) for n in (2, 3, 4, 5, 6)},
    }
    assert topology.sockets == {0: CpuSet.parse("0-1,5-6"), 2: CpuSet.parse("2-3"), 4: CpuSet.of([4])}


def test_new_names_of_the_sibling_files(tmp_path: Path) -> None:
    """core_cpus and package_cpus, and the lists, serve where the old names are gone."""
    for number in range(4):
        lists = {"core_cpus_list": "0-1" if number < 2 else "2-3", "package_cpus": "f"}
        write(tmp_path, cpu(number, core=number // 2, **lists))
    topology = read_topology(tmp_path)
    assert topology.cores == {0: CpuSet.parse("0-1"), 2: CpuSet.parse("2-3")}
    assert topology.threads_per_core == {"2": 2}
    assert topology.smt_level == 2


def test_a_mask_without_the_cpu_itself_is_not_believed(tmp_path: Path) -> None:
    """A sibling mask that leaves its own CPU out says nothing; the ids decide."""
    write(
        tmp_path, {**cpu(0, thread_siblings="0"), **cpu(1, thread_siblings="4"), **cpu(2, core=2, thread_siblings="4")}
    )
    assert read_topology(tmp_path).cores == {0: CpuSet.parse("0-1"), 2: CpuSet.of([2])}


def test_l3_without_ids_has_keys(tmp_path: Path) -> None:
    """Without cache ids the sharers still make the groups; level 2 and instruction caches are none."""
    for number in range(4):
        write(tmp_path, cpu(number, core=number))
        write(tmp_path, cache(number, 2, level=2, shared="f"))
        write(tmp_path, cache(number, 10, level=3, shared="3" if number < 2 else "c", ident=None))
    topology = read_topology(tmp_path)
    assert topology.l3_groups == {0: CpuSet.parse("0-1"), 2: CpuSet.parse("2-3")}
    assert {c.l3 for c in topology.cpus} == {None}


def test_memory_only_and_sparse_nodes(tmp_path: Path) -> None:
    """Node ids may have gaps and nodes may have no CPU; rows of distances keep the order of the ids."""
    write(tmp_path, {**cpu(0), **cpu(1, core=1)})
    node(tmp_path, 0, (0,), 100, "10 80 20")
    node(tmp_path, 33, (1,), 200, "20 80 10")
    node(tmp_path, 4, (), 300, "80 10 80")
    write(tmp_path, {f"{NODE}/node4/hugepages/hugepages-2048kB/nr_hugepages": 7})
    topology = read_topology(tmp_path)
    assert [(n.id, str(n.cpus), n.mem_bytes, n.memory_only) for n in topology.numa] == [
        (0, "0", 102400, False),
        (4, "", 307200, True),
        (33, "1", 204800, False),
    ]
    assert [n.hugepages_kb for n in topology.numa] == [None, {"2048": 7}, None]
    assert topology.distances is not None
    assert topology.distances.ids == (0, 4, 33)
    assert topology.distances.matrix == ((10, 80, 20), (80, 10, 80), (20, 80, 10))


def test_emulated_nodes_share_cpus(tmp_path: Path) -> None:
    """With numa=fake a CPU is in several nodes' maps: its own link says which node it belongs to."""
    write(tmp_path, cpu(0))
    node(tmp_path, 1, (0,))
    write(tmp_path, {f"{NODE}/node0/cpumap": "1"})
    topology = read_topology(tmp_path)
    assert [str(n.cpus) for n in topology.numa] == ["0", "0"]
    assert topology.cpus[0].numa == 1


def test_nonsense_is_told_and_ignored(tmp_path: Path) -> None:
    """A broken file does not end the reading; the result names it."""
    write(tmp_path, {**cpu(0, core_siblings="xyz"), f"{CPU}/cpu0/topology/core_id": "many"})
    node(tmp_path, 0, (0,), distance="near far")
    topology = read_topology(tmp_path)
    assert topology.cpus[0].core is None
    assert topology.distances is None
    assert len(topology.problems) == 3
    assert all("ignored" in problem for problem in topology.problems)


def test_online_cpus_without_a_folder_are_told(tmp_path: Path) -> None:
    """A list that names CPUs without a folder (a cut dump, or a lie) does not invent CPUs."""
    write(tmp_path, {**cpu(0), f"{CPU}/online": "0-65535"})
    topology = read_topology(tmp_path)
    assert [c.cpu for c in topology.cpus] == [0]
    assert "no folder for CPUs 1-65535" in topology.problems[0]


def test_links_between_cpus_and_nodes_do_not_trap_the_reader(tmp_path: Path) -> None:
    """Loops, links out of the tree and pipes in a hostile dump neither hang nor leak anything into the result."""
    write(tmp_path, cpu(0))
    node(tmp_path, 0, (0,))
    (tmp_path / CPU / "cpu1").symlink_to("cpu1")
    (tmp_path / CPU / "cpu2").symlink_to("/etc")
    (tmp_path / "proc").symlink_to("/proc")
    topology = read_topology(tmp_path)
    assert [c.core_key for c in topology.cpus] == [0, None, None]
    assert topology.lists.cmdline is None
    assert topology.mem_total_bytes is None


def test_core_types(tmp_path: Path) -> None:
    """Hybrid x86 is told by the kernel's two PMUs, Arm by the processor's id register; one kind is no kind."""
    write(tmp_path, {**cpu(0), **cpu(1), **cpu(2, core=1)})
    assert read_topology(tmp_path).core_types == ()

    for number, capacity in enumerate((1024, 1024, 446)):
        write(tmp_path, {f"{CPU}/cpu{number}/cpu_capacity": capacity})
    assert [(k.name, str(k.cpus)) for k in read_topology(tmp_path).core_types] == [
        ("capacity 1024", "0-1"),
        ("capacity 446", "2"),
    ]
    for number, midr in enumerate(("0x00000000410fd851", "0x00000000410fd851", "0x00000000410fd871")):
        write(tmp_path, {f"{CPU}/cpu{number}/regs/identification/midr_el1": midr})
    assert [k.name for k in read_topology(tmp_path).core_types] == ["midr 0x410fd851", "midr 0x410fd871"]

    write(tmp_path, {"sys/devices/cpu_core/cpus": "0-1", "sys/devices/cpu_atom/cpus": "2-5"})
    assert [(k.name, str(k.cpus)) for k in read_topology(tmp_path).core_types] == [("core", "0-1"), ("atom", "2")]


def test_this_machine() -> None:
    """The live machine reads without problems and agrees with the kernel's count of online CPUs."""
    topology = read_topology()
    assert str(topology.online) == Path("/sys/devices/system/cpu/online").read_text().strip()
    assert topology.problems == ()
