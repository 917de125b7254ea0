"""Requests on a node whose list of pods is off, as it is by default; and containers that have none."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.sources.edited import Files, allocations, capture, document, failed, part, rows
from tests.unit.toolkit.sources.made_node import files_of, write
from toolkit.cli.claims import command as claims_command
from toolkit.sources.kubelet.reading import read_live
from toolkit.sources.places import Places

ALLOCATED, ACTUATED = "kubelet/allocated_pods_state", "kubelet/actuated_pods_state"
DEBUG = "de" * 32
PROMISES = ("kind", "quota_us", "period_us", "shares", "memory_bytes", "isolation")


def promises(files: Files) -> dict[str, list[object]]:
    """What is promised beside CPU sets, by name."""
    return {name: [row[key] for key in PROMISES] for name, row in rows(files).items()}


def without_manifests(files: Files) -> Files:
    return {name: data for name, data in files.items() if "/manifests/" not in name and "/pods/" not in name}


@pytest.mark.parametrize("start", ["D-3", "B1-4", "A2-4"])
def test_a_node_without_its_list_of_pods_promises_the_same(start: str) -> None:
    """What the kubelet has allocated, and the manifests of static pods, say what the pods ask for."""
    files = capture(start)
    listed = promises(files)
    del files["pods.json"]
    found = promises(files)
    alive = {name for name in listed if not name.startswith("g1slow")}  # an ended pod's manifest is gone
    assert {name: found[name] for name in alive} == {name: listed[name] for name in alive}


def test_allocations_alone_are_enough_for_containers() -> None:
    """Roles are not in it: of an init container that ends nothing is known, so no pod's sum is promised."""
    files = without_manifests(capture("D-3"))
    listed = promises(files)
    del files["pods.json"]
    found = promises(files)
    assert {name: row for name, row in listed.items() if not name.endswith("/(pod)")} == found


def test_an_allocation_wins_over_a_manifest() -> None:
    """A resize changed it."""
    files = capture("D-3")
    del files["pods.json"]
    with allocations(files) as entries:
        for entry in entries.values():
            for resources in entry["ContainerResources"].values():
                if resources.get("limits", {}).get("cpu") == "300m":
                    resources["limits"]["cpu"] = "200m"
    files[ACTUATED] = files[ALLOCATED]
    assert rows(files)["bu-node1/main"]["quota_us"] == 20_000


@pytest.mark.parametrize("listed", [True, False])
def test_an_ephemeral_container(tmp_path: Path, *, listed: bool) -> None:
    """By the pod's own list; else by what the kubelet has not allocated. It is in the shared pool of the node."""
    files = capture("D-3")
    before = rows(files)["bu-node1/main"]
    with part(files, "node.json") as node:
        entry = next(one for one in node["containers"]["containers"] if one["id"] == before["id"])
        labels = entry["labels"] | {"io.kubernetes.container.name": "debug"}
        node["containers"]["containers"].append(entry | {"id": DEBUG, "labels": labels})
        status = copy.deepcopy(node["status"][before["id"]])
        node["status"][DEBUG] = status | {"cgroupsPath": before["cgroup"].replace(before["id"], DEBUG)}
    with part(files, "cgroup.json") as tree:
        for groups in tree.values():
            for path in [path for path in groups if path.endswith(before["id"])]:
                groups[path.replace(before["id"], DEBUG)] = groups[path]
    if listed:
        with part(files, "pods.json") as pods:
            spec = next(pod["spec"] for pod in pods["items"] if pod["metadata"]["name"] == "bu-node1")
            spec["ephemeralContainers"] = [{"name": "debug"}]
    else:
        del files["pods.json"]
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    result = CliRunner().invoke(claims_command, ["--capture", str(tmp_path), "--json"])
    found = {row["name"]: row for row in json.loads(result.stdout)["claims"]}
    assert found["bu-node1/debug"]["kind"] == "ephemeral"
    assert (found["bu-node1/debug"]["isolation"], found["bu-node1/debug"]["state_cpus"]) == ("host", "0")
    assert {found[name]["kind"] for name in ("bu-node1/main", "g1-node1/main")} == {"container"}
    assert failed(files) == {}


@pytest.mark.parametrize("text", ["", "{", '{"data": 7}', '{"data": "{"}', '{"data": "{\\"entries\\": [1]}"}'])
def test_a_damaged_allocation_is_none(text: str) -> None:
    files = without_manifests(capture("D-3"))
    del files["pods.json"]
    files[ALLOCATED] = text.encode()
    assert document(files)["claims"]


def test_a_live_node_says_what_it_has_allocated(tmp_path: Path) -> None:
    """And what of it is in force: both are read, and so captured."""
    root = tmp_path / "root"
    files_of(root, "unix:///nowhere")
    data = {"entries": {"u-1": {"ContainerResources": {"main": {"limits": {"cpu": "2"}}}}}}
    write(root, "var/lib/own/allocated_pods_state", json.dumps({"data": json.dumps(data), "checksum": 1}))
    write(root, "var/lib/own/actuated_pods_state", "{}")
    reading = read_live(Places(root=root))
    assert reading.allocated_pods is not None
    assert reading.actuated_pods == "{}"
    assert json.loads(json.loads(reading.allocated_pods)["data"]) == data


