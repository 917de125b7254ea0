"""Public captures in which a pod evades a promise, or hides: no healthy node says that, and it must be reported."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.sources.edited import Files, capture, document, failed, judged, part, place, rows
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from toolkit.sources.kubelet.files import cgroups

BE, BU, G1 = "be-node1/main", "bu-node1/main", "g1-node1/main"
JUDGED_BY = ("applied", "layers-agree", "affinity-mask")


def threads_of(threads: list[dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    """The threads in a container's cgroup. :param row: of the claims document."""
    return [thread for thread in threads if any(row["id"] in line for line in thread["cgroup"])]


def rename(files: Files, name: str, comm: str) -> None:
    """Let all threads of a container call themselves so."""
    row = rows(files)[name]
    with part(files, "threads.json") as threads:
        for thread in threads_of(threads, row):
            thread["comm"] = comm


@pytest.mark.parametrize("start", ["B1-3", "D-4"])
@pytest.mark.parametrize("name", [BU, "bu-node1/(pod)"])
def test_a_burst_that_was_not_asked_for_is_reported(start: str, name: str) -> None:
    """No kubelet sets one: with it a container uses more than its quota. On v1 and v2."""
    files = capture(start)
    base = failed(files)
    cgroup = rows(files)[name]["cgroup"]
    if "cgroup.json" in files:
        with part(files, "cgroup.json") as tree:
            tree["cpu"][cgroup]["cpu.cfs_burst_us"] = "20000"
    else:
        files[f"cgroup{cgroup}/cpu.max.burst"] = b"20000"
    more = {key: why for key, why in failed(files).items() if key not in base}
    assert set(more) == {("applied", name)}
    assert "the burst was 20000, promised 0" in more["applied", name]


def test_a_capture_holds_the_burst_of_v1(tmp_path: Path) -> None:
    """As it holds that of v2."""
    for hierarchy, name in (("cpu", "cpu.cfs_burst_us"), ("cpuset", "cpuset.cpus")):
        write(tmp_path, f"{KUBEPODS.replace('cgroup/', f'cgroup/{hierarchy}/')}/pod1/{name}", "20000\n")
    found = cgroups.cgroup_files(tmp_path / "sys/fs/cgroup")
    assert found["cgroup/cpu/kubepods/pod1/cpu.cfs_burst_us"] == b"20000\n"


def add_pod(files: Files, uid: str, annotations: dict[str, str]) -> None:
    """Let the kubelet list a pod that has ended."""
    metadata = {"name": "evil", "namespace": "x", "uid": uid, "annotations": annotations}
    with part(files, "pods.json") as pods:
        pods["items"].append(
            {"metadata": metadata, "spec": {"containers": [{"name": "other"}]}, "status": {"phase": "Succeeded"}}
        )


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"kubernetes.io/config.source": "api"}, id="by-the-api"),
        pytest.param({}, id="of-no-source"),
        pytest.param({"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "x"}, id="as-a-static-pod"),
    ],
)
def test_a_pod_cannot_take_another_ones_uid(annotations: dict[str, str]) -> None:
    """A user who may make a pod writes its annotations: the hash there is no claim on another pod's promise."""
    files = capture("B1-3")
    before = (document(files), judged(files))
    victim = rows(files)["g2-node1/main"]["pod_uid"]
    add_pod(files, "0f0f0f0f-0000-4000-8000-000000000001", {"kubernetes.io/config.hash": victim, **annotations})
    assert (document(files), judged(files)) == before


@pytest.mark.parametrize("annotation", ["kubernetes.io/config.mirror", "kubernetes.io/config.source"])
def test_a_static_pod_goes_by_its_hash(annotation: str) -> None:
    """Its mirror has a uid of its own, its cgroup has the hash."""
    files = capture("B1-3")
    before = document(files)
    with part(files, "pods.json") as pods:
        for pod in pods["items"]:
            metadata = pod["metadata"]
            own = metadata["annotations"]["kubernetes.io/config.hash"]
            metadata["annotations"] = {"kubernetes.io/config.hash": own, annotation: "file"}
            metadata["uid"] = f"mirror-{own}"
    assert document(files) == before


@pytest.mark.parametrize("comm", ["runc:[2:INIT]", "crun"])
def test_a_container_that_runs_cannot_hide_behind_a_runtimes_name(comm: str) -> None:
    """It started minutes ago, by the runtime's word: it is judged as it was before it took the name."""
    files = capture("D-5")
    base = failed(files)
    assert {("layers-agree", BE), ("affinity-mask", BE)} <= set(base)
    rename(files, BE, comm)
    assert set(failed(files)) == set(base)


