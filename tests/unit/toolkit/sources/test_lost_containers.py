"""A container that runs by its engine's word and whose cgroup is not found: it is named, and costs every verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.session.followed import Node
from toolkit.sources.followed_tool import FollowedTool
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places
from toolkit.sources.registry import BY_NAME

DB, LOST = "ab" * 32, "cd" * 32
ALIVE, DEAD = 4711, 4712
MOUNT = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 none rw"


def inspected(tool: str, name: str, one: str, pid: int) -> dict[str, Any]:
    """What an engine prints of a container that runs."""
    state = {"Running": True, "Pid": pid, **({"CgroupPath": cgroup(tool, one)} if tool == "podman" else {})}
    return {"Id": one, "Name": name, "State": state, "OCIRuntime": "runc", "HostConfig": {"CpusetCpus": "0"}}


def cgroup(tool: str, one: str) -> str:
    return f"/system.slice/docker-{one}.scope" if tool == "docker" else f"/machine.slice/libpod-{one}.scope"


class Machine:
    """A machine below a folder, with the cgroup of ``db``, and one process that is in no container's cgroup."""

    def __init__(self, root: Path, tool: str) -> None:
        self.root, self.tool, self.file = root, tool, root / "inspected"
        self.lines: list[str] = []
        for name, text in (("self/mountinfo", MOUNT), (f"{ALIVE}/cgroup", "0::/elsewhere\n")):
            (root / "proc" / name).parent.mkdir(parents=True)
            (root / "proc" / name).write_text(text)
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu memory\n")
        self.make(DB)
        self.source = FollowedTool(BY_NAME[tool], self.file, Places(root=root), self.lines.append)

    def make(self, one: str) -> Path:
        path = self.root / "sys/fs/cgroup" / cgroup(self.tool, one).strip("/")
        path.mkdir(parents=True)
        return path

    def read(self, **pids: int) -> SourceReading:
        ids = {"db": DB, "lost": LOST}
        self.file.write_text(json.dumps([inspected(self.tool, name, ids[name], pid) for name, pid in pids.items()]))
        return self.source.read()


@pytest.fixture(params=["docker", "podman"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def watched(reading: SourceReading) -> list[str]:
    return [claim.name for claim in reading.claims.claims]


def left_out(reading: SourceReading) -> dict[str, str]:
    return {part.part: part.reason for part in reading.left_out}


@pytest.mark.parametrize("pid", [ALIVE, 0])
def test_one_that_runs_and_is_not_found_is_left_out_and_named(machine: Machine, pid: int) -> None:
    """With a process that is elsewhere, or none that is known; from the first reading on, until it is found."""
    first = machine.read(db=0, lost=pid)
    again = machine.read(db=0, lost=pid)
    why = f"its cgroup was not found: {cgroup(machine.tool, LOST)} is where it should be"
    assert [(watched(one), left_out(one)) for one in (first, again)] == [(["db"], {"lost": why})] * 2
    assert machine.lines == []  # the follower says it
    machine.make(LOST)
    found = machine.read(db=0, lost=pid)
    assert (watched(found), left_out(found)) == (["db", "lost"], {})


def test_one_that_has_ended_is_no_loss(machine: Machine) -> None:
    """Its process is gone before the first look, or its cgroup is gone that was there: a file says it for ever."""
    assert left_out(machine.read(db=0, lost=DEAD)) == {}
    lost = machine.make(LOST)
    assert watched(machine.read(db=0, lost=ALIVE)) == ["db", "lost"]
    lost.rmdir()
    gone = machine.read(db=0, lost=ALIVE)
    assert (watched(gone), left_out(gone)) == (["db"], {})


def test_it_costs_every_verdict_of_a_watch(machine: Machine, tmp_path: Path) -> None:
    """The follower makes a blind spot of it for as long as it lasts, and says it once."""
    node = Node(tmp_path / "sys/fs/cgroup", machine.source)
    machine.read(db=0, lost=ALIVE)
    node.read()
    assert node.watched == {"db"}
    (spot,) = node.spots()
    assert spot.startswith("1 subject not watched: lost: its cgroup was not found")
    assert sum("lost" in line for line in node.lines) == 1
    machine.read(db=0)
    node.read()
    assert node.spots() == []


def test_claims_print_what_it_was_promised(machine: Machine) -> None:
    """All the same, with a line that it was not found."""
    machine.read(db=0, lost=ALIVE)
    ended = pinproof("claims", f"--{machine.tool}", machine.file, "--root", machine.root, "--json")
    rows: list[dict[str, Any]] = json.loads(ended.stdout)["claims"]
    assert {row["name"]: row["cgroup"] for row in rows}["lost"] == cgroup(machine.tool, LOST)
    assert "pinproof: not read: lost: its cgroup was not found" in ended.stderr
