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
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.ansible_runs import Play, controller, play
from tests.integration.working_cgroup import spinner, write_claim

pytestmark = [pytest.mark.integration, pytest.mark.beside]

CODES = {"passed": 0, "failed": 1, "undecided": 3}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files."""
    return controller(tmp_path_factory.mktemp("home"))


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


def test_the_fleets_answer_is_of_the_same_words(checked: tuple[Play, Path]) -> None:
    """`pinproof fleet` over what the play brought home: each host as its record says, also when judged again."""
    done, place = checked
    hosts = [*done.recap, "absent"]
    said = {
        host: json.loads((place / "results" / host / "record.json").read_text())["outcome"] for host in done.recap
    } | {"absent": "never"}
    command = [
        str(Path(sys.executable).parent / "pinproof"),
        "fleet",
        str(place / "results"),
        "--expect",
        ",".join(hosts),
    ]
    for more in ([], ["--judge", "--cache", str(place / "cache")]):
        answered = subprocess.run([*command, "--json", *more], capture_output=True, text=True, check=False)
        answer = json.loads(answered.stdout)
        assert {row["host"]: row["outcome"] for row in answer["nodes"]} == said, answered.stdout
        assert answered.returncode == (1 if "failed" in said.values() else 3), answered.stderr
        # All of them are this machine, which the answer says.
        assert len(done.recap) < 2 or "one machine id" in answer["twice"][0]["text"]


def test_conformance_of_this_machine(home: Path, tmp_path: Path) -> None:
    """A conformance job ends with the outcome of its scenario; JUnit and run directories are on the controller."""
    hosts = inventory(tmp_path, {"here": {}}, pinproof_run_select="qos-best-effort")

    done = play("conformance", hosts, home)

    folder, outcome = conclusion(tmp_path, done, "here")
    assert outcome in {"passed", "undecided"}, done.text
    assert "qos-best-effort" in (folder / "junit.xml").read_text()
    assert "qos-best-effort" in (folder / "report.html").read_text()
    assert list(folder.glob("runs/*/session.json"))
