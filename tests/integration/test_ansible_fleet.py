"""The roles over ssh, on two nodes made of namespaces: mechanics, evidence, and what one bad node does to the others.

The tests are one story: nothing there, installed, judged, taken away; each can begin it by itself.

The nodes share one kernel, so real jobs that load it run over the local connection instead (`test_ansible_jobs.py`).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest

from tests.integration.ansible_fleet import Fleet
from tests.integration.ansible_runs import Play, build_wheel, controller, copy_project, play, records
from tests.unit.toolkit.fleet.sessions_builder import measured, scenario, session
from tests.unit.toolkit.report.results_builder import CLAIMS, broken, healthy
from tests.unit.toolkit.saved_runs import save_result, save_run
from toolkit.session.index import save_session
from validators.registry import judge

pytestmark = pytest.mark.idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node has its installation, and the link to its command; both absolute."""

    folder: str
    link: str


def python(version: str) -> str | None:
    """An interpreter of that version beside the system's, for a node whose distribution has that one."""
    found = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    return str(found[-1]) if found else None


NEWER = python("3.13")
PLACES = {
    "node1": Place(folder="/opt/pinproof", link="/usr/local/bin/pinproof"),
    "node2": Place(folder="/srv/pinproof/of/node2", link="/usr/local/bin/pinproof-here"),
}
"""The first node has the defaults."""
VARIABLES: dict[str, dict[str, object]] = {
    "node1": {},
    "node2": {
        "pinproof_install_dir": PLACES["node2"].folder,
        "pinproof_install_link": PLACES["node2"].link,
        **({"pinproof_install_python": NEWER} if NEWER else {}),
    },
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
    """Where Ansible keeps its own files, with the collection that has the wheels of both Pythons in it."""
    system = ".".join(map(str, sys.version_info[:2]))
    return controller(tmp_path_factory.mktemp("home"), pythons=f"{system} 3.13" if NEWER else system)


def interrupt(node: Path) -> None:
    """Leave what an installation leaves that was interrupted while pip ran: the manifest, written last, is missing."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", node / "venv"], check=True)
    (node / ".pinproof-node").touch()
    (node / "wheels.tar").write_bytes(b"half")
    (node / "wheels").mkdir()
    (node / "wheels/pinproof-0.0.1-py3-none-any.whl").write_bytes(b"old")


@pytest.fixture(scope="module")
def installed(fleet: Fleet, home: Path) -> Play:
    """The play that installed pinproof, from the built collection alone: one node has half of it, the other nothing.

    bcc, which a distribution has for its own Python, was made by hand for the other node's.
    """
    interrupt(there(fleet, "node1", PLACES["node1"].folder))
    if NEWER:
        packages = f"{Path(NEWER).parents[1]}/lib/python3.13/site-packages"
        done = fleet.ssh("node2", "ln", "-s", "/usr/lib/python3/dist-packages/bcc", packages)
        assert done.returncode == 0, done.stderr
    return install(fleet, home)


@pytest.fixture(scope="module")
def wheels(home: Path, installed: Play, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheelhouse with pinproof's wheel, built apart from the same sources, and the others of the collection."""
    folder = tmp_path_factory.mktemp("wheels")
    for wheel in (home / "collections").glob("ansible_collections/pinproof/node/files/wheels/*.whl"):
        if not wheel.name.startswith("pinproof-"):
            shutil.copy(wheel, folder)
    build_wheel(copy_project(tmp_path_factory.mktemp("project")), folder)
    return folder


def install(fleet: Fleet, home: Path, *arguments: str, inventory: Path | None = None, **variables: str) -> Play:
    """Run `install.yml` on the fleet."""
    return play(
        "install",
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
    system = ".".join(map(str, sys.version_info[:2]))
    for name, place in PLACES.items():
        answer = fleet.ssh(name, f"{place.link} --version && readlink -f {place.link}")
        assert answer.returncode == 0, answer.stderr
        version, *_, command = answer.stdout.splitlines()
        assert version.startswith("pinproof")
        assert command == f"{place.folder}/venv/bin/pinproof"
        node = there(fleet, name, place.folder)
        manifest = json.loads((node / "manifest.json").read_text())
        assert any(wheel.startswith("pinproof-") for wheel in manifest["wheels"])
        assert manifest["python"] == ("3.13" if name == "node2" and NEWER else system)
        assert (
            "grpcio"
            in fleet.ssh(
                name, f"{place.folder}/venv/bin/python -c 'import grpc; print(grpc.__name__, \"grpcio\")'"
            ).stdout
        )
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


def stand_in(fleet: Fleet, name: str, body: str, command: str = "/opt/job") -> None:
    """Put a program where a node's command is looked for: what is under test is what the plays make of how it ends."""
    job = there(fleet, name, command)
    job.write_text(f"#!/bin/sh\ncase $1 in --version) echo 9.9; exit ;; cleanup) exit ;; esac\n{body}\n")
    job.chmod(0o755)


def test_one_bad_node_fails_the_play_and_all_evidence_comes_home(
    fleet: Fleet, home: Path, installed: Play, tmp_path: Path
) -> None:
    """Node 1 passes; the installed command of node 2 refuses a pid namespace; a third name is no node's.

    The evidence of both comes home, each of the three has a record, and the play is red.
    Every other ending, beside these and in one play: ``test_ansible_local.py``.
    """
    stand_in(fleet, "node1", "mkdir -p runs/r1; hostname >runs/r1/evidence.json; exit 0")
    stand_in(fleet, "node2", f'mkdir -p runs/r1; hostname >runs/r1/evidence.json; exec {PLACES["node2"].link} "$@"')
    variables = {"pinproof_run_command": "/opt/job", "pinproof_run_results": str(tmp_path), "pinproof_run_fleet": False}
    inventory = fleet.inventory({name: {} for name in (*fleet.names, "dead")})

    done = play("check", inventory, home, variables=[json.dumps(variables)], through=fleet.controller())

    assert done.code != 0
    assert {name: counters["failed"] for name, counters in done.recap.items()} == {"node1": 0, "node2": 1, "dead": 1}
    assert done.changed() == dict.fromkeys(("node1", "node2", "dead"), 0)
    assert "node2: UNSUPPORTED: " in done.ended("node2")
    assert "pid namespace" in done.ended("node2")
    found = records(tmp_path)
    assert {name: (one["outcome"], one["exit_code"]) for name, one in found.items()} == {
        "node1": ("passed", 0),
        "node2": ("unsupported", 4),
        "dead": ("unreachable", None),
    }
    for name in fleet.names:
        (evidence,) = tmp_path.glob(f"{name}/check-*/runs/r1/evidence.json")
        assert evidence.read_text().strip() == name


ROLLOUT = """
- name: Put the new version in place
  ansible.builtin.copy:
    content: "{{ inventory_hostname }}"
    dest: "/opt/rolled-{{ inventory_hostname }}"
    mode: "0644"
"""


ALIKE = tuple(f"n{number}" for number in range(7))
"""Nodes on each of which usage is 6 % less after the rollout: as many as a gate needs."""


def usage_of(fleet: Fleet, node: str, host: str) -> None:
    """Save the sessions of a host before and after the rollout, and a program that brings one of them."""
    for kind, usage in (("before", 0.5), ("after", 0.47)):
        noise = ALIKE.index(host) / 10_000
        save_session(
            there(fleet, node, f"/opt/{host}-{kind}"), session(0, host, measured(scenario(), usage_cpus=usage + noise))
        )
    body = f"kind=before; [ -e /opt/rolled-{host} ] && kind=after; mkdir runs; cp -r /opt/{host}-$kind runs/r1"
    stand_in(fleet, node, body, f"/opt/job-{host}")


def test_a_rollout_stops_at_the_first_red_batch(fleet: Fleet, home: Path, tmp_path: Path) -> None:
    """gate.yml: a node, eight, two. The second batch is red in two ways, and the third is left alone.

    One node is worse after the rollout; the others are worse together, by what none of them shows by itself. What is
    compared are saved runs of real evidence and indexes of sessions, by `pinproof compare` itself.
    """
    for name in fleet.names:
        for kind, found in (("good", healthy()), ("bad", broken())):
            run = save_run(there(fleet, name, f"/opt/{kind}"), claims=CLAIMS, evidence=found)
            save_result(run, judge(CLAIMS, found), found)
        stand_in(
            fleet,
            name,
            "kind=good; code=0; if [ -e /opt/rolled-c ] && [ $(hostname) = node2 ]; then kind=bad; code=1; fi\n"
            "mkdir runs; cp -r /opt/$kind runs/r1; exit $code",
        )
    (tmp_path / "rollout.yml").write_text(ROLLOUT)
    at = {"a": "node1", "c": "node2", **dict(zip(ALIKE, cycle(fleet.names), strict=False)), "d": "node1", "e": "node2"}
    for host in ALIKE:
        usage_of(fleet, at[host], host)
    commands = {host: f"/opt/job-{host}" if host in ALIKE else "/opt/job" for host in at}
    inventory = fleet.inventory({host: {"pinproof_run_command": command} for host, command in commands.items()}, at=at)
    variables = {
        "pinproof_run_results": str(tmp_path / "results"),
        "pinproof_run_fleet": False,
        "pinproof_run_controller_command": str(Path(sys.executable).parent / "pinproof"),
        "pinproof_rollout": str(tmp_path / "rollout.yml"),
        "pinproof_serial": [1, 8, 2],
    }

    done = play("gate", inventory, home, variables=[json.dumps(variables)], through=fleet.controller())

    assert done.code != 0
    found = records(tmp_path / "results")
    assert {name: one["outcome"] for name, one in found.items()} == {
        "a": "passed",
        "c": "failed",
        **dict.fromkeys(ALIKE, "undecided"),
        "d": "not-reached",
        "e": "not-reached",
    }, done.text
    assert str(found["c"]["cause"]).startswith("worse than before the rollout: ")
    assert "over the nodes of the batch: " in str(found["n0"]["cause"])
    assert all(found[name]["before"] and found[name]["path"] for name in ("a", "c", *ALIKE))
    rolled = {name: there(fleet, node, f"/opt/rolled-{name}").exists() for name, node in at.items()}
    assert rolled == {name: name not in ("d", "e") for name in at}


def test_absent_clears_the_nodes_that_are_reached(fleet: Fleet, home: Path, installed: Play) -> None:
    """A dead node is reported as unreachable; the others are cleared, and what stays on them is named."""
    inventory = fleet.inventory({**VARIABLES, "dead": {}})

    done = play("remove", inventory, home, through=fleet.controller())

    assert done.code != 0
    assert {name: counters["unreachable"] for name, counters in done.recap.items()} == {
        "node1": 0,
        "node2": 0,
        "dead": 1,
    }
    assert done.says("stays: /var/tmp/pinproof, ")
    assert not any(installation(fleet, name, place) for name, place in PLACES.items())
    assert not any(there(fleet, name, place.folder).exists() for name, place in PLACES.items())
