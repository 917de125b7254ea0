"""Public captures with one thing changed: what must be reported then, and what is normal."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.sources.edited import (
    CONFIG,
    DATA,
    STATE,
    Files,
    asked,
    capture,
    configure,
    document,
    failed,
    judged,
    part,
    place,
    rows,
    write_state,
)
from toolkit.allocation.checkpoint.format import fnv32a
from toolkit.cli.claims import command as claims_command
from toolkit.cli.judge import command as judge_command
from toolkit.errors import InputError
from toolkit.sources.claims_file import parse_claims
from toolkit.sources.claims_yaml import claims_yaml
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_capture, reading_of

G1 = "g1-node1/main"
BE = "be-node1/main"


@pytest.mark.parametrize("start", ["A-2", "D-3"])
@pytest.mark.parametrize("default", ["", "0-1"])
def test_a_fresh_state_file_promises_no_quota(start: str, default: str) -> None:
    """A kubelet whose file was deleted starts anew; containers keep what they had: no quota, their CPUs."""
    files = capture(start)
    write_state(files, default)
    assert failed(files) == {}
    found = rows(files)
    pod = next(row for row in found.values() if row["name"] == "g1-node1/(pod)")
    assert (found[G1]["quota_us"], pod["quota_us"]) == (None, None)


def test_a_state_file_without_entries_is_behind_the_kubelets_other_words() -> None:
    """Its gauges and its pod-resources API tell of what it knew before, or know more already."""
    files = capture("A2-4")
    base = failed(files)
    for default in ("", "1"):
        write_state(files, default)
        assert set(failed(files)) <= set(base)
    files = capture("A-2")
    del files["podresources.json"]
    write_state(files, "")
    assert failed(files) == {}


def test_a_quota_that_is_not_disputed_is_promised() -> None:
    """A container that asks for no CPUs of its own has its quota whatever the state file has forgotten."""
    files = capture("D-3")
    write_state(files, "0-1")
    assert rows(files)["bu-node1/main"]["quota_us"] == 30_000


def test_a_crash_looping_owner_still_has_no_quota_above_it() -> None:
    """Its pod's cgroup has none as long as the state file has an entry for it; a sibling keeps its own."""
    files = capture("B1-4")
    ident = rows(files)["gmix-node1/pinned"]["id"]
    files = {name: data for name, data in files.items() if ident not in name}
    assert rows(files)["gmix-node1/(pod)"]["quota_us"] == -1
    assert set(failed(files)) == set(failed(capture("B1-4")))


def test_a_spoilt_state_file_condemns_no_container() -> None:
    """Its checksum is wrong: rule checkpoint says so, and nothing that it says is promised."""
    files = capture("D-3")
    files[STATE] = files[STATE].replace(b'"defaultCpuSet":"0"', b'"defaultCpuSet":"0-7"').replace(b":1}", b":5}")
    files[STATE] = files[STATE].replace(b'"main":"1"', b'"main":"0"')
    assert set(failed(files)) == {("checkpoint", "cpu_manager_state")}
    assert {row["state_cpus"] for row in document(files)["claims"] if "state_cpus" in row} == {None}
    assert any(row["part"] == "cpu_state" and "checksum" in row["reason"] for row in document(files)["missing"])


@pytest.mark.parametrize(
    ("start", "name", "cpus"),
    [
        pytest.param("B1-4", BE, "7", id="one-shared-container"),
        pytest.param("D-3", "all", "0", id="all-of-them-with-the-cgroups-above"),
    ],
)
def test_a_cpuset_that_was_narrowed_is_drift(start: str, name: str, cpus: str) -> None:
    """Threads have the narrow set, too: no reconcile came between, however the kubelet's word was read."""
    files = capture(start)
    if name == "all":
        # A CPU was unplugged and is back: no v1 cpuset gets it again.
        write_state(files, "0-1")
        for row in rows(files).values():
            if "id" in row:
                place(files, row, "0")
        with part(files, "cgroup.json") as tree:
            for controls in tree["cpuset"].values():
                controls |= {"cpuset.cpus": "0", "cpuset.effective_cpus": "0"}
    else:
        place(files, rows(files)[name], cpus)
    found = failed(files)
    assert "cri and cgroup differ" in found["layers-agree", BE]


