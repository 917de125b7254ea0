"""Every recorded machine: the reader agrees with what hwloc, lscpu and cAdvisor found on the same files."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.host.machine_archives import unpack
from toolkit.host.topology import read_topology
from toolkit.model.serde import from_json, to_data, to_json
from toolkit.model.topology import Topology

RECORDED = Path(__file__).resolve().parents[5] / "shared" / "topologies"
SHIPPED = Path(__file__).resolve().parents[3] / "data" / "topologies"
ARCHIVES = {path.name.removesuffix(".tar.xz"): path for path in sorted(SHIPPED.glob("*.tar.xz"))}
"""The synthetic machines of this repository, and all others where ../shared is beside it."""
ARCHIVES |= {path.stem: path.with_suffix(".tar.gz") for path in sorted(RECORDED.glob("*.json"))}
CPU_FIELDS = ("core", "core_key", "socket", "socket_key", "numa", "die", "cluster", "l3", "l3_key")

Machine = tuple[dict[str, Any], Topology]


@pytest.fixture(scope="module")
def machine() -> Callable[[str], Machine]:
    """Unpack a machine once and read it; in memory where possible, 80,000 small files take a disk minutes."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    known: dict[str, Machine] = {}

    def load(name: str) -> Machine:
        if name not in known:
            with tempfile.TemporaryDirectory(dir=where) as folder, tarfile.open(ARCHIVES[name]) as archive:
                sysroot = Path(folder)
                unpack(archive, sysroot)
                beside = ARCHIVES[name].with_name(f"{name}.json")
                truth = json.loads((beside if beside.exists() else sysroot / "truth.json").read_text())
                known[name] = truth, read_topology(sysroot)
        return known[name]

    return load


each_machine = pytest.mark.parametrize("name", sorted(ARCHIVES))


@each_machine
def test_cpus(machine: Callable[[str], Machine], name: str) -> None:
    """Every CPU has the recorded core, socket, node, die, cluster, L3 and siblings; offline CPUs have none of them."""
    truth, topology = machine(name)
    found = to_data(topology)["cpus"]  # type: ignore[index,call-overload]
    fields = ("cpu", "online", *CPU_FIELDS, "siblings", *(k for k in ("book", "drawer") if k in truth["cpus"][0]))
    assert [{k: cpu[k] for k in fields} for cpu in found] == [{k: cpu[k] for k in fields} for cpu in truth["cpus"]]


@each_machine
def test_numa(machine: Callable[[str], Machine], name: str) -> None:
    """Nodes have their ids, online CPUs, memory, hugepages and distances."""
    truth, topology = machine(name)
    found = to_data(topology)
    assert isinstance(found, dict)
    assert found["numa"] == truth["numa"]
    assert found["distances"] == truth["distances"]
    assert found["hugepages_kb"] == truth["hugepages_kb"]
    assert found["mem_total_bytes"] == truth["mem_total_bytes"]


@each_machine
def test_threads_and_lists(machine: Callable[[str], Machine], name: str) -> None:
    """The thread counts per core and the kernel's own lists are as recorded."""
    truth, topology = machine(name)
    found = to_data(topology)
    assert isinstance(found, dict)
    assert (found["smt_level"], found["threads_per_core"]) == (truth["smt_level"], truth["threads_per_core"])
    assert found["lists"] == truth["lists"]
    assert found["arch"] == truth["arch"]
    counts = truth["counts"]
    assert len(topology.cores) == counts["cores"]
    assert len(topology.sockets) == counts["sockets"]
    assert len(topology.l3_groups) == counts["l3_groups"]


@each_machine
def test_pci(machine: Callable[[str], Machine], name: str) -> None:
    """PCI devices carry their raw ids and node."""
    truth, topology = machine(name)
    found = to_data(topology)
    assert isinstance(found, dict)
    assert found["pci"] == truth["pci"]


@each_machine
def test_kubelet_view(machine: Callable[[str], Machine], name: str) -> None:
    """The kubelet's view is what cAdvisor's code returned on this tree, gaps included."""
    truth, topology = machine(name)
    found = to_data(topology)
    assert isinstance(found, dict)
    for field in ("error", "cpus", "logical_cpus", "nodes"):
        assert found["kubelet"][field] == truth["kubelet"][field], field


@each_machine
def test_json_round_trip(machine: Callable[[str], Machine], name: str) -> None:
    """A topology read back from its own JSON is the same value, and no recorded file is nonsense."""
    _, topology = machine(name)
    assert from_json(Topology, to_json(topology), "topology") == topology
    assert topology.problems == ()
