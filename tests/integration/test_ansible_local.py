"""The roles over a local connection: this machine is the node, and is afterwards as it was before."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import pytest

from tests.integration.ansible_runs import JOBS, Play, controller, play
from tools import schemas

pytestmark = pytest.mark.idle


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible keeps its own files, with the collection built without wheels."""
    return controller(tmp_path_factory.mktemp("ansible-home"))


def inventory(place: Path, hosts: Mapping[str, Mapping[str, object]], **variables: object) -> Path:
    """Nodes that are all this machine; what is made on each is in a folder with its name."""
    everyone = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "/usr/bin/python3",
        "pinproof_install_dir": f"{place}/{{{{ inventory_hostname }}}}/node",
        "pinproof_install_link": f"{place}/{{{{ inventory_hostname }}}}/pinproof",
        "pinproof_run_work_dir": f"{place}/{{{{ inventory_hostname }}}}/work",
        "pinproof_run_results": f"{place}/results",
        "pinproof_run_fleet": False,
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
    return play("install", nodes, home), place


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


def test_a_collection_without_wheels_says_where_to_get_them(home: Path, tmp_path: Path) -> None:
    """Built without wheels and away from a checkout, an installation ends at once and names the line."""
    nodes = inventory(tmp_path, {"here": {}})

    done = play("install", nodes, home)

    assert done.code != 0
    assert "make collection" in done.ended("here")
    assert not (tmp_path / "here").exists()
    assert list((home / "tmpdir").iterdir()) == []


def test_wheels_that_cannot_be_built(home: Path, tmp_path: Path) -> None:
    """A checkout that does not build ends the play before anything is made; nothing is left on the controller."""
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "nowhere"\n')
    nodes = inventory(tmp_path, {"here": {}}, pinproof_install_project=str(tmp_path))

    done = play("install", nodes, home)

    assert done.code != 0
    assert "nowhere" in done.ended("here")
    assert not (tmp_path / "here").exists()
    assert list((home / "tmpdir").iterdir()) == []


NO_NODE: dict[str, tuple[dict[str, object], list[str], str]] = {
    "no such file": ({}, [], "the group pinproof_nodes has no hosts"),
    "no such group": ({"others": {"hosts": {"a": {}}}}, [], "its groups: others"),
    "empty group": ({"pinproof_nodes": {"hosts": {}}}, [], "has no hosts"),
    "limit beside the group": (
        {"pinproof_nodes": {"hosts": {"a": {}}}, "others": {"hosts": {"b": {}}}},
        ["--limit", "b"],
        "--limit b leaves none of the group pinproof_nodes",
    ),
    "limit": ({"pinproof_nodes": {"hosts": {"a": {}}}}, ["--limit", "absent"], "leaves us with no hosts to target"),
    "too few": (
        {"pinproof_nodes": {"hosts": {"a": {}, "b": {}}, "vars": {"pinproof_expected_nodes": 3}}},
        [],
        "pinproof_expected_nodes is 3, and this play would look at 2 nodes",
    ),
    "others": (
        {"pinproof_nodes": {"hosts": {"a": {}, "b": {}}, "vars": {"pinproof_expected_nodes": ["b", "c"]}}},
        [],
        "missing: c; not expected: a",
    ),
}


@pytest.mark.parametrize(
    ("playbook", "name"),
    # The plays begin alike: of the others one of each kind.
    [
        *(("check", name) for name in NO_NODE),
        ("install", "no such group"),
        ("gate", "limit beside the group"),
        ("remove", "others"),
    ],
)
def test_a_play_that_looks_at_no_node_is_red(home: Path, tmp_path: Path, playbook: str, name: str) -> None:
    """Whatever leaves no node, or fewer than were promised, ends the play before any: not with exit code 0."""
    groups, arguments, says = NO_NODE[name]
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps(groups or {"all": {}}))
    if name == "no such file":
        path = tmp_path / "nonexistent.yml"

    done = play(playbook, path, home, *arguments)

    assert done.code != 0, done.text
    assert done.says(says), done.text
    assert not (home / "results").exists()


