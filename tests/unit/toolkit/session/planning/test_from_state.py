"""A captured node goes on from its state: what its pods hold, and what becomes of pods that come beside them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.sources.edited import DATA, STATE, Files, capture, configure

CAPTURES = sorted(path.name.removesuffix(".tar.gz") for path in DATA.glob("[AB]*.tar.gz"))
POD = """
apiVersion: v1
kind: Pod
metadata: {name: newg}
spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "2", memory: MEMORY}}}]}
"""
"""A new pod of one exclusive container."""


@cache
def asked(start: str, new: str = "") -> dict[str, Any]:
    """The plan of a capture, with a file of new pods."""
    (path,) = DATA.glob(f"{start}*.tar.gz")
    result = pinproof("plan", "--capture", path, *(("--pods", new) if new else ()), "--json")
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)[0]
    return document


def beside(tmp_path: Path, start: str, text: str) -> dict[str, Any]:
    """What becomes of new pods, by name."""
    (tmp_path / "new.yaml").write_text(text)
    return {pod["name"]: pod for pod in asked(start, str(tmp_path / "new.yaml"))["plan"]["pods"]}


def found(document: dict[str, Any]) -> dict[tuple[str, str], str]:
    """The findings about the state: what is said, and why."""
    rows = document.get("findings", ())
    return {(f["id"], f["path"]): f"{f['value']}: {f['breaks']}" for f in rows if f["id"].startswith("state-")}


@pytest.mark.parametrize("name", CAPTURES)
def test_a_plan_of_a_capture_is_its_state(name: str) -> None:
    """Whatever pods came and went before: the CPUs are those of the state file, and so is the shared pool."""
    state, made = json.loads(capture(name)[STATE]), asked(name)["plan"]
    holds = {(uid, one): cpus for uid, sets in state.get("entries", {}).items() for one, cpus in sets.items()}
    planned = {
        (pod["uid"], one["name"]): one["assigned"]
        for pod in made["pods"]
        for one in pod["containers"]
        if one.get("assigned")
    }
    assert (planned, made["default_cpus"]) == (holds, state["defaultCpuSet"])


@pytest.mark.parametrize(
    ("start", "pod", "words"),
    [
        ("A2-4", "g1-node1", "runs, and would be refused on an empty node after the pods before it: OutOfcpu"),
        ("B1-5", "gmix-node1", "it would get 2-3 (pinned): Pods that have ended, of which the node keeps no trace"),
        ("B2-4", "g2-node1", "was refused by the node (TopologyAffinityError), and an empty node would have had room"),
    ],
)
def test_where_a_replay_gives_other_cpus_that_is_a_finding_with_its_reason(start: str, pod: str, words: str) -> None:
    """Pods that have ended held CPUs when others came."""
    assert words in found(asked(start))["state-differs", pod]
    assert found(asked("B1-4")) == {}


def test_a_state_over_which_no_kubelet_starts_is_named() -> None:
    """An empty shared pool under strict reservation: the kubelet that runs goes on, the next one does not start."""
    assert "default cpuset cannot be empty" in found(asked("A2-2"))["state-no-restart", "cpu_manager_state"]


def test_new_pods_come_beside_those_that_run(tmp_path: Path) -> None:
    """Where all CPUs are owned they are refused, where some are free they get these; memory is charged, too."""
    small, large = POD.replace("MEMORY", "64Mi"), POD.replace("MEMORY", "400Gi")
    owned = beside(tmp_path, "B1-4", small)
    assert (owned["newg"]["admitted"], owned["newg"]["reason"]) == (False, "OutOfcpu")
    assert owned["g2-node1"]["containers"][0]["assigned"] == "2-3"
    (tmp_path / "b").mkdir()
    free = beside(tmp_path / "b", "B1-5", small)
    assert free["newg"]["containers"][0]["assigned"] == "2-3"
    assert free["gmix-node1"]["containers"][0]["assigned"] == "4-5"
    (tmp_path / "c").mkdir()
    assert not beside(tmp_path / "c", "B1-5", large)["newg"]["admitted"]


def test_one_invalid_manifest_is_refused_and_the_rest_is_planned(tmp_path: Path) -> None:
    """As the API refuses it; a document that is no Pod with a name is an error."""
    bad = POD.replace("newg", "bad").replace('"2"', '"two"').replace("MEMORY", "64Mi")
    less = POD.replace("newg", "less").replace("limits", "requests: {cpu: 3}, limits").replace("MEMORY", "64Mi")
    pods = beside(tmp_path, "B1-5", "---".join((bad, less, POD.replace("MEMORY", "64Mi"))))
    assert {name: pods[name]["reason"] for name in ("bad", "less")} == {"bad": "Invalid", "less": "Invalid"}
    assert "cpu" in pods["bad"]["message"]
    assert pods["newg"]["containers"][0]["assigned"] == "2-3"
    (tmp_path / "none.yaml").write_text("apiVersion: v1\nkind: Pod\nspec: {}\n")
    (path,) = DATA.glob("B1-5*.tar.gz")
    assert pinproof("plan", "--capture", path, "--pods", tmp_path / "none.yaml").exit_code == 2


def written(files: Files, folder: Path) -> Path:
    """Write a capture."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_a_state_that_no_kubelet_reads_is_said_and_not_used(tmp_path: Path) -> None:
    """The plan begins with an empty node then."""
    files = capture("B1-4")
    files[STATE] = files[STATE].replace(b"2-3", b"2-4")
    document = json.loads(pinproof("plan", "--capture", written(files, tmp_path), "--json").stdout)[0]
    assert "corrupted" in found(document)["state-not-read", "cpu_manager_state"] or "cannot unmarshal" in str(document)


def test_a_state_of_an_unknown_version_is_not_read_as_an_older_one(tmp_path: Path) -> None:
    """It is said, and the plan begins with an empty node."""
    files = capture("B1-4")
    files[STATE] = json.dumps(json.loads(files[STATE]) | {"shards": []}).encode()
    document = json.loads(pinproof("plan", "--capture", written(files, tmp_path), "--json").stdout)[0]
    assert "of a version that is not known here" in found(document)["state-not-read", "cpu_manager_state"]


def test_a_device_that_is_not_known_gets_a_word(tmp_path: Path) -> None:
    """Which devices a node has is in none of the files that are asked."""
    (tmp_path / "new.yaml").write_text(POD.replace("MEMORY", "64Mi, intel.com/sriov: 1"))
    (path,) = DATA.glob("B1-5*.tar.gz")
    said = pinproof("plan", "--capture", path, "--pods", tmp_path / "new.yaml").stderr
    assert "no device intel.com/sriov is known here: planned as if it were not asked for: newg" in said


def test_another_configuration_is_asked_about_as_of_an_empty_node(tmp_path: Path) -> None:
    """What pods hold under one configuration says nothing about another."""
    files = capture("B1-5")
    configure(files, 'full-pcpus-only: "true"', 'full-pcpus-only: "false"')
    folder = written(files, tmp_path)
    fresh = pinproof("plan", "--capture", folder, "--kubelet-config", folder / "kubelet/config.yaml", "--json")
    pods = {pod["name"]: pod for pod in json.loads(fresh.stdout)[0]["plan"]["pods"]}
    assert pods["gmix-node1"]["containers"][0]["assigned"] == "2-3"
