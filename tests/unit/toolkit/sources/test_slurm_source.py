"""``claims --slurm``: jobs of ``scontrol show job -d`` become claims with the kernel's CPU numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from toolkit.errors import InputError
from toolkit.model.topology import Cpu, Topology
from toolkit.sources.hostlist import names_host
from toolkit.sources.slurm import jobs, slurm_order


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


@pytest.mark.parametrize("text", ["\x1b[31m", "JobId=x JobName=y\n", "slurm_load_jobs error: Unable to contact", "{}"])
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