def ended_with(folder: Path, body: str) -> Path:
    """A program that ends the way a job can end; what is under test is what the role makes of it."""
    path = folder / "job"
    path.write_text(
        "#!/bin/sh\ncase $1 in\n--version) echo pinproof, version 9.9; exit ;;\n"
        f"cleanup) echo cleaned >>{folder}/cleanups; exit ;;\n"
        f'doctor) echo \'{{"can_run": true, "capabilities": []}}\'; exit ;;\nesac\n{body}\n'
    )
    path.chmod(0o755)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a job ends, and what the role is to make of it."""

    body: str
    outcome: str
    says: str = ""
    fails: bool = True
    variables: dict[str, object] = field(default_factory=dict)


VERDICT = (
    '{"schema": "pinproof.result/1", "verdicts": [{"rule": "noise", "subject": "cpu 1", "outcome": "passed"}, '
    '{"rule": "cpuset-containment", "subject": "db", "outcome": "failed", "reason": "it ran on CPU 7"}]}'
)
HOOK = "- name: Hook\n  ansible.builtin.command: touch {path}\n"
ENDINGS = {
    "passes": Ending(
        body="echo first; echo; echo last; mkdir -p runs/r1 && printf 'evidence' >runs/r1/evidence.json",
        outcome="passed",
        fails=False,
        variables={"pinproof_run_keep_on_node": True},
    ),
    "fails": Ending(body="echo 'db ran on CPU 7' >&2; exit 1", outcome="failed", says="db ran on CPU 7"),
    "fails-named": Ending(
        body=f"mkdir -p runs/r1; echo '{VERDICT}' >runs/r1/result.json; exit 1",
        outcome="failed",
        says="cpuset-containment of db: it ran on CPU 7",
    ),
    "misused": Ending(
        body="echo 'pinproof: --select: no such' >&2; exit 2", outcome="usage-error", says="--select: no such"
    ),
    "undecided": Ending(body="exit 3", outcome="undecided"),
    "unsupported": Ending(body="echo 'pinproof: no bpf()' >&2; exit 4", outcome="unsupported", says="no bpf()"),
    "not-installed": Ending(
        body="",
        outcome="unsupported",
        says="/nonexistent/pinproof is not there",
        variables={"pinproof_run_command": "/nonexistent/pinproof"},
    ),
    "at-work": Ending(
        body="echo 'pinproof: this node is at work: a kubelet runs; nothing was started' >&2; exit 4",
        outcome="at-work",
        says="a kubelet runs",
    ),
    "full": Ending(
        body="exit 0", outcome="no-space", says="MiB are free below", variables={"pinproof_run_min_free_mib": 10**9}
    ),
    "fills": Ending(
        body="echo 'pinproof: runs/r1: No space left on device' >&2; exit 2",
        outcome="no-space",
        says="No space left on device",
    ),
    "killed": Ending(body="kill -KILL $$", outcome="died", says="killed by SIGKILL"),
    "defect": Ending(body="exit 70", outcome="died", says="a defect of pinproof"),
    "hangs": Ending(
        body="exec sleep 300",
        outcome="timed-out",
        says="did not end within 1 s",
        variables={"pinproof_run_timeout_s": 1},
    ),
    "undecided-allowed": Ending(
        body="exit 3", outcome="undecided", fails=False, variables={"pinproof_run_undecided_fails": False}
    ),
    "unsupported-allowed": Ending(
        body="exit 4", outcome="unsupported", fails=False, variables={"pinproof_run_unsupported_fails": False}
    ),
    "in-the-background": Ending(body="sleep 1", outcome="passed", fails=False, variables={"pinproof_run_poll_s": 1}),
    "hooks": Ending(
        body="[ -e {here}/before ] && ! [ -e {here}/after ]",
        outcome="passed",
        fails=False,
        variables={"pinproof_run_before": ["{here}/before.yml"], "pinproof_run_after": ["{here}/after.yml"]},
    ),
    "hook-fails": Ending(
        body="touch {here}/ran",
        outcome="not-reached",
        says='the hook before failed at "Hook"',
        variables={"pinproof_run_before": ["{here}/broken.yml"], "pinproof_run_after": ["{here}/after.yml"]},
    ),
    "drains": Ending(
        body="[ \"$(cat {here}/kubectl.log)\" = 'cordon drains\ndrain drains --force' ]",
        outcome="passed",
        fails=False,
        variables={
            "pinproof_run_before": ["cordon", "drain"],
            "pinproof_run_after": ["uncordon"],
            "pinproof_run_kubectl": ["{here}/kubectl"],
            "pinproof_run_drain_arguments": ["--force"],
        },
    ),
    "claims-without-a-file": Ending(
        body="touch {here}/ran",
        outcome="not-reached",
        says="a check judges what it promises",
        variables={"pinproof_run_job": "check", "pinproof_run_source": "claims"},
    ),
    "claims": Ending(
        body="grep -q Claims claims.yaml && [ \"$*\" = 'watch --claims claims.yaml --duration 2.5 --window 2' ]",
        outcome="passed",
        fails=False,
        variables={
            "pinproof_run_job": "check",
            "pinproof_run_source": "claims",
            "pinproof_run_claims": "{here}/claims.yaml",
            "pinproof_run_duration_s": 2.5,
            "pinproof_run_arguments": ["--window", "2"],
        },
    ),
    "live": Ending(
        body="[ \"$*\" = 'watch --kubelet --duration 30' ]",
        outcome="passed",
        fails=False,
        variables={"pinproof_run_job": "check"},
    ),
}


@pytest.fixture(scope="module")
def endings(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Play, Path]:
    """One play over as many nodes as there are endings."""
    place = tmp_path_factory.mktemp("endings")
    hosts = {}
    for name, ending in ENDINGS.items():
        here = place / name
        here.mkdir()
        for hook in ("before", "after"):
            (here / f"{hook}.yml").write_text(HOOK.format(path=here / hook))
        (here / "broken.yml").write_text("- name: Hook\n  ansible.builtin.command: 'false'\n")
        (here / "claims.yaml").write_text("kind: Claims\n")
        (here / "kubectl").write_text(f'#!/bin/sh\necho "$@" >>{here}/kubectl.log\n')
        (here / "kubectl").chmod(0o755)
        job = ended_with(here, ending.body.replace("{here}", str(here)))
        variables = json.loads(json.dumps(ending.variables).replace("{here}", str(here)))
        hosts[name] = {"pinproof_run_command": str(job), "pinproof_run_job": "conformance", **variables}
    playbook = place / "jobs.yml"
    playbook.write_text(JOBS)
    return play(playbook, inventory(place, hosts), home), place


def record_of(place: Path, name: str) -> dict[str, object]:
    """A host's record, which is as its schema says."""
    record = json.loads((place / "results" / name / "record.json").read_text())
    jsonschema.Draft202012Validator(schemas.shipped("record")).validate(record)
    assert isinstance(record, dict)
    return record


