"""Slurm's numbers as the kernel's CPUs: against the maps that a real slurmd logged, and against hwloc itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.host.machine_archives import unpack
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import CoreType, Cpu, NumaNode, Topology
from toolkit.sources.slurm_cpus import L3, NUMA, PACKAGE, count, logical_order

DATA = Path(__file__).parents[3] / "data"
RECORDED = DATA / "sources/slurmd-block-maps.txt"
"""By slurmd 22.05.8: machine, what is a socket, cores, threads per core, the kernel's CPU at each number."""
MAPS = [line.split() for line in RECORDED.read_text().splitlines()]
MACHINES = {path.name.removesuffix(".tar.xz"): path for path in sorted((DATA / "topologies").glob("*.tar.xz"))}
OTHERS = Path(__file__).resolve().parents[5] / "shared" / "topologies"
MACHINES |= {path.name.removesuffix(".tar.gz"): path for path in sorted(OTHERS.glob("*.tar.gz"))}
JOB = """JobId=7 JobName=x
   JobState=RUNNING Reason=None Dependency=(null)
   TRES=cpu=4,mem=1000M,node=1,billing=4
     Nodes=n1 CPU_IDs={ids} Mem={mem} GRES=
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Power=
"""
SINCE = {
    "22.05": lambda text: text,
    "23.02": lambda text: text.replace("   TRES=", "   ReqTRES=cpu=4\n   AllocTRES="),
    "24.05": lambda text: text.replace("   TRES=", "   ReqTRES=cpu=4\n   AllocTRES=").replace("   Power=\n", ""),
}
"""How a release prints the same job."""


@contextmanager
def unpacked(name: str) -> Iterator[Path]:
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder, tarfile.open(MACHINES[name]) as archive:
        unpack(archive, Path(folder))
        yield Path(folder)


@pytest.fixture(scope="module", params=sorted({row[0] for row in MAPS}))
def machine(request: pytest.FixtureRequest) -> tuple[str, Topology]:
    with unpacked(request.param) as root:
        return request.param, read_topology(root)


@pytest.mark.parametrize("socket", [PACKAGE, NUMA, L3])
def test_a_real_slurmd_counts_the_same(machine: tuple[str, Topology], socket: str) -> None:
    """Each number of its map, the cores and the threads, with each of the settings that change what a socket is."""
    name, topology = machine
    (row,) = [row for row in MAPS if row[:2] == [name, socket]]
    counted = count(topology, socket)
    assert counted is not None
    assert (counted.cores, counted.threads) == (int(row[2]), int(row[3]))
    assert ",".join(map(str, counted.block_map)) == row[4]


@pytest.mark.skipif(shutil.which("lstopo-no-graphics") is None, reason="package hwloc-nox, or hwloc, is not installed")
@pytest.mark.parametrize("name", sorted(MACHINES))
def test_hwloc_itself_has_this_order(name: str) -> None:
    """hwloc reads the same files and prints its threads in its logical order."""
    with unpacked(name) as root:
        environment = os.environ | {"HWLOC_FSROOT": str(root), "HWLOC_THISSYSTEM": "0"}
        command = ["lstopo-no-graphics", "--of", "console", "--only", "pu", "--no-io", "--disallowed"]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
        assert tuple(map(int, re.findall(r"P#(\d+)", said))) == logical_order(read_topology(root))


def clustered(**changes: Any) -> Topology:
    """One package of 4 cores with 2 threads each; NUMA node 0 has cores 0 and 2, node 1 cores 1 and 3."""
    cpus = tuple(
        Cpu(cpu=n, online=True, core_key=n % 4, socket_key=0, numa=n % 2, **({"l3_key": n % 2} | changes))
        for n in range(8)
    )
    nodes = tuple(NumaNode(id=n, cpus=CpuSet.of(range(n, 8, 2)), mem_bytes=None, memory_only=False) for n in range(2))
    return Topology(cpus=cpus, numa=nodes)


@pytest.mark.parametrize("changes", [{}, {"l3_key": None}, {"l3_key": 0}], ids=["l3-a-node", "no-l3", "one-l3"])
def test_nodes_that_interleave_the_cores(changes: dict[str, Any]) -> None:
    """hwloc goes node by node; slurmd 22.05.8 logged this map for the first of the three."""
    assert logical_order(clustered(**changes)) == (0, 4, 2, 6, 1, 5, 3, 7)
    nodes = count(clustered(**changes), NUMA)
    assert nodes is not None
    assert (nodes.block_map, nodes.cores, nodes.threads) == ((0, 4, 2, 6, 1, 5, 3, 7), 4, 2)


def hybrid() -> Topology:
    """Two performance cores of two threads, four efficiency cores of one."""
    keys = [0, 0, 2, 2, 4, 5, 6, 7]
    cpus = tuple(Cpu(cpu=n, online=True, core_key=key, socket_key=0, numa=0, l3_key=0) for n, key in enumerate(keys))
    kinds = (CoreType(name="core", cpus=CpuSet.of(range(4))), CoreType(name="atom", cpus=CpuSet.of(range(4, 8))))
    return Topology(cpus=cpus, core_types=kinds)


