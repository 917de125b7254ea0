"""The roles over a local connection: this machine is the node, and is afterwards as it was before."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.ansible_runs import Play, play

pytestmark = pytest.mark.idle


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files."""
    return tmp_path_factory.mktemp("ansible-home")


def inventory(place: Path, hosts: Mapping[str, Mapping[str, object]], **variables: object) -> Path:
    """Nodes that are all this machine; what is made on each is in a folder with its name."""
    everyone = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "/usr/bin/python3",
        "pinproof_install_controller_python": sys.executable,
        "pinproof_install_dir": f"{place}/{{{{ inventory_hostname }}}}/node",
        "pinproof_install_link": f"{place}/{{{{ inventory_hostname }}}}/pinproof",
        "pinproof_run_work_dir": f"{place}/{{{{ inventory_hostname }}}}/work",
        "pinproof_run_fetch_dir": f"{place}/fetched",
        **variables,
    }
    path = place / "hosts.json"
    path.write_text(json.dumps({"pinproof_nodes": {"hosts": hosts, "vars": everyone}}))
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A variable that is refused, and what the message names."""

    variables: dict[str, str]
    says: str


REFUSALS = {
    "folder": Refusal(variables={"pinproof_install_dir": "/opt"}, says="at least two levels deep"),
    "state": Refusal(variables={"pinproof_install_state": "gone"}, says="must be one of"),
    "wheelhouse": Refusal(variables={"pinproof_install_wheelhouse": "/nonexistent"}, says="expected exactly one"),
    "python": Refusal(variables={"pinproof_install_python": "/nonexistent/python3"}, says="/nonexistent/python3"),
    "foreign": Refusal(variables={"pinproof_install_state": "absent"}, says="was not made by this role"),
}


@pytest.fixture(scope="module")
def refused(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Play, Path]:
    """One play over as many nodes as there are refusals, and one that has nothing that could be taken away."""
    place = tmp_path_factory.mktemp("refused")
    (place / "foreign/node").mkdir(parents=True)
    (place / "foreign/node/precious").write_text("mine")
    hosts = {name: refusal.variables for name, refusal in REFUSALS.items()}
    nodes = inventory(place, {**hosts, "nothing": {"pinproof_install_state": "absent"}})
    return play("install.yml", nodes, home), place


@pytest.mark.parametrize("name", REFUSALS)
def test_install_refuses(refused: tuple[Play, Path], home: Path, name: str) -> None:
    """A wrong variable fails its node before anything is made, and the message names what was expected."""
    done, place = refused

    assert done.code != 0
    assert done.recap[name]["failed"] == 1
    assert REFUSALS[name].says in done.ended(name)
    assert [path.relative_to(place) for path in place.glob(f"{name}/*/*")] == (
        [Path("foreign/node/precious")] if name == "foreign" else []
    )
    assert list((home / "tmpdir").iterdir()) == []


def test_a_foreign_folder_is_not_removed(refused: tuple[Play, Path]) -> None:
    """absent refuses a folder that the role did not make, and leaves what is in it."""
    _, place = refused

    assert (place / "foreign/node/precious").read_text() == "mine"


def test_nothing_to_take_away(refused: tuple[Play, Path]) -> None:
    """absent changes nothing on a node that has nothing, beside whatever nodes."""
    done, _ = refused

    assert (done.recap["nothing"]["failed"], done.changed()["nothing"]) == (0, 0), done.text


def test_wheels_that_cannot_be_built(home: Path, tmp_path: Path) -> None:
    """A checkout that is not there ends the play before anything is made; nothing is left on the controller."""
    nodes = inventory(tmp_path, {"here": {}}, pinproof_install_project="/nonexistent/checkout")

    done = play("install.yml", nodes, home)

    assert done.code != 0
    assert "/nonexistent/checkout" in done.ended("here")
    assert not (tmp_path / "here").exists()
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
    "passes": Ending(
        body="echo first; echo; echo last; mkdir -p runs/r1 && printf 'evidence' >runs/r1/evidence.json",
        outcome="passed",
        fails=False,
        variables={"pinproof_run_keep_on_node": True},
    ),
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
    """One play over as many nodes as there are endings."""
    place = tmp_path_factory.mktemp("endings")
    hosts = {}
    for name, ending in ENDINGS.items():
        (place / name).mkdir()
        hosts[name] = {"pinproof_run_command": str(ended_with(place / name, ending.body)), **ending.variables}
    return play("conformance.yml", inventory(place, hosts), home), place


@pytest.mark.parametrize("name", ENDINGS)
def test_each_ending_is_reported_as_what_it_is(endings: tuple[Play, Path], name: str) -> None:
    """Every ending has its own word in the output and in outcome.json, and fails its node or not.

    The job's folder stays on the node if that was asked for; else nothing stays.
    """
    done, place = endings
    ending = ENDINGS[name]

    assert done.code != 0
    assert done.recap[name]["failed"] == int(ending.fails), done.text
    assert done.says(f"{name}: {ending.outcome.upper()}")
    (written,) = (place / "fetched" / name).glob("*/outcome.json")
    assert json.loads(written.read_text())["outcome"] == ending.outcome
    assert (place / name / "cleanups").exists() == (ending.outcome in {"died", "timed-out"})
    kept = [written.parent.name] if "pinproof_run_keep_on_node" in ending.variables else []
    assert [path.name for path in (place / name / "work").iterdir()] == kept


def test_the_reason_is_shown(endings: tuple[Play, Path]) -> None:
    """What the job said on stderr is in the failure message, and where the evidence lies."""
    done, place = endings

    assert done.says("db ran on CPU 7")
    assert done.says(f"Evidence: {place}/fetched/fails/conformance-")


def test_collect_brings_what_was_left(endings: tuple[Play, Path], home: Path, tmp_path: Path) -> None:
    """Run directories that stayed on the node come to the controller, byte for byte, and how the job ended."""
    _, place = endings
    nodes = inventory(place, {"passes": {}}, pinproof_run_fetch_dir=str(tmp_path))

    done = play("collect.yml", nodes, home)

    assert done.code == 0, done.text
    (evidence,) = tmp_path.glob("passes/conformance-*/runs/r1/evidence.json")
    assert evidence.read_text() == "evidence"
    for name in ("outcome.json", "output.txt"):
        (first,) = (place / "fetched/passes").glob(f"*/{name}")
        (later,) = tmp_path.glob(f"passes/*/{name}")
        assert later.read_bytes() == first.read_bytes() != b""


def test_what_a_job_says_is_kept(endings: tuple[Play, Path]) -> None:
    """output.txt has what the job said, and nothing else: its output, then its (empty) standard error."""
    _, place = endings

    (said,) = (place / "fetched/passes").glob("*/output.txt")
    assert said.read_text() == "first\n\nlast\n\n"


def test_check_mode_runs_no_job(home: Path, tmp_path: Path) -> None:
    """--check names the command, runs nothing, makes nothing and changes nothing."""
    job = ended_with(tmp_path, f"touch {tmp_path}/ran")
    nodes = inventory(tmp_path, {"here": {}}, pinproof_run_command=str(job))

    done = play("conformance.yml", nodes, home, "--check")

    assert done.code == 0, done.text
    assert done.says(f"would run on here: {job} conformance")
    assert done.changed() == {"here": 0}
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "here").exists()
