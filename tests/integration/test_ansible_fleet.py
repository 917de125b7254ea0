"""The roles over ssh, on two nodes made of namespaces: mechanics, evidence, and what one bad node does to the others.

The nodes share one kernel, so real jobs that load it run over the local connection instead (`test_ansible_jobs.py`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.ansible_fleet import Fleet
from tests.integration.ansible_runs import play, ready_wheels

pytestmark = pytest.mark.beside


def host_state() -> tuple[str, str, bool]:
    """What a fleet could leave on this machine: links, mounts, an installation."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    names = "\n".join(line.split(":")[1] for line in links.splitlines())
    return names, Path("/proc/self/mounts").read_text(), Path("/opt/pinproof").exists()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two nodes; afterwards this machine has the links, mounts and folders that it had before."""
    before = host_state()
    with Fleet(tmp_path_factory.mktemp("fleet")) as nodes:
        yield nodes
    assert host_state() == before


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed: the fleet's network has no package index, as many clusters have none."""
    return ready_wheels(tmp_path_factory)


@pytest.fixture(scope="module")
def installed(fleet: Fleet, home: Path, wheels: Path) -> str:
    """pinproof on every node; the variables that the installation was made with."""
    variables = json.dumps({"pinproof_install_wheelhouse": str(wheels)})
    first = play("install.yml", fleet.inventory(), home, variables=[variables], through=fleet.controller())
    assert first.code == 0, first.text
    assert all(changed > 0 for changed in first.changed().values()), first.text
    return variables


def test_each_node_is_its_own_machine(fleet: Fleet) -> None:
    """The nodes have their own names and files: a write on one is seen neither on another nor here."""
    for name in fleet.names:
        assert fleet.ssh(name, "touch", f"/opt/{name}").returncode == 0
    seen = {name: fleet.ssh(name, "hostname;", "ls", "/opt").stdout.split() for name in fleet.names}

    assert {name: words[0] for name, words in seen.items()} == {name: name for name in fleet.names}
    assert all([word for word in words[1:] if word.startswith("node")] == [name] for name, words in seen.items())
    assert not any(Path("/opt", name).exists() for name in fleet.names)


def test_installed_on_every_node(fleet: Fleet, installed: str) -> None:
    """The command works on each node, from that node's own files, and finds the distribution's bcc."""
    for name in fleet.names:
        answer = fleet.ssh(name, "/usr/local/bin/pinproof --version && readlink -f /usr/local/bin/pinproof")
        assert answer.returncode == 0, answer.stderr
        assert "/opt/pinproof/venv/bin/pinproof" in answer.stdout


def test_second_run_changes_nothing(fleet: Fleet, home: Path, installed: str) -> None:
    """An installed fleet stays as it is. (``--check`` of what is installed: ``test_ansible_local.py``.)"""
    again = play("install.yml", fleet.inventory(), home, variables=[installed], through=fleet.controller())

    assert again.code == 0, again.text
    assert again.changed() == dict.fromkeys(fleet.names, 0), again.text


def test_one_bad_node_fails_the_play_and_all_evidence_comes_home(
    fleet: Fleet, home: Path, installed: str, tmp_path: Path
) -> None:
    """Node 1 passes, node 2 fails: each is told apart, and the evidence of both is fetched.

    Every other ending, beside these and in one play: ``test_ansible_local.py``.
    """
    codes = dict(zip(fleet.names, (0, 1), strict=True))
    for name, code in codes.items():
        job = f"mkdir -p runs/r1; hostname >runs/r1/evidence.json; exit {code}"
        assert fleet.ssh(name, f"printf '#!/bin/sh\\n%s\\n' '{job}' >/run/job; chmod +x /run/job").returncode == 0
    variables = json.dumps({"pinproof_run_command": "/run/job", "pinproof_run_fetch_dir": str(tmp_path)})

    done = play("conformance.yml", fleet.inventory(), home, variables=[variables], through=fleet.controller())

    assert done.code != 0
    assert {name: counters["failed"] for name, counters in done.recap.items()} == {"node1": 0, "node2": 1}
    outcomes = {path.parts[-3]: json.loads(path.read_text()) for path in tmp_path.glob("*/*/outcome.json")}
    assert {name: outcome["exit_code"] for name, outcome in outcomes.items()} == codes
    assert [outcomes[name]["outcome"] for name in fleet.names] == ["passed", "failed"]
    for name in fleet.names:
        (evidence,) = tmp_path.glob(f"{name}/conformance-*/runs/r1/evidence.json")
        assert evidence.read_text().strip() == name


def test_real_command_on_a_node(fleet: Fleet, home: Path, installed: str, tmp_path: Path) -> None:
    """The installed command refuses a node that is a pid namespace of a machine: exit code 4, one line is shown.

    One node: that jobs run on all of them is the test above, and that the command starts on each is the first.
    """
    node = fleet.names[0]
    claims = tmp_path / "claims.yaml"
    claims.write_text(
        "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
        '  - {name: db, cgroup: /no-such-cgroup, cpus: "0", isolation: container}\n'
    )
    variables = json.dumps({"pinproof_run_claims": str(claims), "pinproof_run_fetch_dir": str(tmp_path / "fetched")})

    done = play(
        "check.yml", fleet.inventory(), home, "--limit", node, variables=[variables], through=fleet.controller()
    )

    assert done.code != 0
    assert done.says(f"{node}: UNSUPPORTED (exit code 4)")
    assert done.says("pid namespace")
    (fetched,) = (tmp_path / "fetched").glob("*/check-*/claims.yaml")
    assert fetched.read_text() == claims.read_text()


def test_unreachable_node_fails_alone_and_absent_clears_the_others(fleet: Fleet, home: Path, installed: str) -> None:
    """A dead node is reported as unreachable; the others are cleared. (The last test: it takes a node down.)"""
    dead = fleet.names[-1]
    fleet.stop(dead)

    done = play(
        "install.yml",
        fleet.inventory(),
        home,
        variables=[installed, "pinproof_state=absent"],
        through=fleet.controller(),
    )

    assert done.code != 0
    assert {name: counters["unreachable"] for name, counters in done.recap.items()} == {
        name: int(name == dead) for name in fleet.names
    }
    for name in fleet.names[:-1]:
        assert fleet.ssh(name, "test ! -e /opt/pinproof && test ! -L /usr/local/bin/pinproof").returncode == 0