def test_cores_that_differ() -> None:
    """Each counts with the threads that the machine has per core, rounded down; since 23.02 efficiency cores do not."""
    every, fast = count(hybrid()), count(hybrid(), all_cores=False)
    assert every is not None
    assert fast is not None
    assert (every.cores, every.threads, every.block_map[:6]) == (6, 1, (0, 2, 4, 5, 6, 7))
    assert (fast.cores, fast.threads, fast.block_map) == (2, 2, (0, 1, 2, 3))


def write_machine(root: Path, topology: Topology) -> None:
    """Write what the kernel would say of it."""
    base = root / "sys/devices/system"
    for cpu in topology.cpus:
        folder = base / f"cpu/cpu{cpu.cpu}/topology"
        folder.mkdir(parents=True)
        core = CpuSet.of(one.cpu for one in topology.cpus if one.core_key == cpu.core_key)
        whole = topology.online
        values = {"core_id": cpu.core_key, "physical_package_id": 0, "thread_siblings_list": core}
        values |= {"core_cpus_list": core, "package_cpus_list": whole, "core_siblings_list": whole}
        for name, value in values.items():
            (folder / name).write_text(f"{value}\n")
    for node in topology.numa:
        (base / f"node/node{node.id}").mkdir(parents=True)
        (base / f"node/node{node.id}/cpulist").write_text(f"{node.cpus}\n")
    for kind in topology.core_types:
        (root / f"sys/devices/cpu_{kind.name}").mkdir(parents=True)
        (root / f"sys/devices/cpu_{kind.name}/cpus").write_text(f"{kind.cpus}\n")
    for name in ("online", "present", "possible"):
        (base / f"cpu/{name}").write_text(f"{topology.online}\n")
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text("MemTotal:       16384000 kB\n")


def claimed(
    root: Path,
    *,
    topology: Topology | None = None,
    cgroup: str | None = "ConstrainCores=yes\nConstrainRAMSpace=yes\n",
    slurm: str | None = None,
    ids: str = "0-3",
    mem: int = 1000,
    release: str = "22.05",
) -> tuple[dict[str, Any], str]:
    """Return the claim of one job on such a node, and standard error."""
    write_machine(root, topology or clustered())
    (root / "etc/slurm").mkdir(parents=True)
    for name, text in (("cgroup.conf", cgroup), ("slurm.conf", slurm)):
        if text is not None:
            (root / "etc/slurm" / name).write_text(text)
    (root / "job").write_text(SINCE[release](JOB.format(ids=ids, mem=mem)))
    ended = pinproof("claims", "--slurm", f"n1@{root / 'job'}", "--root", root, "--json")
    assert ended.exit_code == 0, ended.stderr
    (claim,) = json.loads(ended.stdout)["claims"]
    return claim, ended.stderr


@pytest.mark.parametrize("release", sorted(SINCE))
def test_a_job_on_such_a_machine(tmp_path: Path, release: str) -> None:
    """Cores 0 and 2 of the kernel are Slurm's first two."""
    claim, _ = claimed(tmp_path, release=release)
    assert (claim["cpus"], claim["memory_bytes"]) == ("0,2,4,6", 1000 << 20)


@pytest.mark.parametrize(
    ("release", "slurm", "cpus"),
    [
        ("22.05", None, "0,2,4-5"),
        ("23.02", None, "0-3"),
        ("24.05", None, "0-3"),
        ("24.05", "SlurmdParameters=allow_ecores\nTaskPlugin=task/cgroup\n", "0,2,4-5"),
    ],
)
def test_a_job_on_unequal_cores(tmp_path: Path, release: str, slurm: str | None, cpus: str) -> None:
    """The words of the job say which releases print it so."""
    assert claimed(tmp_path, topology=hybrid(), slurm=slurm, release=release)[0]["cpus"] == cpus


@pytest.mark.parametrize(
    ("definition", "release", "cpus"),
    [
        ("NodeName=n[1-3] CPUs=8 RealMemory=9000", "22.05", "0,2,4,6"),
        ("NodeName=n[1-3] CPUs=8", "24.05", "0,2,4,6"),
        ("NodeName=n1 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2", "24.05", "0,2,4,6"),
        ("NodeName=DEFAULT Sockets=1 CoresPerSocket=4 ThreadsPerCore=1\nNodeName=n1", "22.05", "0,2,4,6"),
        ("NodeName=n1 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1", "24.05", "0-3"),
        ("NodeName=n1 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1", "23.02", None),
        ("NodeName=n1 ThreadsPerCore=999999999999999", "24.05", None),
    ],
)
def test_a_definition_of_the_node(tmp_path: Path, definition: str, release: str, cpus: str | None) -> None:
    """With fewer threads than the machine the release decides; 23.02 and 23.11 print a job alike and differ."""
    claim, said = claimed(tmp_path, slurm=f"TaskPlugin=task/cgroup\n{definition}\n", release=release)
    assert claim["cpus"] == cpus
    assert ("CPU_IDs 0-3" in said) is (cpus is None)