def test_a_thread_cannot_hide_behind_a_runtimes_name() -> None:
    """One of several, whose mask reaches beyond the container's CPUs."""
    files = capture("D-4")
    row = rows(files)[G1]
    with part(files, "threads.json") as threads:
        more = copy.deepcopy(threads_of(threads, row)[0])
        threads.append(more | {"tid": "99999", "tgid": "99999", "comm": "crun", "cpus": "0-1"})
    assert set(failed(files)) >= {("affinity-mask", G1)}


@pytest.mark.parametrize(
    ("states", "seconds", "outcome"),
    [
        pytest.param("CONTAINER_RUNNING", 5, "skipped", id="runs-since-just-now"),
        pytest.param("CONTAINER_CREATED", 500, "skipped", id="was-created-long-ago-and-does-not-run"),
        pytest.param(None, 500, "skipped", id="protobuf-leaves-out-that-it-was-created"),
        pytest.param("CONTAINER_RUNNING", None, "undecided", id="runs-since-an-unknown-time"),
        pytest.param("", None, "undecided", id="nothing-is-said"),
    ],
)
def test_what_the_runtime_may_be_making_is_by_its_word(states: str | None, seconds: int | None, outcome: str) -> None:
    """Its state, and when it started: within the longest time that a runtime was seen to sit there unpinned."""
    files = capture("D-5")
    rename(files, BE, "runc:[2:INIT]")
    ident = rows(files)[BE]["id"]
    with part(files, "times.json") as times, part(files, "node.json") as node:
        entry = next(one for one in node["containers"]["containers"] if one["id"] == ident)
        status = node["status"][ident]["status"]
        entry["state"] = states
        if states is None:
            del entry["state"]
        del entry["createdAt"], status["startedAt"]
        if seconds is not None:
            entry["createdAt"] = str(int((times["threads_read"] - seconds) * 1e9))
    found = judged(files)
    assert {str(found[rule, BE].outcome) for rule in JUDGED_BY} == {outcome}
    assert not [key for key in failed(files) if key[1] == BE]


def move(files: Files, row: dict[str, Any], *, to: str, told: bool) -> None:
    """Let a container run in another cgroup. :param told: whether the runtime says so."""
    with part(files, "cgroup.json") as tree:
        for groups in tree.values():
            if row["cgroup"] in groups:
                groups[to] = groups.pop(row["cgroup"])
    with part(files, "threads.json") as threads:
        for thread in threads_of(threads, row):
            thread["cgroup"] = [line.replace(row["cgroup"], to) for line in thread["cgroup"]]
    if told:
        with part(files, "node.json") as node:
            node["status"][row["id"]]["cgroupsPath"] = to


@pytest.mark.parametrize(
    ("to", "told"),
    [
        pytest.param("{pod}/other_1", False, id="elsewhere-in-its-pod"),
        pytest.param("/k8s.io/{id}", True, id="outside-of-pods"),
        pytest.param("/k8s.io/{id}", False, id="outside-of-pods-and-not-said"),
    ],
)
def test_a_container_that_runs_and_is_not_found_is_missing(to: str, *, told: bool) -> None:
    """Virtual machines, and a kubelet without cgroups of its own: it is named, and left open."""
    files = capture("D-4")
    row = rows(files)[BU]
    move(files, row, to=to.format(pod=row["cgroup"].rpartition("/")[0], id=row["id"]), told=told)
    missing = {one["part"]: one["reason"] for one in document(files)["missing"]}
    assert "is where the runtime has put it" in missing[BU]
    assert judged(files)["layers-agree", BU].outcome == "undecided"
    assert failed(files) == {}


def test_one_that_started_after_the_cgroups_were_read_is_no_loss() -> None:
    """The runtime's list is read later, and what has ended by its word is none either."""
    files = capture("D-4")
    row = rows(files)[BU]
    move(files, row, to="/k8s.io/x", told=False)
    with part(files, "times.json") as times, part(files, "node.json") as node:
        node["status"][row["id"]]["status"]["startedAt"] = str(int((times["cgroup_read"] + 0.1) * 1e9))
    assert BU not in {one["part"] for one in document(files)["missing"]}
    with part(files, "node.json") as node:
        node["status"][row["id"]]["status"]["startedAt"] = "1"
        entry = next(one for one in node["containers"]["containers"] if one["id"] == row["id"])
        entry["state"] = "CONTAINER_EXITED"
    assert BU not in {one["part"] for one in document(files)["missing"]}