@pytest.mark.parametrize("name", ENDINGS)
def test_each_ending_is_reported_as_what_it_is(endings: tuple[Play, Path], name: str) -> None:
    """Every ending has its own word and sentence in the output and in the host's record, and fails its node or not.

    The job's folder stays on the node if that was asked for; else nothing stays.
    """
    done, place = endings
    ending = ENDINGS[name]

    assert done.code != 0
    assert done.recap[name]["failed"] == int(ending.fails), done.text
    record = record_of(place, name)
    assert (record["host"], record["outcome"]) == (name, ending.outcome), record
    assert ending.says in str(record["cause"])
    assert done.says(f"{name}: {ending.outcome.upper()}")
    began = ending.outcome not in {"not-reached"} and name not in {"full", "not-installed"}
    assert (record["exit_code"] is not None, record["output"] is not None) == (began, began)
    assert record["ended_at"] is not None
    assert (place / name / "cleanups").exists() == (name in {"killed", "defect", "hangs"})
    assert not (place / name / "ran").exists()
    work = place / name / "work"
    kept = [path.name for path in (work.iterdir() if work.exists() else ())]
    assert len(kept) == int("pinproof_run_keep_on_node" in ending.variables)


def test_hooks_run_after_whatever_happened(endings: tuple[Play, Path]) -> None:
    """The hook after a job runs although the one before failed; uncordon comes after the job."""
    _, place = endings

    assert (place / "hooks/after").exists()
    assert (place / "hook-fails/after").exists()
    assert (place / "drains/kubectl.log").read_text().splitlines()[-1] == "uncordon drains"


def test_the_reason_is_shown(endings: tuple[Play, Path]) -> None:
    """What the job said on stderr is in the failure message, and where the record lies."""
    done, place = endings

    assert "db ran on CPU 7" in done.ended("fails")
    assert f"Record: {place}/results/fails/record.json" in done.ended("fails")


def test_collect_brings_what_was_left(endings: tuple[Play, Path], home: Path, tmp_path: Path) -> None:
    """Run directories that stayed on the node come to the controller, byte for byte, and how the job ended."""
    _, place = endings
    nodes = inventory(place, {"passes": {}}, pinproof_run_results=str(tmp_path))

    done = play("collect", nodes, home)

    assert done.code == 0, done.text
    (evidence,) = tmp_path.glob("passes/*/runs/r1/evidence.json")
    assert evidence.read_text() == "evidence"
    for name in ("job.json", "output.txt"):
        (first,) = (place / "results/passes").glob(f"*/{name}")
        (later,) = tmp_path.glob(f"passes/*/{name}")
        assert later.read_bytes() == first.read_bytes() != b""


