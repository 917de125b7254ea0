"""A captured node goes on from its state: what its pods hold, and what becomes of pods that come beside them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.sources.edited import DATA, STATE, Files, capture, configure, part

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


def test_another_configuration_is_started_over_the_state(tmp_path: Path) -> None:
    """What pods hold they keep; ``--drained`` asks an empty node; one that does not start over the state is refused."""
    files = capture("B1-5")
    configure(files, 'full-pcpus-only: "true"', 'full-pcpus-only: "false"')
    folder = written(files, tmp_path)
    words = "plan", "--capture", folder, "--kubelet-config", folder / "kubelet/config.yaml", "--json"
    for more, cpus in (((), "4-5"), (("--drained",), "2-3")):
        pods = {pod["name"]: pod for pod in json.loads(pinproof(*words, *more).stdout)[0]["plan"]["pods"]}
        assert pods["gmix-node1"]["containers"][0]["assigned"] == cpus
    configure(files, 'cpuManagerPolicy: "static"', 'cpuManagerPolicy: "none"')
    configure(files, "cpuManagerPolicyOptions:", "x:")
    refused = pinproof(*words[:2], written(files, tmp_path), *words[3:])
    assert (refused.exit_code, "or --drained" in refused.stderr, refused.stderr.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(("more", "reason"), [((), "OutOfpods"), (("--drained",), "")])
def test_a_change_is_asked_about_beside_what_pods_hold(tmp_path: Path, more: tuple[str, ...], reason: str) -> None:
    """A kubelet that is restarted with it: of those that run some find no room any more, and new ones none."""
    (tmp_path / "new.yaml").write_text(POD.replace("MEMORY", "64Mi"))
    (path,) = DATA.glob("B1-5*.tar.gz")
    words = "--capture", path, "--pods", tmp_path / "new.yaml", "--diff", "maxPods=1", "--json"
    document = json.loads(pinproof("plan", *words, *more).stdout)[0]
    pods = {pod["name"]: pod for pod in document["after"]["pods"]}
    assert pods["newg"]["reason"] == reason


def test_a_state_is_not_begun_with_where_no_pods_are_known(tmp_path: Path) -> None:
    """Whose CPUs these are is not known then: that is said."""
    files = capture("B1-5")
    del files["pods.json"]
    (tmp_path / "new.yaml").write_text(POD.replace("MEMORY", "64Mi"))
    said = pinproof("plan", "--capture", written(files, tmp_path / "c"), "--pods", tmp_path / "new.yaml").stderr
    assert "its pods are not known: the plan begins with an empty node" in said


NIC = "example.com/nic"
WANTS = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "1", memory: 64Mi, example.com/nic: 1}}}]}
"""


def device_state(files: Files, taken: dict[str, list[str]], *registered: str) -> None:
    """Write the Device Manager's file: what a container of ``gf-node1`` has, by NUMA node."""
    pods = json.loads(files["pods.json"])["items"]
    (uid,) = (pod["metadata"]["uid"] for pod in pods if pod["metadata"]["name"] == "gf-node1")
    entry = {"PodUID": uid, "ContainerName": "main", "ResourceName": NIC, "DeviceIDs": taken}
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {NIC: list(registered)}}
    files["kubelet/kubelet_internal_checkpoint"] = json.dumps({"Data": data, "checksumOk": True}).encode()


def test_devices_that_are_taken_are_not_given_again(tmp_path: Path) -> None:
    """By the Device Manager's file; a device that pod-resources knows pulls CPUs to its node."""
    files = capture("B1-5")
    configure(files, 'full-pcpus-only: "true"', 'full-pcpus-only: "false"')
    device_state(files, {"0": ["n0"]}, "n0", "n1")
    with part(files, "podresources.json") as said:
        whole = [("n0", 0), ("n1", 1)]
        said["GetAllocatableResources"]["devices"] = [
            {"resourceName": NIC, "deviceIds": [name], "topology": {"nodes": [{"ID": str(node)}]}}
            for name, node in whole
        ]
    (tmp_path / "new.yaml").write_text("---".join(WANTS.replace("NAME", name) for name in ("first", "second")))
    ended = pinproof("plan", "--capture", written(files, tmp_path / "c"), "--pods", tmp_path / "new.yaml", "--json")
    pods = {pod["name"]: pod for pod in json.loads(ended.stdout)[0]["plan"]["pods"]}
    assert "no device" not in ended.stderr
    # CPUs 0-3 are node 0, where n0 is taken; 6-7 are left on node 1.
    assert pods["first"]["containers"][0]["assigned"] in ("6", "7")
    assert (pods["second"]["admitted"], pods["second"]["reason"]) == (False, "TopologyAffinityError")


def test_a_free_device_of_an_old_kubelet_is_planned_beside_those_in_use(tmp_path: Path) -> None:
    """Before v1.23 nothing says where it sits, and one on no node, beside one on node 1, would fit no pod."""
    files = capture("B1-5")
    configure(files, 'full-pcpus-only: "true"', 'full-pcpus-only: "false"')
    device_state(files, {"1": ["n0"]}, "n0", "n1")
    with part(files, "podresources.json") as said:
        said["GetAllocatableResources"] = None
    (tmp_path / "new.yaml").write_text(WANTS.replace("NAME", "first"))
    ended = pinproof("plan", "--capture", written(files, tmp_path / "c"), "--pods", tmp_path / "new.yaml", "--json")
    pods = {pod["name"]: pod for pod in json.loads(ended.stdout)[0]["plan"]["pods"]}
    assert pods["first"]["containers"][0]["assigned"] in ("6", "7")
    assert "planned as if on NUMA node 1, where those in use are: first" in ended.stderr


@pytest.mark.parametrize("form", ["V1", "unread", "torn", "edited"])
def test_devices_are_known_by_older_files_and_by_pod_resources(tmp_path: Path, form: str) -> None:
    """Lists without NUMA nodes, before v1.20; where the file makes no sense the other word counts."""
    files = capture("B1-5")
    device_state(files, {}, "n0")
    if form == "V1":
        name = "kubelet/kubelet_internal_checkpoint"
        files[name] = files[name].replace(b'"DeviceIDs": {}', b'"DeviceIDs": ["n0"]')
        with part(files, "podresources.json") as said:
            said["GetAllocatableResources"] = None
    else:
        files["kubelet/kubelet_internal_checkpoint"] = b"{" if form == "torn" else b'{"checksumOk": false}'
        with part(files, "podresources.json") as said:
            (pod,) = (one for one in said["List"]["podResources"] if one["name"] == "gf-node1")
            pod["containers"][0]["devices"] = [{"resourceName": NIC, "deviceIds": ["n0"]}]
    if form == "unread":
        del files["kubelet/kubelet_internal_checkpoint"]
    (tmp_path / "new.yaml").write_text(WANTS.replace("NAME", "first").replace('cpu: "1"', "cpu: 100m"))
    ended = pinproof("plan", "--capture", written(files, tmp_path / "c"), "--pods", tmp_path / "new.yaml", "--json")
    pods = {pod["name"]: pod for pod in json.loads(ended.stdout)[0]["plan"]["pods"]}
    assert "requested number of devices unavailable for example.com/nic" in pods["first"]["message"]
    assert ("where free devices example.com/nic sit is not known here" in ended.stderr) is (form == "V1")
