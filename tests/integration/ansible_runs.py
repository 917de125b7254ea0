"""Runs `ansible-playbook` for the tests and reads its recap: nothing here judges.

What is played is the built collection, installed as users install it, and no file of the checkout; no user's
configuration counts. The programs come from the environment that runs the tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from tools import schemas

PROJECT = Path(__file__).resolve().parents[2]
ANSIBLE = PROJECT / "ansible"
_RECAP = re.compile(
    r"^(?P<host>\S+)\s+: ok=(?P<ok>\d+)\s+changed=(?P<changed>\d+)\s+unreachable=(?P<unreachable>\d+)"
    r"\s+failed=(?P<failed>\d+)\s+skipped=(?P<skipped>\d+)",
    re.MULTILINE,
)


JOBS = """
- name: Begin
  hosts: "{{ lookup('pinproof.node.nodes') }}"
  gather_facts: false
  tasks:
    - {name: Records, ansible.builtin.include_role: {name: pinproof.node.pinproof_run, tasks_from: begin}}
- name: Jobs
  hosts: "{{ lookup('pinproof.node.nodes') }}"
  gather_facts: false
  roles: [pinproof.node.pinproof_run]
- name: End
  hosts: "{{ lookup('pinproof.node.nodes') }}"
  gather_facts: false
  tasks:
    - {name: Answer, ansible.builtin.include_role: {name: pinproof.node.pinproof_run, tasks_from: end}}
"""
"""A user's own, by the roles' documented entry points: jobs of both kinds in one play."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What a playbook run said: exit code, whole text, and per host the counters of the recap."""

    code: int
    text: str
    recap: Mapping[str, Mapping[str, int]]

    def says(self, sentence: str) -> bool:
        """Whether the sentence is in the output, wherever Ansible folded its lines."""
        return sentence in " ".join(self.text.split())

    def ended(self, host: str) -> str:
        """What is said of the task that failed on a host, unfolded: the last of them."""
        *_, said = re.findall(rf"^fatal: \[{re.escape(host)}[] ].*(?:\n.+)*", self.text, re.MULTILINE)
        return " ".join(said.split())

    def changed(self) -> dict[str, int]:
        """Host -> number of changed tasks."""
        return {host: counters["changed"] for host, counters in self.recap.items()}


def program(name: str) -> str:
    """Find a program of ansible-core beside this interpreter; skip where it is not installed, fail in CI."""
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed; CI needs it")
        pytest.skip(f"{name} is not installed (pip install -e '.[dev]')")
    return path


def controller(home: Path, *, pythons: str = "") -> Path:
    """Build the collection and install it below a folder where Ansible then keeps its own files, too.

    :param pythons: for which versions wheels are built in; empty: none are.
    """
    built = home / "built"
    settings = {"PYTHONS": pythons} if pythons else {"WHEELS": "no"}
    _must([PROJECT / ".ci/collection", built], {**os.environ, **settings})
    (archive,) = built.glob("pinproof-node-*.tar.gz")
    galaxy = [
        program("ansible-galaxy"),
        "collection",
        "install",
        str(archive),
        "-p",
        str(home / "collections"),
        "--offline",
    ]
    _must(galaxy, environment(home))
    return home


def _must(command: Sequence[str | Path], variables: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def environment(home: Path) -> dict[str, str]:
    """The environment of an Ansible run: everything that it writes for itself goes below ``home``."""
    temporary = home / "tmpdir"
    temporary.mkdir(exist_ok=True)
    empty = home / "ansible.cfg"
    empty.touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTEST_"))}
    # pip's cache and settings belong to the user who runs the tests; only Ansible's own files move.
    return {
        **kept,
        "ANSIBLE_CONFIG": str(empty),
        "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
        "ANSIBLE_FORKS": "20",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        # Where the roles make temporary files on the controller: a test can see whether any is left.
        "TMPDIR": str(temporary),
        "LC_ALL": "C.UTF-8",
    }


def play(
    playbook: str | Path,
    inventory: Path,
    home: Path,
    *arguments: str,
    variables: Sequence[str] = (),
    through: Sequence[str] = (),
    timeout_s: float = 600,
) -> Play:
    """Run a playbook (a name means one of the collection's) and return what it said.

    :param variables: JSON or ``name=value`` texts for ``-e``.
    :param through: command prefix, e.g. ``nsenter`` into the controller's namespace.
    """
    name = str(playbook) if isinstance(playbook, Path) else f"pinproof.node.{playbook}"
    command = [*through, program("ansible-playbook"), "-i", str(inventory), name, *arguments]
    for variable in variables:
        command += ["-e", variable]
    done = subprocess.run(
        command,
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    text = done.stdout + done.stderr
    recap = {
        match["host"]: {name: int(match[name]) for name in ("ok", "changed", "unreachable", "failed", "skipped")}
        for match in _RECAP.finditer(done.stdout)
    }
    return Play(code=done.returncode, text=text, recap=recap)


def copy_project(folder: Path) -> Path:
    """Copy what a wheel is made of: a checkout that is not edited meanwhile."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, folder)
    for name in ("toolkit", "probes", "validators", "tools"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def build_wheel(project: Path, folder: Path) -> None:
    """Build the wheel of a checkout, without what it depends on."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*pip, "--wheel-dir", folder, project],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def records(place: Path) -> dict[str, dict[str, object]]:
    """The controller's records by host; each is as the schema says."""
    found = {path.parent.name: json.loads(path.read_text()) for path in place.glob("*/record.json")}
    validator = jsonschema.Draft202012Validator(schemas.shipped("record"))
    for record in found.values():
        validator.validate(record)
    return found