def test_what_a_job_says_is_kept(endings: tuple[Play, Path]) -> None:
    """output.txt has what the job said, and nothing else."""
    _, place = endings

    (said,) = (place / "results/passes").glob("*/output.txt")
    assert said.read_text() == "first\n\nlast\n"


def test_check_mode_contacts_each_node_and_runs_no_job(home: Path, tmp_path: Path) -> None:
    """--check asks each node whether a job could run, runs none, makes nothing and changes nothing.

    A node without pinproof, and one of which no result came, are red.
    """
    job = ended_with(tmp_path, f"touch {tmp_path}/ran")
    hosts = {
        "here": {"pinproof_run_command": str(job)},
        "bare": {"pinproof_run_command": "/nonexistent/pinproof"},
        "dead": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
    }
    nodes = inventory(tmp_path, hosts)

    done = play("conformance", nodes, home, "--check")

    assert done.code != 0
    assert {name: counters["failed"] for name, counters in done.recap.items()} == {"here": 0, "bare": 1, "dead": 1}
    assert done.says("here answers and can run pinproof 9.9; would run on it: conformance")
    assert "UNREACHABLE" in done.ended("dead")
    assert done.changed() == dict.fromkeys(hosts, 0)
    assert not any((tmp_path / name).exists() for name in ("ran", "here", "results"))


def test_the_answer_about_all_nodes_is_the_plays(home: Path, tmp_path: Path) -> None:
    """What `pinproof fleet` ends with on the controller decides, also where every node by itself passed."""
    job = ended_with(tmp_path, "exit 0")
    fleet = tmp_path / "controllers-pinproof"
    fleet.write_text('#!/bin/sh\n[ "$2" = --help ] && exit\necho "$@"\nls "$2"\nexit 1\n')
    fleet.chmod(0o755)
    variables = {"pinproof_run_fleet": True, "pinproof_run_controller_command": str(fleet)}
    nodes = inventory(tmp_path, {key: {"pinproof_run_command": str(job)} for key in ("a", "b")}, **variables)

    done = play("conformance", nodes, home)

    assert done.code != 0, done.text
    assert done.says("2 nodes: 2 passed")
    assert done.says(f"fleet {tmp_path}/results --expect a,b")


def test_the_answer_bears_with_what_the_play_does(home: Path, tmp_path: Path) -> None:
    """`pinproof fleet` itself: an undecided node is not red there either, where the play was told that it is not.

    What it bears with by itself, and that it bears with no more, is shown without a play (`test_fleet_command.py`).
    """
    hosts: dict[str, dict[str, object]] = {}
    for name, code in {"a": 3, "b": 4}.items():
        (tmp_path / name).mkdir()
        hosts[name] = {"pinproof_run_command": str(ended_with(tmp_path / name, f"exit {code}"))}
    command = Path(sys.executable).parent / "pinproof"
    allowed = {"pinproof_run_undecided_fails": False, "pinproof_run_unsupported_fails": False}
    variables = {"pinproof_run_fleet": True, "pinproof_run_controller_command": str(command), **allowed}

    done = play("conformance", inventory(tmp_path, hosts, **variables), home)

    assert done.code == 0, done.text
    assert done.says("2 nodes: "), done.text


def test_a_page_is_asked_for_where_the_controllers_pinproof_writes_any(home: Path, tmp_path: Path) -> None:
    """A gate compares with an older pinproof, too, which would refuse the option. Each batch has its own here."""
    job = ended_with(tmp_path, "mkdir -p runs/r1; echo {} >runs/r1/result.json; exit 0")
    hosts: dict[str, dict[str, object]] = {}
    for name, option in {"new": "--html FILE", "old": "--json"}.items():
        command = tmp_path / f"{name}-pinproof"
        command.write_text(
            f'#!/bin/sh\n[ "$2" != --help ] || exec echo "{option}"\necho "$@" >{tmp_path}/{name}-asked\n'
        )
        command.chmod(0o755)
        hosts[name] = {"pinproof_run_command": str(job), "pinproof_run_controller_command": str(command)}
    (tmp_path / "rollout.yml").write_text(HOOK.format(path=tmp_path / "rolled"))
    variables = {"pinproof_rollout": str(tmp_path / "rollout.yml"), "pinproof_gate_job": "conformance"}

    done = play("gate", inventory(tmp_path, hosts, **variables), home)

    assert done.code == 0, done.text
    asked = {name: (tmp_path / f"{name}-asked").read_text().split()[3:] for name in hosts}
    assert asked == {"new": ["--html", f"{tmp_path}/results/new/comparison.html"], "old": []}
