"""Ten names of an inventory, each bad in its own way but one: what is said of each, and that no other waits for it.

The built collection, over ssh, with the real command wherever the way of being bad leaves it a chance. Nodes that are
to judge see this machine's processes and cgroups; the others have a PID namespace: pinproof calls that unsupported.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.ansible_fleet import Fleet
from tests.integration.ansible_runs import JOBS, Play, controller, play, records
from tests.integration.working_cgroup import spinner, write_claim

pytestmark = pytest.mark.slow

WHOLE = ("healthy", "busy", "clock", "noclaims")
NODES = (*WHOLE, "killed", "hangs", "full", "nobpf", "python")
DEADLINE_S = 120
BEHIND_S = 3 * 86400
JOB = """#!/bin/sh
[ $1 = watch ] || exec /opt/pinproof/venv/bin/pinproof "$@"
touch /opt/began
exec sleep 300
"""
"""A job that lasts, so that its node can be lost meanwhile."""
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, now);
    if (!failed && id == CLOCK_REALTIME) now->tv_sec -= BEHIND;
    return failed;
}
"""
"""The clock of a node that was never set: a namespace has none of its own, so its Python asks this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the controller is to say of a node."""

    outcomes: set[str]
    cause: str
    evidence: bool = False


TOLD = {
    "healthy": Told(outcomes={"passed", "undecided"}, cause="", evidence=True),
    "clock": Told(outcomes={"passed", "undecided"}, cause="", evidence=True),
    "unreachable": Told(outcomes={"unreachable"}, cause="ssh: connect to host 10.77.0.200 port 22: "),
    "killed": Told(outcomes={"died"}, cause="the connection was lost while the job ran"),
    "full": Told(outcomes={"no-space"}, cause="MiB are free below /var/tmp/pinproof"),
    "busy": Told(outcomes={"at-work"}, cause="this node is at work: processes in /work-"),
    "nobpf": Told(outcomes={"unsupported"}, cause="pid namespace"),
    "python": Told(
        outcomes={"unsupported"}, cause="refuses a Python older than 3.11 (the one that Ansible found here: 3.9"
    ),
    "hangs": Told(outcomes={"timed-out"}, cause="the node did not answer within the time of the task"),
    "noclaims": Told(outcomes={"usage-error"}, cause="expected a kubelet's node"),
}


def older_python() -> str:
    """An interpreter that is too old, as the one of an old distribution."""
    found = sorted((Path.home() / ".pyenv/versions").glob("3.9.*/bin/python3.9"))
    if not found:
        pytest.skip("no Python 3.9 on this machine")
    return str(found[-1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files, with the collection that has the wheels in it."""
    return controller(tmp_path_factory.mktemp("home"), pythons=".".join(map(str, sys.version_info[:2])))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The nodes, made bad where that needs no job."""
    shim = tmp_path_factory.mktemp("clock")
    (shim / "clock.c").write_text(CLOCK.replace("BEHIND", str(BEHIND_S)))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim / "clock.so", shim / "clock.c", "-ldl"], check=True)
    with Fleet(tmp_path_factory.mktemp("fleet"), names=NODES, whole=WHOLE) as nodes:
        late = nodes.files("clock") / "opt/late"
        (late.with_suffix(".so")).write_bytes((shim / "clock.so").read_bytes())
        late.write_text('#!/bin/sh\nLD_PRELOAD=/opt/late.so exec /usr/bin/python3 "$@"\n')
        late.chmod(0o755)
        for name in ("killed", "hangs"):
            job = nodes.files(name) / "opt/job"
            job.write_text(JOB)
            job.chmod(0o755)
        yield nodes


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, object]]]:
    """The ten, with their variables; work that is not theirs runs on this machine meanwhile."""
    with spinner(f"work-{time.monotonic_ns() % 10**6}") as cgroup:
        claims = write_claim(tmp_path_factory.mktemp("claims"), "kept", cgroup, 0)
        judged: dict[str, object] = {
            "pinproof_run_source": "claims",
            "pinproof_run_claims": str(claims),
            "pinproof_run_duration_s": 1.5,
        }
        yield {
            "healthy": judged,
            "clock": {**judged, "ansible_python_interpreter": "/opt/late"},
            "unreachable": {},
            "killed": {
                "pinproof_run_command": "/opt/job",
                "pinproof_run_ssh_arguments": "-o ServerAliveInterval=2 -o ServerAliveCountMax=3",
            },
            "full": {},
            "busy": {"pinproof_run_job": "conformance"},
            "nobpf": {},
            "python": {"ansible_python_interpreter": (old := older_python()), "pinproof_install_python": old},
            "hangs": {
                "pinproof_run_command": "/opt/job",
                "pinproof_run_timeout_s": 5,
                "pinproof_run_grace_s": 2,
                "pinproof_run_answer_s": 20,
            },
            "noclaims": {"pinproof_run_duration_s": 1.5},
        }