@pytest.mark.parametrize(
    ("cgroup", "slurm", "said"),
    [
        (None, None, "ConstrainCores is not set (there is no /etc/slurm/cgroup.conf; the default is no)"),
        ("ConstrainRAMSpace=yes\n", None, "ConstrainCores is not set in /etc/slurm/cgroup.conf (the default is no)"),
        ("ConstrainCores=no\n", "TaskPlugin=task/affinity,task/cgroup\n", "task/affinity binds tasks by their masks"),
        ("constraincores = NO # yes\n", None, "ConstrainCores=NO in /etc/slurm/cgroup.conf"),
        ("ConstrainCores=perhaps\n", None, "which is neither yes nor no"),
        ("ConstrainCores=yes\n", "TaskPlugin=task/affinity\n", "without task/cgroup"),
        ("ConstrainCores=yes\n", "Include more.conf\n", "more.conf"),
    ],
)
def test_jobs_that_are_not_confined(tmp_path: Path, cgroup: str | None, slurm: str | None, said: str) -> None:
    """``CPU_IDs`` are accounting then: no CPUs are promised, and why is said; what cannot be read is said, too."""
    claim, lines = claimed(tmp_path, cgroup=cgroup, slurm=slurm)
    assert claim["cpus"] == ("0,2,4,6" if said == "more.conf" else None)
    assert said in lines
    assert said == "more.conf" or "not read: CPU_IDs: " in lines


@pytest.mark.parametrize(
    ("more", "mem", "limit"),
    [
        ("AllowedRAMSpace=110", 1000, 1100 << 20),
        ("AllowedRAMSpace=101.5", 1000, 1_064_304_639),
        ("AllowedRAMSpace = 33.3%", 1000, int(1000 * (1 << 20) * 0.3329999923706055)),
        ("AllowedSwapSpace=50\nConstrainSwapSpace=yes", 1000, 1000 << 20),
        ("MinRAMSpace=2000", 1000, 2000 << 20),
        ("AllowedRAMSpace=1", 1000, 30 << 20),
        ("MaxRAMPercent=5", 1000, int(16000 * (1 << 20) * 0.05)),
        ("MaxRAMPercent=50", 0, 8000 << 20),
        ("AllowedRAMSpace=x", 1000, None),
        ("MinRAMSpace=-1", 1000, None),
    ],
)
def test_limits_of_memory(tmp_path: Path, more: str, mem: int, limit: int | None) -> None:
    """The machine has 16,000 MiB; Slurm keeps a percentage in single precision, and C rounds down."""
    claim, said = claimed(tmp_path, cgroup=f"ConstrainCores=yes\nConstrainRAMSpace=yes\n{more}\n", mem=mem)
    assert claim["memory_bytes"] == limit
    assert ("its memory is not judged" in said) is (limit is None)


@pytest.mark.parametrize(
    ("release", "slurm", "limit"),
    [
        ("22.05", "NodeName=n1 CPUs=8 RealMemory=12000\n", 4000 << 20),
        ("24.05", "NodeName=n1 CPUs=8 RealMemory=12000\n", 3000 << 20),
        ("24.05", "NodeName=n1 CPUs=8\n", None),
        ("24.05", None, None),
    ],
)
def test_what_the_percentage_is_of(tmp_path: Path, release: str, slurm: str | None, limit: int | None) -> None:
    """Until 22.05 the machine's memory, since then the node's definition."""
    cgroup = "ConstrainRAMSpace=yes\nMaxRAMPercent=25\n"
    slurm = slurm and f"TaskPlugin=task/cgroup\n{slurm}"
    claim, said = claimed(tmp_path, cgroup=cgroup, slurm=slurm, mem=7500, release=release)
    assert claim["memory_bytes"] == limit
    assert ("RealMemory" in said) is (limit is None)


def test_swap_alone_limits_memory(tmp_path: Path) -> None:
    """With ``ConstrainSwapSpace`` only, the limit of both together is that of memory."""
    claim, _ = claimed(tmp_path, cgroup="ConstrainSwapSpace=yes\nAllowedSwapSpace=50\nAllowedRAMSpace=10\n")
    assert claim["memory_bytes"] == 1500 << 20


def test_a_file_that_another_includes(tmp_path: Path) -> None:
    """Values of included files hold, wherever they stand; a file that includes itself ends."""
    (tmp_path / "etc/slurm").mkdir(parents=True)
    (tmp_path / "etc/slurm/tasks.conf").write_text("include slurm.conf\nTaskPlugin=task/affinity\n")
    write_machine(tmp_path, clustered())
    (tmp_path / "etc/slurm/slurm.conf").write_text('ClusterName="a b" \\\n  Include=x\ninclude tasks.conf\n')
    (tmp_path / "etc/slurm/cgroup.conf").write_text("ConstrainCores=yes\n")
    (tmp_path / "job").write_text(JOB.format(ids="0", mem=0))
    ended = pinproof("claims", "--slurm", f"n1@{tmp_path / 'job'}", "--root", tmp_path, "--json")
    assert (ended.exit_code, json.loads(ended.stdout)["claims"][0]["cpus"]) == (0, None)
    assert "TaskPlugin=task/affinity in /etc/slurm/slurm.conf, without task/cgroup" in ended.stderr