@pytest.mark.parametrize("before", [pytest.param("6", id="grown"), pytest.param("4-7", id="shrunk")])
def test_a_pool_that_changed_between_the_readings_is_no_drift(before: str) -> None:
    """The runtime's list was read later than cgroups and threads: all of them differ alike, one would not."""
    files = capture("B1-4")
    base = failed(files)
    shared = (BE, "bu-node1/main", "gf-node1/main", "gmix-node1/frac")
    known = rows(files)
    for name in shared:
        place(files, known[name], before)
    assert failed(files) == base
    verdict = judged(files)["layers-agree", BE]
    assert (verdict.outcome, "all shared containers" in verdict.reason) == ("undecided", True)
    place(files, known[BE], "6-7")
    assert {("layers-agree", name) for name in shared[1:]} <= set(failed(files))


def test_an_unpinned_container_of_an_empty_pool_is_on_reserved_cpus_too() -> None:
    """Strict reservation, no CPU left: a new container gets no cpuset at all."""
    files = capture("A2-4")
    place(files, rows(files)[BE], "0-1")
    asked(files, rows(files)[BE], "")
    assert "reserved CPU 0" in failed(files)["layers-agree", BE]


@pytest.mark.parametrize(
    ("policy", "message", "reported"),
    [
        ("single-numa-node", "", True),
        ("restricted", "", True),
        ("best-effort", "", False),
        ("none", "", False),
        ("restricted", "Allocate failed due to not enough cpus available to satisfy request: requested=2", True),
        ("restricted", "preemption: error finding a set of pods to preempt: [(res: cpu, q: 200), ]", False),
        ("restricted", "Allocate failed due to requested number of devices unavailable", False),
    ],
)
def test_a_misleading_rejection_is_named(policy: str, message: str, *, reported: bool) -> None:
    """UnexpectedAdmissionError where the Topology Manager's policy promises a TopologyAffinityError."""
    files = capture("B1-4")
    configure(files, 'topologyManagerPolicy: "single-numa-node"', f'topologyManagerPolicy: "{policy}"')
    with part(files, "pods.json") as pods:
        for pod in pods["items"]:
            if pod["metadata"]["name"] == "gbigmem-node1" and message:
                pod["status"]["message"] = message
    assert (("layers-agree", "gbigmem-node1") in failed(files)) is reported


@pytest.mark.parametrize(("reason", "reported"), [("UnexpectedAdmissionError", True), ("TopologyAffinityError", False)])
def test_a_rejection_with_the_documented_reason_is_none(reason: str, *, reported: bool) -> None:
    """KPL-25 on a real node: a person who reads the pod's status is told the truth, whatever the message blames."""
    files = capture("B1-4")
    with part(files, "pods.json") as pods:
        next(pod for pod in pods["items"] if pod["metadata"]["name"] == "gbigmem-node1")["status"]["reason"] = reason
    assert (("layers-agree", "gbigmem-node1") in failed(files)) is reported


def test_without_its_evidence_nothing_passes() -> None:
    """The state file of a static policy, and every layer that promises."""
    files = capture("D-3")
    del files[STATE]
    verdict = judged(files)["checkpoint", "cpu_manager_state"]
    assert verdict.outcome == "undecided"
    del files["node.json"]
    found = [one for (rule, subject), one in judged(files).items() if rule == "layers-agree" and "/" in subject]
    assert found
    assert {one.outcome for one in found} == {"undecided"}


@pytest.mark.parametrize(("arguments", "known"), [("--config=/etc/k.yaml\0", False), ("--v=4\0", True)])
def test_a_named_configuration_that_was_not_read_is_not_the_default(arguments: str, *, known: bool) -> None:
    """The kubelet has one, and what it says is not known; of one that names none the defaults hold."""
    files = capture("D-4")
    del files[CONFIG]
    files["kubelet/cmdline"] = f"kubelet\0{arguments}".encode()
    verdict = judged(files)["checkpoint", "cpu_manager_state"]
    assert (verdict.outcome == "failed", "configured is none" in verdict.reason) == (known, known)
    assert any(row["part"] == "config" for row in document(files)["missing"]) is not known


def test_a_policy_that_promises_nothing_leaves_nothing_open() -> None:
    """Policy none: no state file is needed, and no CPUs are promised."""
    files = capture("D-3")
    del files[STATE]
    configure(files, 'cpuManagerPolicy: "static"', 'cpuManagerPolicy: "none"')
    with part(files, "node.json") as node:
        for status in node["status"].values():
            status["status"]["resources"]["linux"].pop("cpusetCpus", None)
    found = [one for (rule, subject), one in judged(files).items() if rule in ("checkpoint", "layers-agree")]
    assert {one.outcome for one in found if not one.subject.startswith("g1")} == {"passed", "skipped"}


