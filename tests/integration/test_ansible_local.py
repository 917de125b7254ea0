"""The roles over a local connection: this machine is the node, and is afterwards as it was before."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.ansible_runs import Play, frozen_project, play, ready_wheels

pytestmark = pytest.mark.beside


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files."""
    return tmp_path_factory.mktemp("ansible-home")


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One node: this machine."""
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    path.write_text(
        "pinproof_nodes:\n  hosts:\n    here:\n      ansible_connection: local\n"
        "      ansible_python_interpreter: /usr/bin/python3\n"
        f"      pinproof_install_controller_python: {sys.executable}\n"
    )
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that nobody edits meanwhile."""
    return frozen_project(tmp_path_factory)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its wheelhouse, made beforehand, so that only one test needs the role to build one."""
    return ready_wheels(tmp_path_factory)


def install_variables(place: Path, **more: object) -> str:
    """Variables that keep the installation inside a test's own folder."""
    return json.dumps(
        {"pinproof_install_dir": str(place / "node"), "pinproof_install_link": str(place / "pinproof"), **more}
    )


def run_variables(place: Path, command: Path, **more: object) -> str:
    """Variables that keep a job's folders inside a test's own folder."""
    return json.dumps(
        {
            "pinproof_run_command": str(command),
            "pinproof_run_work_dir": str(place / "work"),
            "pinproof_run_fetch_dir": str(place / "fetched"),
            **more,
        }
    )


def interrupt(node: Path) -> None:
    """Leave what an installation leaves that was interrupted while pip ran: the manifest, written last, is missing."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", node / "venv"], check=True)
    (node / ".pinproof-node").touch()
    (node / "wheels.tar").write_bytes(b"half")
    (node / "wheels").mkdir()
    (node / "wheels/pinproof-0.0.1-py3-none-any.whl").write_bytes(b"old")


def test_install_twice_and_away_again(inventory: Path, home: Path, project: Path, wheels: Path, tmp_path: Path) -> None:
    """check changes nothing, the first run installs the checkout, the second changes nothing, absent removes all.

    The first run finds what an interruption left and does it again. (A node that has nothing: the tests of the fleet.)
    It lets the role build the wheels, and the second is given others, built apart from the same sources: they are the
    same bytes, so nothing is installed again.
    """
    ready = [install_variables(tmp_path, pinproof_install_wheelhouse=str(wheels))]
    node = tmp_path / "node"

    check = play("install.yml", inventory, home, "--check", variables=ready)
    assert check.code == 0, check.text
    assert check.changed()["here"] > 0
    assert not node.exists()

    interrupt(node)
    built = [install_variables(tmp_path, pinproof_install_project=str(project))]
    first = play("install.yml", inventory, home, variables=built)
    assert first.code == 0, first.text
    assert list((home / "tmpdir").iterdir()) == []
    assert first.changed()["here"] > 0
    command = node / "venv/bin/pinproof"
    assert (tmp_path / "pinproof").resolve() == command.resolve()
    version = subprocess.run([command, "--version"], cwd="/", capture_output=True, text=True, check=True)
    assert version.stdout.startswith("pinproof")
    manifest = json.loads((node / "manifest.json").read_text())
    assert any(name.startswith("pinproof-") for name in manifest["wheels"])
    # What the node holds is what is written down: nothing is left of the interrupted installation.
    assert {path.name for path in (node / "wheels").iterdir()} == set(manifest["wheels"])
    assert {path.name for path in node.iterdir()} == {".pinproof-node", "manifest.json", "venv", "wheels"}

    for arguments in ([], ["--check"]):
        again = play("install.yml", inventory, home, *arguments, variables=ready)
        assert again.code == 0, again.text
        assert again.changed() == {"here": 0}, again.text

    announced = play("install.yml", inventory, home, "--check", variables=[*ready, "pinproof_state=absent"])
    assert announced.code == 0, announced.text
    assert announced.changed()["here"] > 0
    assert command.exists()

    away = play("install.yml", inventory, home, variables=[*ready, "pinproof_state=absent"])
    assert away.code == 0, away.text
    assert not node.exists()
    assert not (tmp_path / "pinproof").is_symlink()

    nothing = play("install.yml", inventory, home, variables=[*ready, "pinproof_state=absent"])
    assert nothing.changed() == {"here": 0}, nothing.text


def test_a_foreign_folder_is_not_removed(inventory: Path, home: Path, tmp_path: Path) -> None:
    """absent refuses a folder that the role did not make, and says so."""
    precious = tmp_path / "node/precious"
    precious.parent.mkdir()
    precious.write_text("mine")

    refused = play("install.yml", inventory, home, variables=[install_variables(tmp_path), "pinproof_state=absent"])

    assert refused.code != 0
    assert refused.says("was not made by this role")
    assert precious.read_text() == "mine"


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ('{"pinproof_install_dir": "/opt"}', "at least two levels deep"),
        ('{"pinproof_install_state": "gone"}', "must be one of"),
        ('{"pinproof_install_wheelhouse": "/nonexistent"}', "expected exactly one"),
        ('{"pinproof_install_python": "/nonexistent/python3"}', "/nonexistent/python3"),
        ('{"pinproof_install_project": "/nonexistent/checkout"}', "/nonexistent/checkout"),
    ],
    ids=["folder", "state", "wheelhouse", "python", "project"],
)
def test_install_refuses(inventory: Path, home: Path, tmp_path: Path, variable: str, expected: str) -> None:
    """A wrong variable ends the play before anything is made, and the message names what was expected."""
    refused = play("install.yml", inventory, home, variables=[install_variables(tmp_path), variable])

    assert refused.code != 0
    assert refused.says(expected)
    assert not (tmp_path / "node").exists()
    assert list((home / "tmpdir").iterdir()) == []


def ended_with(folder: Path, body: str) -> Path:
    """A program that ends the way a job can end; what is under test is what the role makes of it."""
    path = folder / "job"
    path.write_text(f'#!/bin/sh\n[ "$1" = cleanup ] && {{ echo cleaned >>{folder}/cleanups; exit 0; }}\n{body}\n')
    path.chmod(0o755)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a job ends, and what the role is to make of it."""

    body: str
    outcome: str
    fails: bool = True
    variables: dict[str, object] = field(default_factory=dict)


