"""The roles over ssh, on two nodes made of namespaces: mechanics, evidence, and what one bad node does to the others.

The tests are one story: nothing there, installed, judged, taken away; each can begin it by itself.

The nodes share one kernel, so real jobs that load it run over the local connection instead (`test_ansible_jobs.py`).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.ansible_fleet import Fleet
from tests.integration.ansible_runs import Play, build_wheel, copy_project, play

pytestmark = pytest.mark.idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node has its installation, and the link to its command; both absolute."""

    folder: str
    link: str


PLACES = {
    "node1": Place(folder="/opt/pinproof", link="/usr/local/bin/pinproof"),
    "node2": Place(folder="/srv/pinproof/of/node2", link="/usr/local/bin/pinproof-here"),
}
"""The first node has the defaults."""
VARIABLES: dict[str, dict[str, object]] = {
    "node1": {},
    "node2": {"pinproof_install_dir": PLACES["node2"].folder, "pinproof_install_link": PLACES["node2"].link},
}


def host_state(own: Path, temporary: Path) -> tuple[str, list[str], bool]:
    """What a fleet could leave on this machine: links, mounts, an installation.

    Other tests run beside this one, and mount what they do below the folder of all tests, or of all of another runner.
    """
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    names = "\n".join(line.split(":")[1] for line in links.splitlines())
    lines = Path("/proc/self/mounts").read_text().splitlines()
    others = (f" {temporary}/", f" {tempfile.gettempdir()}/pytest-of-")
    mounts = [line for line in lines if f" {own}/" in line or not any(other in line for other in others)]
    return names, mounts, Path("/opt/pinproof").exists()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two nodes; afterwards this machine has the links, mounts and folders that it had before."""
    places = tmp_path_factory.mktemp("fleet"), tmp_path_factory.getbasetemp().parent
    before = host_state(*places)
    with Fleet(places[0]) as nodes:
        yield nodes
    assert host_state(*places) == before


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files."""
    return tmp_path_factory.mktemp("home")


def interrupt(node: Path) -> None:
    """Leave what an installation leaves that was interrupted while pip ran: the manifest, written last, is missing."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", node / "venv"], check=True)
    (node / ".pinproof-node").touch()
    (node / "wheels.tar").write_bytes(b"half")
    (node / "wheels").mkdir()
    (node / "wheels/pinproof-0.0.1-py3-none-any.whl").write_bytes(b"old")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that nobody edits meanwhile."""
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def installed(fleet: Fleet, home: Path, project: Path) -> Play:
    """The play that installed pinproof, from wheels that it built: one node has half of it, the other has nothing."""
    interrupt(there(fleet, "node1", PLACES["node1"].folder))
    builds = {
        "pinproof_install_project": str(project),
        "pinproof_install_controller_python": str(fleet.python_outside()),
    }
    return install(fleet, home, **builds)