def wants(files: Files, name: str, limit: str) -> None:
    """Let the list of pods hold a resize that has not been allocated."""
    with part(files, "pods.json") as pods:
        pod = next(one for one in pods["items"] if one["metadata"]["name"] == name)
        main = next(one for one in pod["spec"]["containers"] if one["name"] == "main")
        had = copy.deepcopy(main["resources"])
        main["resources"]["limits"]["cpu"] = limit
        pod["status"]["conditions"].append({"type": "PodResizePending", "status": "True", "reason": "Deferred"})
        next(one for one in pod["status"]["containerStatuses"] if one["name"] == "main")["resources"] = had


@pytest.mark.parametrize("allocated", [True, False])
def test_a_resize_that_waits_is_not_promised(*, allocated: bool) -> None:
    """What was allocated holds, else what the status says; the list of pods has what was asked for."""
    files = capture("D-3")
    before = promises(files)
    wants(files, "bu-node1", "600m")
    if not allocated:
        del files[ALLOCATED]
    assert promises(files) == before
    assert failed(files) == {}


OVERHEAD = {"cpu.max": "75000 100000", "cpu.weight": "18", "memory.max": str(224 << 20)}


@pytest.mark.parametrize("plain", [None, *OVERHEAD])
def test_the_overhead_of_a_runtime_class_is_the_pods(plain: str | None) -> None:
    """The kubelet adds it to the requests and to the limits of the pod's cgroup; its containers have theirs."""
    files = capture("B1-3")
    own = rows(files)["bu-node1/(pod)"]
    with part(files, "pods.json") as pods:
        spec = next(pod["spec"] for pod in pods["items"] if pod["metadata"]["name"] == "bu-node1")
        spec["overhead"] = {"cpu": "250m", "memory": "160Mi"}
    for name, value in OVERHEAD.items():
        if name != plain:
            files[f"cgroup{own['cgroup']}/{name}"] = value.encode()
    wrong = {subject for rule, subject in failed(files) if rule == "applied"}
    assert wrong == ({"bu-node1/(pod)"} if plain else set())


@pytest.mark.parametrize("said", ["actuated", "status", "nowhere"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_resize_under_way_promises_neither_value(said: str, *, listed: bool) -> None:
    """What is allocated is not in force yet; what does not change is promised as before."""
    if said == "status" and not listed:
        return
    files = capture("D-4")
    with allocations(files) as entries:
        for own in (resources for entry in entries.values() for resources in entry["ContainerResources"].values()):
            if (own.get("limits", {}).get("memory"), own.get("requests", {}).get("cpu")) == ("64Mi", "0"):
                own["limits"]["memory"] = "32Mi"
    if said != "actuated":
        del files[ACTUATED]
    if said == "status":
        with part(files, "pods.json") as pods:
            pod = next(one for one in pods["items"] if one["metadata"]["name"] == "bu-node1")
            pod["status"]["conditions"].append({"type": "PodResizeInProgress", "status": "True", "reason": "Error"})
    if not listed:
        del files["pods.json"]
    found = rows(files)
    names = ("bu-node1/main", "bu-node1/(pod)")
    assert [found[name]["quota_us"] for name in names] == [30_000] * 2
    known = said != "nowhere"
    assert [found[name]["memory_bytes"] for name in names] == [None if known else 32 << 20] * 2
    assert (("applied", names[0]) in failed(files)) == (not known)


MANIFEST = """apiVersion: v1
kind: Pod
metadata: {name: bu, namespace: default}
spec:
  containers:
  - name: main
    resources: {limits: {cpu: 300m, memory: 64Mi}, requests: {cpu: "0", memory: 32Mi}}
  - name: helper
    resources: {limits: {cpu: 700m, memory: 64Mi}, requests: {cpu: 200m, memory: 32Mi}}
"""
HASH, OWN = "f754fadd9fb70c85b5a90565f5025c0e", "f754fadd-9fb7-4c85-b5a9-0565f5025c0e"


@pytest.mark.parametrize(("uid", "own"), [(OWN, ""), (OWN, OWN), (HASH, "")])
def test_a_manifest_is_that_of_a_static_pod_alone(uid: str, own: str) -> None:
    """A static pod goes by the manifest's own UID or by a hash; one of the API server may begin with the same name."""
    files = capture("D-4")
    del files["pods.json"]
    for name in ("node.json", "cgroup.json", "threads.json", ALLOCATED):
        files[name] = files[name].replace(b"bu-node1", b"bu-7c9d-x2").replace(HASH.encode(), uid.encode())
    given = f", uid: {own}" if own else ""
    files["kubelet/manifests/bu.yaml"] = MANIFEST.replace("{name: bu", f"{{name: bu{given}").encode()
    static = bool(own) or uid == HASH
    assert ("bu-7c9d-x2/(pod)" in rows(files)) == static
    assert rows(files)["bu-7c9d-x2/main"]["quota_us"] == 30_000
    assert (("applied", "bu-7c9d-x2/(pod)") in failed(files)) == static  # It runs one container of two.
