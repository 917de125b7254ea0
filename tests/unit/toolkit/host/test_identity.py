"""Whose a result is, read from small trees; and which machines are of one class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.toolkit.host.sysroots import cpu, write
from toolkit.host.identity import read_identity
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet
from toolkit.model.identity import Identity, hardware_class, software_class
from toolkit.model.serde import from_json, to_json
from toolkit.model.topology import Cpu, NumaNode, Topology


def test_every_fact(tmp_path: Path) -> None:
    """Each comes from its file, or from the user who starts pinproof; the machine's own id never leaves it."""
    write(tmp_path, {**cpu(0), "etc/machine-id": "4711aa\n", "proc/sys/kernel/hostname": "node-7\n"})
    write(tmp_path, {"proc/sys/kernel/random/boot_id": "b0", "proc/sys/kernel/numa_balancing": "1"})
    write(tmp_path, {"proc/version": "Linux version 6.1.0-9 (a@b) (gcc (x) 12) #1 SMP Debian 6.1.27-1 (2023)\n"})
    write(tmp_path, {"proc/cpuinfo": "processor\t: 0\nmicrocode\t: 0x2b000590\n"})
    topology = read_topology(tmp_path)

    found = read_identity(tmp_path, topology, {"PINPROOF_JOB": "ci/9\n\x1b[0m", "PINPROOF_FLEET_SALT": "s"})

    assert (found.node, found.boot_id, found.microcode) == ("node-7", "b0", "0x2b000590")
    assert found.kernel_build == "#1 SMP Debian 6.1.27-1 (2023)"
    assert found.sysctls == {"kernel.numa_balancing": "1"}
    assert found.job.isprintable()
    assert "4711aa" not in to_json(found)
    others = [read_identity(tmp_path, topology, environ) for environ in ({}, {"PINPROOF_NODE": "n"})]
    assert found.machine != others[0].machine == others[1].machine
    assert others[1].node == "n"
    assert from_json(Identity, to_json(found), "identity") == found


def test_a_tree_without_anything(tmp_path: Path) -> None:
    """Nothing is made up."""
    write(tmp_path, cpu(0))

    found = read_identity(tmp_path, read_topology(tmp_path), {})

    assert (found.node, found.machine, found.microcode, found.kernel_build) == ("", "", "", "")
    assert found.hardware is not None


def machine(order: list[int], *, per_core: int = 2, model: str = "AMD EPYC 9454 48-Core Processor") -> Topology:
    """Return two sockets of two nodes of two cores, whose CPUs are numbered in this order."""
    cpus = []
    for place, number in enumerate(order):
        core = min(order[place // per_core * per_core : place // per_core * per_core + per_core])
        half = len(order) // 2
        socket = min(order[place // half * half : place // half * half + half])
        cpus.append(Cpu(cpu=number, online=True, core_key=core, socket_key=socket, l3_key=core))
    quarter = len(order) // 4
    numa = tuple(
        NumaNode(
            id=node, cpus=CpuSet.of(order[node * quarter : (node + 1) * quarter]), mem_bytes=1 << 30, memory_only=False
        )
        for node in range(4)
    )
    return Topology(cpus=tuple(sorted(cpus, key=lambda one: one.cpu)), numa=numa, cpu_model=model, arch="x86_64")


def test_a_class_is_the_structure_whatever_the_numbers() -> None:
    """Two machines that the kernel numbers otherwise are of one class; one that is built otherwise is not."""
    one = hardware_class(machine(list(range(16))))

    assert one.name == "epyc-9454-2s-8c-smt-nps2"
    assert hardware_class(machine([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])) == one
    whole = machine(list(range(16)))
    small = replace(whole, numa=tuple(replace(node, mem_bytes=2 << 30) for node in whole.numa))
    assert hardware_class(small) == one
    different = [machine(list(range(16)), per_core=1), machine(list(range(32))), machine(list(range(16)), model="x")]
    assert len({one.hash, *(hardware_class(other).hash for other in different)}) == 4


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("Intel(R) Xeon(R) Gold 6338N CPU @ 2.20GHz", "gold-6338n"),
        ("AMD EPYC 9454 48-Core Processor", "epyc-9454"),
        ("Neoverse-N1", "neoverse-n1"),
        ("\u202e<b>", "b"),
    ],
)
def test_a_class_has_a_readable_name(model: str, slug: str) -> None:
    """The model without what all of its kind say."""
    assert hardware_class(machine(list(range(16)), model=model)).name == f"{slug}-2s-8c-smt-nps2"


def test_software_is_kernel_kubelet_and_gates() -> None:
    """What is not known is left out."""
    identity = Identity(kubelet="v1.36.2", feature_gates={"B": True, "A": False})

    assert software_class("6.1", identity) == "6.1, kubelet v1.36.2, gates A=false,B=true"
    assert software_class("6.1", None) == software_class("6.1", Identity()) == "6.1"