@pytest.fixture(scope="module")
def inventory(fleet: Fleet, hosts: dict[str, dict[str, object]]) -> Path:
    """The ten in a file."""
    return fleet.inventory(hosts)


@pytest.fixture(scope="module")
def installed(fleet: Fleet, home: Path, inventory: Path) -> Play:
    """The play that installed pinproof wherever it could."""
    return play("install", inventory, home, through=fleet.controller())


def test_each_node_that_can_gets_an_installation(installed: Play) -> None:
    """The dead one and the one with an old Python are red and named; all others have it."""
    bad = {name for name, counters in installed.recap.items() if counters["failed"] or counters["unreachable"]}

    assert installed.code != 0
    assert bad == {"unreachable", "python"}
    assert "pinproof needs 3.11 or newer" in installed.ended("python")


def test_a_second_installation_changes_nothing(fleet: Fleet, home: Path, inventory: Path, installed: Play) -> None:
    """On any node."""
    again = play("install", inventory, home, through=fleet.controller())

    assert set(again.changed().values()) == {0}, again.text


def test_check_mode_contacts_each_and_changes_none(
    fleet: Fleet, home: Path, inventory: Path, installed: Play, tmp_path: Path
) -> None:
    """--check names what could not be judged, writes no record, and leaves every file of every node as it was."""
    before = {name: fleet.written(name) for name in NODES}
    variables = {"pinproof_run_results": str(tmp_path / "results")}

    done = play("check", inventory, home, "--check", variables=[json.dumps(variables)], through=fleet.controller())

    bad = {name for name, counters in done.recap.items() if counters["failed"]}
    assert bad == {"unreachable", "python", "nobpf", "killed", "hangs", "full"}, done.text
    assert set(done.changed().values()) == {0}
    for name, files in before.items():
        assert set(fleet.written(name)) ^ set(files) == set(), name
    assert not (tmp_path / "results").exists()


def when_begun(fleet: Fleet, name: str, act: str) -> None:
    """Kill a node, or stop it as one that hangs, once its job has begun."""
    deadline = time.monotonic() + DEADLINE_S
    while not (fleet.files(name) / "opt/began").exists():
        assert time.monotonic() < deadline, f"no job began on {name}"
        time.sleep(0.05)  # between two looks at a condition
    if act == "kill":
        fleet.kill(name)
    else:
        # Its connections stay; what runs on it answers nothing any more.
        fleet.signal(name, signal.SIGSTOP, but="sshd")


