"""``pinproof topology``: the JSON contract, and a summary that stays readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.toolkit.host.sysroots import CPU, cpu, node, write
from toolkit.cli.topology import command
from toolkit.errors import InputError
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet
from toolkit.report.topology_text import human_bytes, render_topology, short_list


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two nodes, CPU numbers alternating between them, the last CPU offline, one PCI device."""
    for number in range(64):
        write(tmp_path, cpu(number, core=number // 2, package=number % 2))
    node(tmp_path, 0, tuple(range(0, 64, 2)), 1 << 20, "10 21")
    node(tmp_path, 1, tuple(range(1, 64, 2)), 1 << 20, "21 10")
    write(tmp_path, {f"{CPU}/online": "0-62", "sys/bus/pci/devices/0000:01:00.0/class": "0x020000"})
    return write(tmp_path, {"sys/bus/pci/devices/0000:01:00.0/numa_node": 1})


def test_json_has_the_fields_of_the_contract(machine: Path) -> None:
    """The JSON names its fields as the contract does."""
    result = CliRunner().invoke(command, ["--json", "--sysroot", str(machine)])
    assert result.exit_code == 0
    data = json.loads(result.output)
    assert {"cpus", "numa", "distances", "smt_level", "threads_per_core", "lists", "pci", "kubelet"} <= set(data)
    cpu_fields = {"cpu", "online", "core", "core_key", "socket", "socket_key", "numa", "die", "cluster", "book"}
    assert cpu_fields | {"drawer", "l3", "l3_key", "siblings"} == set(data["cpus"][0])
    assert set(data["numa"][0]) == {"id", "cpus", "mem_bytes", "memory_only", "hugepages_kb"}
    assert set(data["pci"][0]) == {"bdf", "class", "vendor", "device", "numa_node", "local_cpulist"}
    assert data["kubelet"]["cpus"]["0"]["uncore_cache_id"] is None


def test_a_node_with_two_sizes_of_hugepages_fits_the_width(machine: Path) -> None:
    """The table of NUMA nodes wraps where 80 columns are not enough."""
    for size, pages in ((2048, 512), (1048576, 32)):
        write(machine, {f"sys/devices/system/node/node0/hugepages/hugepages-{size}kB/nr_hugepages": pages})
        write(machine, {f"sys/devices/system/node/node1/hugepages/hugepages-{size}kB/nr_hugepages": pages})
    write(machine, {f"{CPU}/online": "0-11,14-29,32-62"})
    text = render_topology(read_topology(machine))
    assert "512x2MiB" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("Ignored")) <= 80


def test_summary_names_what_matters(machine: Path) -> None:
    """Alternating CPU lists are short, the offline CPU, the distances and the device's node are there."""
    text = render_topology(read_topology(machine))
    assert "0-62:1/2" in text
    assert "1: 63" in text
    assert ["from", "0", "10", "21"] in [line.split() for line in text.splitlines()]
    assert "0000:01:00.0" in text
    assert "Kubelet: sees 63 CPUs in 2 NUMA nodes" in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_a_folder_without_cpus_is_one_line() -> None:
    """A wrong --sysroot is an input error."""
    result = CliRunner().invoke(command, ["--sysroot", "/nonexistent"])
    assert isinstance(result.exception, InputError)


@settings(deadline=None)
@given(st.sets(st.integers(0, 200), max_size=100))
def test_short_lists_mean_the_same_set(ids: set[int]) -> None:
    """Strides are the kernel's own format: read back they are the same set, never longer than the plain list."""
    cpus = CpuSet.of(ids)
    assert CpuSet.parse(short_list(cpus)) == cpus
    assert len(short_list(cpus)) <= len(str(cpus))


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "?"), (0, "0 B"), (1023, "1023 B"), (2 << 20, "2 MiB"), (1536, "1.5 KiB"), (103079215104, "96 GiB")],
)
def test_sizes(size: int | None, text: str) -> None:
    """Sizes are binary units with few digits."""
    assert human_bytes(size) == text
