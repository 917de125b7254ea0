"""Real jobs through the role, over a local connection: the real command, real cgroups, the real kernel.

What a job concludes on a busy machine may be `undecided`; what is under test is that the play says exactly what the job
concluded, that the evidence on the controller gives the same verdict again, and that a broken claim fails the play.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.integration.ansible_runs import Play, controller, play
from toolkit.host import cgroupfs

pytestmark = [pytest.mark.integration, pytest.mark.beside]

BURSTS = """
import sys, time
sys.stdin.read()
while True:
    until = time.perf_counter() + 0.002
    while time.perf_counter() < until:
        pass
    time.sleep(0.008)
"""
CODES = {"passed": 0, "failed": 1, "undecided": 3}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files."""
    return controller(tmp_path_factory.mktemp("home"))


def wait_until(condition: object, what: str) -> None:
    """Wait for a condition with a deadline."""
    assert callable(condition)
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        time.sleep(0.02)  # between two looks at a condition


@contextmanager
def directory(path: Path) -> Iterator[Path]:
    """A cgroup directory that is gone afterwards."""
    path.mkdir()
    try:
        yield path
    finally:
        wait_until(lambda: not (path / "cgroup.procs").read_text().strip(), f"{path} is empty")
        path.rmdir()


@contextmanager
def cpuset_controller(root: Path) -> Iterator[None]:
    """The cpuset controller below a v2 root, as it was before afterwards."""
    control = root / "cgroup.subtree_control"
    had = "cpuset" in control.read_text().split()
    if not had:
        control.write_text("+cpuset")
    try:
        yield
    finally:
        if not had:
            control.write_text("-cpuset")


@contextmanager
def spinner() -> Iterator[str]:
    """A cgroup of somebody else's making with one task on the first allowed CPU, which works now and then; its path.

    A hundred bursts a second are as much of a life as one that never ends, and leave the CPU to the play and its jobs.
    """
    name = f"pinproof-ansible-{os.getpid()}"
    hierarchy = cgroupfs.detect()
    cpu = min(os.sched_getaffinity(0))
    with ExitStack() as stack:
        identity = cgroupfs.identity_dir(hierarchy, f"/{name}")
        legacy = dict(hierarchy.legacy).get("cpuset")
        if legacy is None:
            stack.enter_context(cpuset_controller(hierarchy.unified or Path("/sys/fs/cgroup")))
        places = [stack.enter_context(directory(identity))]
        if legacy is not None:
            places.append(stack.enter_context(directory(legacy / name)))
        (places[-1] / "cpuset.cpus").write_text(str(cpu))
        (places[-1] / "cpuset.mems").write_text("0")
        # It spins only once it stands where the claim says.
        task = subprocess.Popen([sys.executable, "-ISc", BURSTS], stdin=subprocess.PIPE)
        stack.callback(task.wait)
        stack.callback(task.kill)
        for place in reversed(places):
            (place / "cgroup.procs").write_text(str(task.pid))
        assert task.stdin is not None
        task.stdin.write(b"\n")
        task.stdin.close()
        yield f"/{name}"


def inventory(place: Path, hosts: Mapping[str, Mapping[str, object]], **variables: object) -> Path:
    """Nodes that are all this machine, with the command of the environment that runs the tests."""
    everyone = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "/usr/bin/python3",
        "pinproof_run_command": str(Path(sys.executable).parent / "pinproof"),
        "pinproof_run_work_dir": str(place / "work") + "/{{ inventory_hostname }}",
        "pinproof_run_results": str(place / "results"),
        "pinproof_run_source": "claims",
        "pinproof_run_fleet": False,
        **variables,
    }
    path = place / "hosts.json"
    path.write_text(json.dumps({"pinproof_nodes": {"hosts": hosts, "vars": everyone}}))
    return path


def conclusion(place: Path, done: Play, host: str) -> tuple[Path, str]:
    """The job's folder on the controller and the outcome that the play reported; both must say the same."""
    written = json.loads((place / "results" / host / "record.json").read_text())
    (folder,) = (path for path in (place / "results" / host).iterdir() if path.is_dir())
    assert done.says(f"{host}: {written['outcome'].upper()}")
    assert CODES.get(written["outcome"]) == written["exit_code"], (folder / "output.txt").read_text()
    assert (done.recap[host]["failed"] == 0) == (written["outcome"] == "passed")
    assert (done.code == 0) == all(counters["failed"] == 0 for counters in done.recap.values())
    return folder, written["outcome"]


def write_claim(place: Path, name: str, cgroup: str, cpu: int) -> Path:
    """A claims file with one claim about one CPU."""
    path = place / f"{name}.yaml"
    path.write_text(
        "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
        f'  - {{name: db, cgroup: {cgroup}, cpus: "{cpu}", isolation: host}}\n'
    )
    return path


@pytest.fixture(scope="module")
def checked(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Play, Path]:
    """One play with two jobs at once, each on a node: a claim that is kept and, with a second CPU, one that is not."""
    place = tmp_path_factory.mktemp("checked")
    mine = min(os.sched_getaffinity(0))
    others = sorted(os.sched_getaffinity(0) - {mine})
    cpus = {"kept": mine} | ({"broken": others[0]} if others else {})
    with spinner() as cgroup:
        hosts = {
            name: {"pinproof_run_claims": str(write_claim(place, name, cgroup, cpu))} for name, cpu in cpus.items()
        }
        return play("check", inventory(place, hosts, pinproof_run_duration_s=1.5), home), place


@pytest.mark.parametrize(("name", "outcomes"), [("kept", {"passed", "undecided"}), ("broken", {"failed"})])
def test_check_judges_a_cgroup_that_exists(checked: tuple[Play, Path], name: str, outcomes: set[str]) -> None:
    """A kept claim is never `failed`; a broken one fails its node; the fetched run gives the same verdict again."""
    done, place = checked
    if name not in done.recap:
        pytest.skip("needs a second CPU to make a false claim about")

    folder, outcome = conclusion(place, done, name)
    assert outcome in outcomes, done.text
    (run,) = (folder / "runs").iterdir()
    again = subprocess.run(
        [Path(sys.executable).parent / "pinproof", "judge", run], capture_output=True, text=True, check=False
    )
    assert again.returncode == CODES[outcome], again.stdout + again.stderr
    record = json.loads((place / "results" / name / "record.json").read_text())
    result = place / "results" / name / record["path"]
    assert result.parent == run
    assert record["sha256"] == hashlib.sha256(result.read_bytes()).hexdigest()
    if outcome == "failed":
        assert "of db: " in record["cause"]
    assert list((place / "work" / name).iterdir()) == []


def test_conformance_of_this_machine(home: Path, tmp_path: Path) -> None:
    """A conformance job ends with the outcome of its scenario; JUnit and run directories are on the controller."""
    hosts = inventory(tmp_path, {"here": {}}, pinproof_run_select="qos-best-effort")

    done = play("conformance", hosts, home)

    folder, outcome = conclusion(tmp_path, done, "here")
    assert outcome in {"passed", "undecided"}, done.text
    assert "qos-best-effort" in (folder / "junit.xml").read_text()
    assert list(folder.glob("runs/*/result.json"))