@pytest.fixture(scope="module")
def checked(
    fleet: Fleet, home: Path, inventory: Path, installed: Play, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Play, Path]:
    """One play over the ten; two of them are lost while it runs, and one has no room from the beginning."""
    place = tmp_path_factory.mktemp("checked")
    playbook = place / "jobs.yml"
    playbook.write_text(JOBS)
    work = "/var/tmp/pinproof"
    room = f"mkdir -p {work} && mount -t tmpfs -o size=64k tmpfs {work} && cat /dev/zero >{work}/x"
    assert "No space left" in fleet.ssh("full", room).stderr
    variables = json.dumps({"pinproof_run_results": str(place / "results"), "pinproof_run_fleet": False})
    with ThreadPoolExecutor() as threads:
        acts = [threads.submit(when_begun, fleet, name, act) for name, act in (("killed", "kill"), ("hangs", "stop"))]
        done = play(playbook, inventory, home, variables=[variables], through=fleet.controller())
        lost = [str(act.exception()) for act in acts if act.exception() is not None]
    assert lost == [], done.text
    return done, place / "results"


@pytest.mark.parametrize("name", TOLD)
def test_each_is_named(checked: tuple[Play, Path], name: str) -> None:
    """By the word for its cause, in its own record and in the play; evidence came from those that judged."""
    done, place = checked
    record, told = records(place)[name], TOLD[name]

    assert record["outcome"] in told.outcomes, record
    assert told.cause in str(record["cause"])
    assert done.recap[name]["failed"] == int(record["outcome"] != "passed")
    assert f"{name}: {str(record['outcome']).upper()}" in (
        done.text if record["outcome"] == "passed" else done.ended(name)
    )
    assert (record["path"] is not None) == told.evidence
    if told.evidence:
        assert (place / name / str(record["path"])).is_file()


def test_a_wrong_clock_is_noted(checked: tuple[Play, Path]) -> None:
    """Three days behind, within the time of an answer; of the others nothing."""
    _, place = checked
    found = records(place)

    ahead = found["clock"]["clock_ahead_s"]
    assert isinstance(ahead, float)
    assert -BEHIND_S <= ahead < -BEHIND_S + DEADLINE_S
    notes = found["clock"]["notes"]
    assert isinstance(notes, list)
    assert any("behind the controller's" in str(note) for note in notes)
    assert not any("clock" in str(one["notes"]) for name, one in found.items() if name != "clock")


def test_two_hundred_names(fleet: Fleet, home: Path, tmp_path: Path) -> None:
    """Twenty names for each of ten kinds of ends, on nodes that live: every one has its record, and its own word."""
    ends = {
        "passed": "exit 0",
        "failed": "exit 1",
        "usage-error": "exit 2",
        "undecided": "exit 3",
        "unsupported": "echo 'pinproof: no bpf()' >&2; exit 4",
        "at-work": "echo 'pinproof: this node is at work: x' >&2; exit 4",
        "no-space": "echo 'pinproof: runs: No space left on device' >&2; exit 2",
        "died": "kill -KILL $$",
        "timed-out": "exec sleep 60",
    }
    nodes = [*WHOLE, "nobpf"]
    for node in nodes:
        for word, end in ends.items():
            job = fleet.files(node) / f"opt/{word}"
            job.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo 9.9 && exit\n[ $1 = cleanup ] && exit\n{end}\n")
            job.chmod(0o755)
    words = [*ends, "unreachable"]
    names = {f"h{number:03}": words[number % len(words)] for number in range(200)}
    own = {name: {"pinproof_run_command": f"/opt/{word}", "pinproof_run_timeout_s": 2} for name, word in names.items()}
    living = [name for name, word in names.items() if word != "unreachable"]
    at = {name: nodes[number % len(nodes)] for number, name in enumerate(living)}
    variables = json.dumps(
        {"pinproof_run_results": str(tmp_path), "pinproof_run_fleet": False, "pinproof_expected_nodes": 200}
    )
    began = time.monotonic()

    done = play(
        "check", fleet.inventory(own, at=at), home, variables=[variables], through=fleet.controller(), timeout_s=1800
    )

    print(f"200 names: {time.monotonic() - began:.0f} s")
    assert {name: record["outcome"] for name, record in records(tmp_path).items()} == names
    assert {name for name, counters in done.recap.items() if not counters["failed"]} == {
        name for name, word in names.items() if word == "passed"
    }