@pytest.fixture(scope="module")
def wheels(fleet: Fleet, installed: Play, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheelhouse with pinproof's wheel, built apart from the same sources, and with all other wheels of a node."""
    folder = tmp_path_factory.mktemp("wheels")
    for wheel in there(fleet, "node1", PLACES["node1"].folder).glob("wheels/*.whl"):
        if not wheel.name.startswith("pinproof-"):
            shutil.copy(wheel, folder)
    build_wheel(project, folder)
    return folder


def install(fleet: Fleet, home: Path, *arguments: str, inventory: Path | None = None, **variables: str) -> Play:
    """Run `install.yml` on the fleet."""
    return play(
        "install.yml",
        inventory or fleet.inventory(VARIABLES),
        home,
        *arguments,
        variables=[json.dumps(variables)],
        through=fleet.controller(),
    )


def there(fleet: Fleet, name: str, path: str) -> Path:
    """A node's path as this machine sees it."""
    return fleet.files(name) / path.removeprefix("/")


def installation(fleet: Fleet, name: str, place: Place) -> list[Path]:
    """What a node has of an installation."""
    folder, link = there(fleet, name, place.folder), there(fleet, name, place.link)
    return sorted(folder.rglob("*")) + ([link.readlink()] if link.is_symlink() else [])


def test_each_node_is_its_own_machine(fleet: Fleet) -> None:
    """The nodes have their own names and files: a write on one is seen neither on another nor here."""
    for name in fleet.names:
        assert fleet.ssh(name, "touch", f"/opt/{name}").returncode == 0
    seen = {name: fleet.ssh(name, "hostname;", "ls", "/opt").stdout.split() for name in fleet.names}

    assert {name: words[0] for name, words in seen.items()} == {name: name for name in fleet.names}
    assert all([word for word in words[1:] if word.startswith("node")] == [name] for name, words in seen.items())
    assert not any(Path("/opt", name).exists() for name in fleet.names)


def test_installed_on_every_node(fleet: Fleet, home: Path, installed: Play) -> None:
    """The command works on each node, from that node's own files; what the node holds is what is written down.

    Nothing is left of an installation that was interrupted, and of what was built on the controller.
    """
    assert installed.code == 0, installed.text
    assert all(changed > 0 for changed in installed.changed().values()), installed.text
    assert list((home / "tmpdir").iterdir()) == []
    for name, place in PLACES.items():
        answer = fleet.ssh(name, f"{place.link} --version && readlink -f {place.link}")
        assert answer.returncode == 0, answer.stderr
        version, command = answer.stdout.splitlines()
        assert version.startswith("pinproof")
        assert command == f"{place.folder}/venv/bin/pinproof"
        node = there(fleet, name, place.folder)
        manifest = json.loads((node / "manifest.json").read_text())
        assert any(wheel.startswith("pinproof-") for wheel in manifest["wheels"])
        assert {path.name for path in (node / "wheels").iterdir()} == set(manifest["wheels"])
        assert {path.name for path in node.iterdir()} == {".pinproof-node", "manifest.json", "venv", "wheels"}


def test_second_run_changes_nothing(fleet: Fleet, home: Path, wheels: Path) -> None:
    """An installed fleet stays as it is: wheels that were built apart from the same sources are the same."""
    again = install(fleet, home, pinproof_install_wheelhouse=str(wheels))

    assert again.code == 0, again.text
    assert again.changed() == dict.fromkeys(fleet.names, 0), again.text


def test_check_says_what_would_change(fleet: Fleet, home: Path, wheels: Path) -> None:
    """--check says what would be installed, what removed, and where nothing would change; it does nothing.

    One play: each of these is a name of its own for node 2.
    """
    fresh = Place(folder="/srv/fresh/node", link="/usr/local/bin/pinproof-fresh")
    names = {
        "same": VARIABLES["node2"],
        "away": {**VARIABLES["node2"], "pinproof_install_state": "absent"},
        "fresh": {"pinproof_install_dir": fresh.folder, "pinproof_install_link": fresh.link},
    }
    inventory = fleet.inventory(names, at=dict.fromkeys(names, "node2"))
    before = installation(fleet, "node2", PLACES["node2"])

    check = install(fleet, home, "--check", inventory=inventory, pinproof_install_wheelhouse=str(wheels))

    assert check.code == 0, check.text
    assert {name: changed > 0 for name, changed in check.changed().items()} == {
        "same": False,
        "away": True,
        "fresh": True,
    }
    assert check.says("would remove from away: folder, marker, command, link")
    assert check.says("would install on fresh: ")
    assert installation(fleet, "node2", PLACES["node2"]) == before
    assert installation(fleet, "node2", fresh) == []


def test_one_bad_node_fails_the_play_and_all_evidence_comes_home(
    fleet: Fleet, home: Path, installed: Play, tmp_path: Path
) -> None:
    """Node 1 passes; on node 2 the installed command refuses a pid namespace. The evidence of both is fetched.

    A check without a claims file would prove nothing: it is refused, and runs nothing.
    Every other ending, beside these and in one play: ``test_ansible_local.py``.
    """
    ends = {"node1": "exit 0", "node2": f'exec {PLACES["node2"].link} "$@"'}
    for name, end in ends.items():
        job = there(fleet, name, "/opt/job")
        job.write_text(f"#!/bin/sh\necho >>/opt/ran; mkdir -p runs/r1; hostname >runs/r1/evidence.json; {end}\n")
        job.chmod(0o755)
    claims = tmp_path / "claims.yaml"
    claims.write_text(
        "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
        '  - {name: db, cgroup: /no-such-cgroup, cpus: "0", isolation: container}\n'
    )
    variables = {
        "pinproof_run_command": "/opt/job",
        "pinproof_run_fetch_dir": str(tmp_path / "fetched"),
    }

    hosts = {name: {"pinproof_run_claims": str(claims)} for name in fleet.names} | {"forgotten": {}}
    inventory = fleet.inventory(hosts, at={"forgotten": "node1"})

    done = play("check.yml", inventory, home, variables=[json.dumps(variables)], through=fleet.controller())

    assert done.code != 0
    assert {name: counters["failed"] for name, counters in done.recap.items()} == {
        "node1": 0,
        "node2": 1,
        "forgotten": 1,
    }
    assert "a check judges what it promises" in done.ended("forgotten")
    assert there(fleet, "node1", "/opt/ran").read_text() == "\n"
    assert done.says("node2: UNSUPPORTED (exit code 4)")
    assert done.says("pid namespace")
    for name, code, outcome in (("node1", 0, "passed"), ("node2", 4, "unsupported")):
        (folder,) = (tmp_path / "fetched" / name).glob("check-*")
        written = json.loads((folder / "outcome.json").read_text())
        assert (written["exit_code"], written["outcome"]) == (code, outcome)
        assert (folder / "runs/r1/evidence.json").read_text().strip() == name
        assert (folder / "claims.yaml").read_text() == claims.read_text()


def test_absent_clears_the_nodes_that_are_reached(fleet: Fleet, home: Path, installed: Play) -> None:
    """A dead node is reported as unreachable; the others are cleared."""
    inventory = fleet.inventory({**VARIABLES, "dead": {}})

    done = install(fleet, home, inventory=inventory, pinproof_state="absent")

    assert done.code != 0
    assert {name: counters["unreachable"] for name, counters in done.recap.items()} == {
        "node1": 0,
        "node2": 0,
        "dead": 1,
    }
    assert not any(installation(fleet, name, place) for name, place in PLACES.items())
    assert not any(there(fleet, name, place.folder).exists() for name, place in PLACES.items())