@pytest.mark.parametrize("name", ["kubelet/memory_manager_state", "podresources.json", "threads.json"])
def test_any_part_is_a_capture(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(capture("A-2")[name])
    result = CliRunner().invoke(judge_command, ["--capture", str(tmp_path)])
    assert result.exit_code == 3, result.output
    result = CliRunner().invoke(claims_command, ["--capture", str(tmp_path)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("answer", ["no list", "no status", "null"])
def test_an_answer_without_containers_is_missing(answer: str) -> None:
    files = capture("D-3")
    with part(files, "node.json") as node:
        if answer == "no status":
            node["status"] = {}
        else:
            node["containers"] = {} if answer == "no list" else None
    missing = {part.part: part.reason for part in node_claims(reading_of(files)).missing}
    assert ("status" if answer == "no status" else "no containers") in missing["containers"]


@pytest.mark.parametrize("comm", ["runc-webhook", "runc:[9:EVIL]", "crun-server", "conmon", "youki"])
def test_only_a_runtimes_own_names_excuse_a_thread(comm: str) -> None:
    """A workload may call itself by the beginning of one."""
    files = capture("D-3")
    ident = rows(files)[G1]["id"]
    with part(files, "threads.json") as threads:
        for thread in threads:
            if any(ident in line for line in thread["cgroup"]):
                thread |= {"comm": comm, "cpus": "0-1"}
    assert ("affinity-mask", G1) in failed(files)


@pytest.mark.parametrize(("start", "outcome"), [("A-2", "undecided"), ("D-3", "skipped")])
def test_a_container_that_is_being_made_is_normal(start: str, outcome: str) -> None:
    """`runc init` sits in its cgroup before anything is written there: no set, no limits. A list that says neither
    states nor times does not say either that it is being made.
    """
    files = capture(start)
    row = rows(files)[G1]
    place(files, row, "0-1")
    for name in files:
        if row["id"] in name and name.endswith(("limit_in_bytes", "cpu.shares")):
            files[name] = b"9223372036854771712" if name.endswith("bytes") else b"1024"
    with part(files, "threads.json") as threads:
        for thread in threads if isinstance(threads, list) else threads.values():
            if row["id"] in str(thread["cgroup"]):
                thread["comm"] = "runc:[2:INIT]"
                for own in thread.get("threads", {}).values():
                    own["comm"] = "runc:[2:INIT]"
    assert failed(files) == {}
    found = judged(files)
    assert {str(found[rule, G1].outcome) for rule in ("layers-agree", "applied", "affinity-mask")} == {outcome}


@pytest.mark.parametrize(
    ("start", "began_s", "cpus", "outcome"),
    [
        ("A-2", None, "0-1", "undecided"),
        ("D-3", 5, "0-1", "skipped"),
        ("D-3", 500, "0-1", "failed"),
        pytest.param("D-3", 5, "", "failed", id="a-cpu-that-went-offline-took-its-set"),
    ],
)
def test_a_container_that_ended_while_it_was_made_is_normal(
    start: str, began_s: int | None, cpus: str, outcome: str
) -> None:
    """Its cgroup has what the runtime copies from the one above, and no task is in it any more."""
    files = capture(start)
    row = rows(files)[G1]
    place(files, row, cpus)
    with part(files, "threads.json") as threads:
        for key in [key for key in threads if row["id"] in str(threads[key])] if isinstance(threads, dict) else ():
            del threads[key]
        if isinstance(threads, list):
            threads[:] = [one for one in threads if row["id"] not in str(one)]
    if began_s is not None:
        with part(files, "times.json") as times, part(files, "node.json") as node:
            status = node["status"][row["id"]]["status"]
            status["startedAt"] = str(int((times["threads_read"] - began_s) * 1e9))
    found = judged(files)
    assert {str(found[rule, G1].outcome) for rule in ("layers-agree", "applied")} == {outcome}


def test_an_archive_without_its_end_is_truncated(tmp_path: Path) -> None:
    """Cut between two members it would look like a whole one."""
    source = gzip.decompress(next(DATA.glob("D-3*.tar.gz")).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(source)) as archive:
        end = archive.getmembers()[3].offset
    path = tmp_path / "cut.tar.gz"
    path.write_bytes(gzip.compress(source[:end]))
    with pytest.raises(InputError, match="truncated"):
        read_capture(path)
    path.write_bytes(gzip.compress(source))
    assert read_capture(path).cgroups


def rewritten(files: Files, *, wrong: int = 0, **more: object) -> Files:
    """The same node under v1.37: its CPU Manager's file is V4. :param wrong: what its checksum is off by."""
    state = json.loads(files[STATE])
    body = {key: state[key] for key in ("policyName", "defaultCpuSet", "entries", "podEntries") if key in state}
    data = json.dumps(body, separators=(",", ":"))
    checksum = fnv32a(f"(string){data}") ^ wrong
    return {
        **files,
        STATE: json.dumps({**body, "checksum": 0, "data": data, "dataChecksum": checksum, **more}).encode(),
    }


@pytest.mark.parametrize("start", ["A-2", "A2-4", "B1-4", "B2-2", "D-5"])
def test_a_state_file_of_v137_is_judged_as_one_before_it(start: str) -> None:
    """V4 says the same, with the content once more as text."""
    files = capture(start)
    before, after = judged(files), judged(rewritten(files))
    assert {key: one.outcome for key, one in before.items()} == {key: one.outcome for key, one in after.items()}
    assert after["checkpoint", "cpu_manager_state"].measures["version"] == 4


VF: dict[str, Any] = {
    "resourceName": "intel.com/sriov",
    "deviceIds": ["0000:81:00.1"],
    "topology": {"nodes": [{"ID": "1"}]},
}
GPU = {
    "claimName": "gpu",
    "claimNamespace": "default",
    "claimResources": [
        {
            "cdiDevices": [{"name": "example.com/gpu=0"}],
            "driverName": "gpu.example.com",
            "poolName": "node-1",
            "deviceName": "gpu-0",
        }
    ],
}


def with_devices(files: Files, pod: str, container: str, **said: object) -> Files:
    """The same node, whose kubelet gave a container devices."""
    files = dict(files)
    with part(files, "podresources.json") as answers:
        found = (one for one in answers["List"]["podResources"] if one["name"] == pod)
        next(one for one in next(found)["containers"] if one["name"] == container).update(said)
    return files


@pytest.mark.parametrize(
    ("policy", "scope", "container", "node", "outcome"),
    [
        ("single-numa-node", "container", "pinned", 1, "passed"),
        ("single-numa-node", "container", "pinned", 0, "failed"),
        ("single-numa-node", "pod", "pinned", 0, "failed"),
        ("single-numa-node", "container", "frac", 1, "failed"),
        ("single-numa-node", "pod", "frac", 0, "failed"),
        ("restricted", "container", "pinned", 0, "skipped"),
        ("best-effort", "pod", "pinned", 0, "skipped"),
        ("none", "container", "pinned", 0, "skipped"),
    ],
)
def test_a_device_sits_where_the_policy_aligns_it(
    policy: str, scope: str, container: str, node: int, outcome: str
) -> None:
    """``pinned`` owns CPUs 4-5 and memory of node 1, ``frac`` of its pod memory of node 0."""
    files = capture("B1-4")
    configure(files, 'topologyManagerPolicy: "single-numa-node"', f'topologyManagerPolicy: "{policy}"')
    configure(files, 'topologyManagerScope: "container"', f'topologyManagerScope: "{scope}"')
    place = {"nodes": [{"ID": str(node)}] if node else [{}]}
    files = with_devices(files, "gmix-node1", container, devices=[VF | {"topology": place}])
    name = f"gmix-node1/{container}"
    verdict = judged(files)["device-numa", name]
    assert (verdict.outcome, verdict.measures[f"device_{VF['deviceIds'][0]}_node"]) == (outcome, str(node))
    (row,) = (one for one in document(files)["claims"] if one["name"] == name)
    aligned = scope if policy == "single-numa-node" else None
    device = {"id": "0000:81:00.1", "resource": "intel.com/sriov", "numa_nodes": [node], "aligned": aligned}
    assert row["assigned_devices"] == [{"claim": "", "cdi": [], **device}]


@pytest.mark.parametrize(("version", "aligned"), [("v1.22.9", None), ("", None), ("v1.23.0", "container")])
def test_node_0_of_an_old_kubelet_is_no_statement(version: str, aligned: str | None) -> None:
    """Before v1.23 a device without a NUMA node is stated there: what nothing aligned must not fail."""
    files = with_devices(capture("B1-4"), "gmix-node1", "pinned", devices=[VF | {"topology": {"nodes": [{}]}}])
    del files["metrics_managers.txt"]
    files["capture.json"] = json.dumps({"kubelet_version": version}).encode()
    (row,) = (one for one in document(files)["claims"] if one["name"] == "gmix-node1/pinned")
    assert [one["aligned"] for one in row["assigned_devices"]] == [aligned]
    assert judged(files)["device-numa", "gmix-node1/pinned"].outcome == ("failed" if aligned else "skipped")


def test_claims_of_dra_are_carried_and_not_promised() -> None:
    """Driver, pool and device, and what the runtime is given; a kubelet before v1.34 names this alone."""
    files = with_devices(capture("B1-4"), "g2-node1", "main", dynamicResources=[GPU])
    (row,) = (one for one in document(files)["claims"] if one["name"] == "g2-node1/main")
    (device,) = row["assigned_devices"]
    assert (device["id"], device["claim"], device["cdi"]) == (
        "gpu.example.com/node-1/gpu-0",
        "default/gpu",
        ["example.com/gpu=0"],
    )
    assert judged(files)["device-numa", "g2-node1/main"].outcome == "skipped"
    said = node_claims(reading_of(files)).claims
    again = parse_claims(claims_yaml(said), "-")
    assert [one.assigned_devices for one in again.claims] == [one.assigned_devices for one in said.claims]


def test_the_kernels_word_of_a_captured_device_is_before_its_plugins() -> None:
    """``sysfs.txt`` has the NUMA nodes of PCI devices."""
    files = with_devices(capture("B1-4"), "g2-node1", "main", devices=[VF | {"topology": {"nodes": [{}]}}])
    assert judged(files)["device-numa", "g2-node1/main"].outcome == "passed"
    files["sysfs.txt"] += b"/sys/bus/pci/devices/0000:81:00.1/numa_node: 1\n"
    assert "sits on node 1 (by its plugin on 0)" in judged(files)["device-numa", "g2-node1/main"].reason


@pytest.mark.parametrize(
    "wrong",
    [{"deviceIds": "x"}, {"deviceIds": [1]}, {"topology": {"nodes": {}}}, {"topology": {"nodes": [{"ID": "x"}]}}],
)
def test_devices_of_another_form_are_a_missing_part(wrong: dict[str, object]) -> None:
    """What the kubelet said is not known then."""
    files = with_devices(capture("B1-4"), "g2-node1", "main", devices=[VF | wrong])
    assert any(row["part"] == "pod_resources" for row in document(files)["missing"])


def test_containers_of_the_systems_partition_are_known_and_their_cpus_are_not_promised() -> None:
    """v1.37 has pods of the system below ``kubepods/system``, with CPUs that are not the shared pool's."""
    files, old = capture("B1-4"), "kubepods/besteffort"
    moved = {
        name.replace(old, "kubepods/system/besteffort"): data.replace(old.encode(), b"kubepods/system/besteffort")
        for name, data in files.items()
    }
    name = "be-node1/main"
    (row,) = (one for one in document(moved)["claims"] if one["name"] == name)
    assert ("/system/besteffort/" in row["cgroup"], row["cpus"], row["state_cpus"]) == (True, None, None)
    reason = next(one["reason"] for one in document(moved)["missing"] if one["part"] == "partition")
    assert "the CPUs of 1 container in kubepods/system (be-node1/main): nothing is promised about them" in reason
    assert not [key for key in failed(moved) if key[1] == name]


@pytest.mark.parametrize(("whole", "words"), [("4567", ""), ("457", "against 7")])
def test_pod_resources_of_v137_name_what_a_pod_has_as_a_whole(whole: str, words: str) -> None:
    """Containers that share of it have nothing of their own there: what they share is what no other of the pod owns."""
    files = rewritten(capture("B2-2"))
    before = judged(files)
    with part(files, "podresources.json") as said:
        (pod,) = (one for one in said["List"]["podResources"] if one["name"] == "plr-node1")
        pod |= {"cpuIds": list(whole)}
        for container in pod["containers"]:
            if container["name"] != "main":
                del container["cpuIds"], container["memory"]
    files["capture.json"] = json.dumps({"kubelet_version": "v1.37.0"}).encode()
    assert failed(files) == {}
    after = judged(files)
    changed = [key for key, one in after.items() if one.outcome != before[key].outcome]
    assert bool(changed) is bool(words)
    pods = [one for (rule, name), one in after.items() if rule == "layers-agree" and name.startswith("plr-node1/")]
    assert any(words in one.reason for one in pods)
    assert all("pod-resources_cpus" in one.measures for one in pods)


def test_a_spoilt_v4_fails_and_an_unknown_version_is_undecided() -> None:
    """A kubelet does not start from the one; what the other promises is not known, and nothing is made of it."""
    spoilt = judged(rewritten(capture("B2-2"), wrong=1))["checkpoint", "cpu_manager_state"]
    assert (spoilt.outcome, "checksum" in spoilt.reason) == ("failed", True)
    files = rewritten(capture("B2-2"), shards=[])
    found = judged(files)
    unknown = found["checkpoint", "cpu_manager_state"]
    assert (unknown.outcome, "of a version that is not known here: it has shards" in unknown.reason) == (
        "undecided",
        True,
    )
    assert "failed" not in {one.outcome for one in found.values()}
    assert not any(row["cpus"] for row in rows(files).values())