ENDINGS = {
    "passes": Ending(body="exit 0", outcome="passed", fails=False),
    "fails": Ending(body="echo 'db ran on CPU 7' >&2; exit 1", outcome="failed"),
    "misused": Ending(body="exit 2", outcome="usage-error"),
    "undecided": Ending(body="exit 3", outcome="undecided"),
    "unsupported": Ending(body="echo 'pinproof: no bpf()' >&2; exit 4", outcome="unsupported"),
    "killed": Ending(body="kill -KILL $$", outcome="died"),
    "hangs": Ending(body="exec sleep 300", outcome="timed-out", variables={"pinproof_run_timeout_s": 1}),
    "undecided-allowed": Ending(
        body="exit 3", outcome="undecided", fails=False, variables={"pinproof_run_undecided_fails": False}
    ),
    "unsupported-allowed": Ending(
        body="exit 4", outcome="unsupported", fails=False, variables={"pinproof_run_unsupported_fails": False}
    ),
}


@pytest.fixture(scope="module")
def endings(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Play, Path]:
    """One play over as many nodes as there are endings; all of them are this machine."""
    place = tmp_path_factory.mktemp("endings")
    hosts = {}
    for name, ending in ENDINGS.items():
        (place / name).mkdir()
        hosts[name] = {
            "pinproof_run_command": str(ended_with(place / name, ending.body)),
            "pinproof_run_work_dir": str(place / name / "work"),
            **ending.variables,
        }
    everyone = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "/usr/bin/python3",
        "pinproof_run_fetch_dir": str(place / "fetched"),
    }
    inventory = place / "hosts.json"
    inventory.write_text(json.dumps({"pinproof_nodes": {"hosts": hosts, "vars": everyone}}))
    return play("conformance.yml", inventory, home), place


@pytest.mark.parametrize("name", ENDINGS)
def test_each_ending_is_reported_as_what_it_is(endings: tuple[Play, Path], name: str) -> None:
    """Every ending has its own word in the output and in outcome.json, and fails its node or not."""
    done, place = endings
    ending = ENDINGS[name]

    assert done.code != 0
    assert done.recap[name]["failed"] == int(ending.fails), done.text
    assert done.says(f"{name}: {ending.outcome.upper()}")
    (written,) = (place / "fetched" / name).glob("*/outcome.json")
    assert json.loads(written.read_text())["outcome"] == ending.outcome
    assert (place / name / "cleanups").exists() == (ending.outcome in {"died", "timed-out"})
    assert list((place / name / "work").iterdir()) == []


def test_the_reason_is_shown(endings: tuple[Play, Path]) -> None:
    """What the job said on stderr is in the failure message, and where the evidence lies."""
    done, place = endings

    assert done.says("db ran on CPU 7")
    assert done.says(f"Evidence: {place}/fetched/fails/conformance-")


def test_check_mode_runs_no_job(inventory: Path, home: Path, tmp_path: Path) -> None:
    """--check names the command, runs nothing, makes nothing and changes nothing."""
    job = ended_with(tmp_path, f"touch {tmp_path}/ran")

    done = play("conformance.yml", inventory, home, "--check", variables=[run_variables(tmp_path, job)])

    assert done.code == 0, done.text
    assert done.says(f"would run on here: {job} conformance")
    assert done.changed() == {"here": 0}
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "work").exists()


def test_a_check_without_claims_is_refused(inventory: Path, home: Path, tmp_path: Path) -> None:
    """A check with no claims file would prove nothing: the play says so and runs nothing."""
    job = ended_with(tmp_path, f"touch {tmp_path}/ran")

    done = play("check.yml", inventory, home, variables=[run_variables(tmp_path, job)])

    assert done.code != 0
    assert done.says("a check judges what it promises")
    assert not (tmp_path / "ran").exists()


def test_collect_brings_what_was_left(inventory: Path, home: Path, tmp_path: Path) -> None:
    """Run directories that stayed on the node come to the controller, byte for byte."""
    job = ended_with(tmp_path, "mkdir -p runs/r1 && printf 'evidence' >runs/r1/evidence.json")
    kept = play(
        "conformance.yml", inventory, home, variables=[run_variables(tmp_path, job, pinproof_run_keep_on_node=True)]
    )
    assert kept.code == 0, kept.text
    later = run_variables(tmp_path, job, pinproof_run_fetch_dir=str(tmp_path / "later"))

    done = play("collect.yml", inventory, home, variables=[later])

    assert done.code == 0, done.text
    (evidence,) = (tmp_path / "later").glob("here/conformance-*/runs/r1/evidence.json")
    assert evidence.read_text() == "evidence"
