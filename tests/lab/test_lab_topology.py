"""Topology truth: what was asked of the emulator, what the guest's kernel shows, and what ``pinproof topology`` reads.

The expectation is computed from the QEMU arguments' own source (``harness/topology.py``), never from sysfs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.harness import limits
from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import CATALOGUE, ISOLATED, SMALL
from toolkit.host import topology as reader
from toolkit.model import serde
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import Topology

KERNEL_SHARE_MIB = 144
"""Memory that the kernel keeps for itself: early boot takes most from the first node. To it come its pages' own
descriptions, 64 bytes for 4 KiB (``struct page``)."""
PAGES_SHARE = 64

EVERY_TOPOLOGY = guests(
    *(GuestKind(topology=topology) for topology in CATALOGUE),
    GuestKind(topology=SMALL, kernel="6.12"),
)


@pytest.fixture(scope="module")
def seen(guest: Guest) -> Topology:
    """Read what ``pinproof topology --json`` says in the guest."""
    done = guest.pinproof("topology", "--json").check()
    return serde.from_json(Topology, done.text, "pinproof topology --json")


@EVERY_TOPOLOGY
def test_cpus_present_and_online(guest: Guest, seen: Topology) -> None:
    """Every CPU of the machine is there, and exactly the expected ones are online."""
    assert CpuSet.of(cpu.cpu for cpu in seen.cpus) == guest.topology.cpus
    assert seen.online == guest.topology.online_cpus


@EVERY_TOPOLOGY
def test_place_of_every_cpu(guest: Guest, seen: Topology) -> None:
    """Node, core, siblings and cache of every online CPU are those of the machine that was asked for."""
    online = guest.topology.online_cpus
    for cpu in seen.cpus:
        if cpu.cpu not in online:
            assert (cpu.core, cpu.socket, cpu.siblings, cpu.l3_key) == (None, None, None, None)
            continue
        place = guest.topology.place(cpu.cpu)
        assert cpu.numa == place.node, f"cpu {cpu.cpu}"
        assert cpu.siblings == guest.topology.siblings(cpu.cpu) & online, f"cpu {cpu.cpu}"
        assert cpu.core_key == (guest.topology.siblings(cpu.cpu) & online).first(), f"cpu {cpu.cpu}"
        assert cpu.l3_key == (guest.topology.l3(cpu.cpu) & online).first(), f"cpu {cpu.cpu}"


@EVERY_TOPOLOGY
def test_sockets_and_dies(guest: Guest, seen: Topology) -> None:
    """CPUs share a package, and a die, exactly as the machine has it."""
    placed = [(cpu, guest.topology.place(cpu.cpu)) for cpu in seen.cpus if cpu.online]
    for cpu, place in placed:
        same_socket = [other.cpu for other, where in placed if where.socket == place.socket]
        assert cpu.socket_key == min(same_socket), f"cpu {cpu.cpu}"
        for other, where in placed:
            together = (where.socket, where.die) == (place.socket, place.die)
            assert ((cpu.socket, cpu.die) == (other.socket, other.die)) == together, f"cpus {cpu.cpu} {other.cpu}"


@EVERY_TOPOLOGY
def test_nodes_memory_and_distances(guest: Guest, seen: Topology) -> None:
    """Nodes, memory-only ones too, have their CPUs, their memory less the kernel's share, and their distances."""
    nodes = guest.topology.nodes
    assert [node.id for node in seen.numa] == list(range(len(nodes)))
    for found, asked in zip(seen.numa, nodes, strict=True):
        assert found.cpus == asked.cpus & guest.topology.online_cpus
        assert found.memory_only == (not found.cpus)
        assert found.mem_bytes is not None
        kept_mib = KERNEL_SHARE_MIB + asked.memory_mib // PAGES_SHARE
        assert asked.memory_mib - kept_mib <= found.mem_bytes >> 20 <= asked.memory_mib
    if len(nodes) > 1:
        assert seen.distances is not None
        assert seen.distances.matrix == guest.topology.distances


@EVERY_TOPOLOGY
def test_nothing_in_sysfs_was_refused(guest: Guest, seen: Topology) -> None:
    """The reader found no file without sense on a sound machine."""
    assert seen.problems == ()


@EVERY_TOPOLOGY
def test_kubelet_sees_the_same_machine(guest: Guest, seen: Topology) -> None:
    """The kubelet's discovery gives every online CPU its node, and every node its CPUs."""
    assert seen.kubelet.error is None
    online = guest.topology.online_cpus
    assert CpuSet.of(seen.kubelet.cpus) == online
    for cpu, found in seen.kubelet.cpus.items():
        assert found.numa == guest.topology.place(cpu).node, f"cpu {cpu}"
        assert found.core_key == (guest.topology.siblings(cpu) & online).first(), f"cpu {cpu}"


@guests(GuestKind(topology=ISOLATED))
def test_isolated_and_tickless_cpus(guest: Guest, seen: Topology) -> None:
    """``isolcpus=`` and ``nohz_full=`` are read, and huge pages are counted node by node."""
    assert (seen.isolated, seen.nohz_full) == (CpuSet.parse("6-7"), CpuSet.parse("6-7"))
    pages = [node.hugepages_kb for node in seen.numa]
    assert sum((each or {}).get("2048", 0) for each in pages) == 16
    assert [(each or {}).get("1048576", 0) for each in pages] == [1, 1]


@guests(GuestKind())
def test_a_captured_guest_reads_the_same_elsewhere(guest: Guest, seen: Topology, tmp_path: Path) -> None:
    """The guest's sysfs, copied to the host and read there with another root, gives the same machine."""
    parts = ("sys/devices/system/cpu", "sys/devices/system/node", "sys/kernel/mm/hugepages", "proc/cpuinfo")
    for part in (*parts, "proc/meminfo", "proc/cmdline"):
        # sysfs files claim 4096 bytes; only a copy has the size of what is in it. Some files refuse to be read.
        guest.sh(f"mkdir -p /tmp/dump/$(dirname {part}); cp -r --no-preserve=all /{part} /tmp/dump/{part} || true")
    back = guest.get("/tmp/dump", tmp_path)
    elsewhere = reader.read_topology(back)
    assert elsewhere.cpus == seen.cpus
    assert elsewhere.numa == seen.numa
    assert elsewhere.distances == seen.distances


@guests(GuestKind())
def test_cache_ids_are_not_certified(guest: Guest) -> None:
    """The ids of caches are the emulator's: shown, not certified."""
    assert json.loads(guest.pinproof("topology", "--json").check().text)["cpus"][0]["l3"] is not None
    limits.skip(limits.Aspect.CACHE_IDS)
