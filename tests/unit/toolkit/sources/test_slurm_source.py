"""``claims --slurm``: jobs of ``scontrol show job -d`` become claims with the kernel's CPU numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from toolkit.errors import InputError
from toolkit.model.topology import Cpu, Topology
from toolkit.sources import slurm
from toolkit.sources.followed_tool import FollowedTool
from toolkit.sources.hostlist import names_host
from toolkit.sources.places import Places
from toolkit.sources.registry import BY_NAME
from toolkit.sources.slurm import jobs, read, slurm_order


@pytest.mark.parametrize(
    ("text", "host", "named"),
    [
        ("lab", "lab", True),
        ("lab", "lab1", False),
        ("lab[1-3,7]", "lab2", True),
        ("lab[1-3,7]", "lab7", True),
        ("lab[1-3,7]", "lab4", False),
        ("lab[01-10]", "lab04", True),
        ("lab[01-10]", "lab4", False),
        ("lab[8-12]", "lab10", True),
        ("r[1-2]n[1-4],gpu", "r2n3", True),
        ("r[1-2]n[1-4],gpu", "gpu", True),
        ("r[1-2]n[1-4]", "r3n1", False),
        ("lab[1-999999999]", "lab500", True),
        ("lab[1-", "lab1", False),
        ("[", "", False),
    ],
)
def test_lists_of_nodes(text: str, host: str, named: bool) -> None:
    """A list names a host by its number, as wide as it is written, and is never written out."""
    assert names_host(text, host) is named


def test_cpus_are_counted_by_socket_core_and_thread() -> None:
    """Two sockets of two cores, threads numbered as most machines do: 0 and 4 are one core."""
    cpus = [Cpu(cpu=n, online=True, core_key=n % 4, socket_key=n % 4 // 2 * 2) for n in range(8)]
    assert slurm_order(Topology(cpus=tuple(cpus))) == (0, 4, 1, 5, 2, 6, 3, 7)


@pytest.mark.parametrize("text", ["\x1b[31m", "JobId=x JobName=y\n", "slurm_load_jobs error: no contact", "{}", "\n"])
def test_nonsense_is_one_line(tmp_path: Path, text: str) -> None:
    """What scontrol does not print ends with one line and exit code 2."""
    file = tmp_path / "jobs"
    file.write_text(text)
    ended = pinproof("claims", "--slurm", file)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended.stderr


def test_no_jobs() -> None:
    """An idle node has none, and says so."""
    assert jobs(b"No jobs in the system\n", "x") == ()
    with pytest.raises(InputError, match="JobState"):
        jobs(b"JobId=1 JobName=x\n   UserId=0\n", "x")


RECORDED = Path(__file__).parents[3] / "data/sources/scontrol-show-job.txt"


def test_jobs_of_a_real_slurm(tmp_path: Path) -> None:
    """Jobs that run promise what Slurm wrote into their cgroups; those that are over promise nothing."""
    configuration = tmp_path / "etc/slurm/cgroup.conf"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("ConstrainCores=yes\nConstrainRAMSpace = Yes # as in the guest\n")
    for cpu in range(8):
        write_cpu(tmp_path, cpu)
    reading = read(RECORDED, Places(root=tmp_path), "lab")
    found = {claim.name: claim for claim in reading.claims.claims}
    assert set(found) == {"job-3", "job-4"}
    assert (str(found["job-3"].cpus), found["job-3"].memory_bytes) == ("0-3", 104_857_600)
    assert (str(found["job-4"].cpus), found["job-4"].memory_bytes) == ("4-5", 52_428_800)
    assert found["job-3"].cgroup == "/system.slice/lab_slurmstepd.scope/job_3"
    other = read(RECORDED, Places(root=tmp_path), "other")
    assert other.claims.claims == ()
    assert "none that runs is on node other: they are on lab" in [part.reason for part in other.missing]


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm whose node ``lab`` is this machine."""
    program = tmp_path / "bin/scontrol"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {RECORDED}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.usefixtures("scontrol")
def test_a_node_that_slurm_calls_otherwise_is_said(tmp_path: Path) -> None:
    """Slurm itself is asked: silence would look like an idle node."""
    root = tmp_path / "node"
    for cpu in range(8):
        write_cpu(root, cpu)
    silent = pinproof("claims", "--slurm", "--root", root, "--json")
    assert (silent.exit_code, json.loads(silent.stdout)["claims"]) == (0, [])
    assert "jobs" in {part["part"] for part in json.loads(silent.stdout)["missing"]}
    named = pinproof("claims", "--slurm", "lab@", "--root", root, "--json")
    document = json.loads(named.stdout)
    assert {claim["name"] for claim in document["claims"]} == {"job-3", "job-4"}
    assert "jobs" not in {part["part"] for part in document["missing"]}


@pytest.mark.usefixtures("scontrol")
def test_a_watch_that_finds_no_job_says_why() -> None:
    """What cannot be read is said before it ends."""
    lines: list[str] = []
    with pytest.raises(InputError):
        FollowedTool(BY_NAME["slurm"], None, Places(), lines.append).read()
    assert any(line.startswith("not read: jobs: ") for line in lines)


@pytest.mark.parametrize("value", ["a[1@", "@", "@job", "./lab@"], ids=["a-list", "nothing", "no-name", "a-path"])
def test_a_name_that_is_none_is_refused(value: str) -> None:
    """A list of nodes is no node: what is no name before an ``@`` is a path."""
    ended = pinproof("claims", "--slurm", value)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(f"pinproof: {value.removeprefix('./')}: ")


def test_a_name_is_for_slurm_alone() -> None:
    """A file of another tool may have an ``@`` in its name."""
    ended = pinproof("claims", "--docker", "lab@job")
    assert (ended.exit_code, ended.stderr.startswith("pinproof: lab@job: ")) == (2, True)


@pytest.mark.parametrize("node", ["lab", "vm"])
def test_jobs_with_a_cgroup_here_and_no_claim_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    """Job 1 is over by Slurm's word, job 9 it does not know; jobs 3 and 4 run on node lab."""
    for cpu in range(8):
        write_cpu(tmp_path, cpu)
    there = tuple((job, f"/system.slice/lab_slurmstepd.scope/job_{job}") for job in (1, 3, 4, 9))
    monkeypatch.setattr(slurm, "cgroups", lambda _places: iter(there))
    reading = read(RECORDED, Places(root=tmp_path), node)
    named = {part.part for part in reading.missing if part.part.startswith("job-")}
    assert named == ({"job-1", "job-9"} if node == "lab" else {"job-1", "job-3", "job-4", "job-9"})


def write_cpu(root: Path, cpu: int) -> None:
    """Cores of two threads each, numbered one after the other, in one socket."""
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    folder.mkdir(parents=True)
    pair = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
    values = {"core_id": cpu // 2, "physical_package_id": 0, "thread_siblings_list": pair, "core_cpus_list": pair}
    for name, value in (values | {"package_cpus_list": "0-7", "core_siblings_list": "0-7"}).items():
        (folder / name).write_text(f"{value}\n")
    for name in ("online", "present", "possible"):
        (root / f"sys/devices/system/cpu/{name}").write_text("0-7\n")