def test_a_list_without_states_loses_no_container_either() -> None:
    """`containers.json` names its path, and the runtime's containers outside of pods, which are none of ours."""
    files = capture("B1-3")
    row = rows(files)[BU]
    with part(files, "containers.json") as listed:
        listed[row["id"]]["cgroupsPath"] = f"/k8s.io/{row['id']}"
        listed["ab" * 32] = {"labels": {}, "cgroupsPath": "/default/own", "type": "container"}
    files = {name: data for name, data in files.items() if row["id"] not in name}
    missing = {one["part"]: one["reason"] for one in document(files)["missing"]}
    assert [name for name in missing if "/" in name] == [BU]
    assert judged(files)["layers-agree", BU].outcome == "undecided"


def leak(files: Files, name: str, cpus: str | None = None, *, pod_too: bool = True) -> str:
    """Let a container live on that the runtime does not know any more. :returns: its name now.

    :param cpus: that it has. :param pod_too: whether the kubelet has forgotten its pod.
    """
    row = rows(files)[name]
    if cpus is not None:
        place(files, row, cpus)
    if "node.json" in files:
        with part(files, "node.json") as node:
            listed = node["containers"]["containers"]
            listed[:] = [one for one in listed if one["id"] != row["id"]]
            del node["status"][row["id"]]
    else:
        with part(files, "containers.json") as named:
            del named[row["id"]]
    if pod_too:
        with part(files, "pods.json") as pods:
            pods["items"] = [pod for pod in pods["items"] if pod["metadata"]["name"] != row["pod"]]
    return next(new for new, found in rows(files).items() if found.get("id") == row["id"])


@pytest.mark.parametrize("comm", ["sh", "pause", "runc:[2:INIT]", "conmon"])
@pytest.mark.parametrize("pod_too", [True, False])
def test_a_leaked_container_on_exclusive_cpus_is_reported(comm: str, *, pod_too: bool) -> None:
    """Runtime and kubelet have forgotten it; it runs on the CPU of another pod, whatever it calls itself."""
    files = capture("D-4")
    rename(files, BU, comm)
    name = leak(files, BU, "1", pod_too=pod_too)
    text = f"in no list of the runtime, and runs on CPU 1, exclusive to {G1}"
    assert text in failed(files)["layers-agree", name]
    del files["pods.json"]
    assert [key for key, why in failed(files).items() if text in why]


@pytest.mark.parametrize(
    ("comm", "cpus", "outcome"),
    [
        pytest.param("pause", "0-1", None, id="a-pod-sandbox-that-is-new"),
        pytest.param("runc:[2:INIT]", "0-1", None, id="one-that-is-being-made"),
        pytest.param("sh", "0", None, id="cpus-without-owner"),
        pytest.param("sh", "0-1", "undecided", id="the-cpus-of-its-pods-cgroup"),
    ],
)
def test_a_cgroup_that_is_not_listed_may_be_normal(comm: str, cpus: str, outcome: str | None) -> None:
    """A pod sandbox is listed only when it is ready, and is never pinned."""
    files = capture("D-4")
    rename(files, BU, comm)
    name = leak(files, BU, cpus)
    found = judged(files)
    verdict = found.get(("layers-agree", name))
    assert (None if verdict is None else str(verdict.outcome)) == outcome
    assert {str(one.outcome) for one in found.values()} == {"passed", "skipped", *([outcome] if outcome else [])}


def test_a_list_that_was_read_later_leaves_a_leak_open() -> None:
    """The container may have ended and been removed meanwhile; or nothing says when the list was read."""
    files = capture("D-4")
    name = leak(files, BU, "1")
    with part(files, "times.json") as times:
        times["end"] += 2.0
    assert judged(files)["layers-agree", name].outcome == "undecided"
    files = capture("A-3")
    assert failed(files) == {}
    name = leak(files, BE, "1")
    assert judged(files)["layers-agree", name].outcome == "undecided"


def test_a_container_that_is_not_found_may_be_the_one_that_is_not_listed() -> None:
    """A virtual machine has a cgroup of its own name, pinned as its containers are; its reconcile may be due."""
    files = capture("D-4")
    row = rows(files)[BU]
    place(files, row, "1")
    move(files, row, to=f"{row['cgroup'].rpartition('/')[0]}/kata_1", told=False)
    found = {subject: str(one.outcome) for (rule, subject), one in judged(files).items() if rule == "layers-agree"}
    assert [found[name] for name in found if name.startswith("bu-node1/")] == ["undecided", "undecided"]
