"""Today's kubelet, and the node as it is: a row each of what was answered wrongly once, through the two doors.

A captured node of v1.36.2 with one thing changed is judged, and asked what becomes of a new pod.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.sources.edited import (
    STATE,
    Files,
    capture,
    configure,
    failed,
    judged,
    part,
    place,
    rows,
    unmanaged,
)
from tests.unit.toolkit.sources.pinners import cache, cached
from toolkit.allocation.checkpoint.format import text_checksum
from toolkit.sources import nri

BE, G2 = "be-node1/main", "g2-node1/main"
NEW = """
apiVersion: v1
kind: Pod
metadata: {name: newg}
spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "2", memory: 64Mi}}}]}
"""
BUDGET = NEW.replace("{containers: [{name: main, image: x, resources: {", "{resources: {").replace(
    "64Mi}}}]}", "64Mi}}, containers: [{name: main, image: x}]}"
)


def as_v4(files: Files, off_by: int = 0) -> None:
    """A state file of v1.37: its content once more as text, with that text's checksum."""
    said = json.loads(files[STATE])
    body = {key: said[key] for key in ("policyName", "defaultCpuSet", "entries") if key in said}
    data = json.dumps(body)
    files[STATE] = json.dumps(
        {**body, "checksum": 0, "data": data, "dataChecksum": text_checksum(data) ^ off_by}
    ).encode()


def virtual_function(files: Files) -> None:
    """A VF of node 1 for a container with CPUs 2-3 of node 0."""
    device = {"resourceName": "intel.com/sriov", "deviceIds": ["0000:81:00.1"], "topology": {"nodes": [{"ID": "1"}]}}
    with part(files, "podresources.json") as said:
        (pod,) = (one for one in said["List"]["podResources"] if one["name"] == "g2-node1")
        pod["containers"][0]["devices"] = [device]


def control(file: str, text: str) -> Callable[[Files], None]:
    """A control file of the container with CPUs of its own."""

    def edit(files: Files) -> None:
        ident = rows(files)[G2]["id"]
        (folder,) = {name.rpartition("/")[0] for name in files if ident in name and name.endswith("/cpu.max")}
        files[f"{folder}/{file}"] = text.encode()

    return edit


def weight(files: Files) -> None:
    """A weight of the Burstable class that its pods do not have."""
    files["cgroup/kubepods/burstable/cpu.weight"] = b"9999"


@pytest.mark.parametrize(
    ("edit", "rule", "subject"),
    [
        pytest.param(as_v4, None, "", id="v4"),
        pytest.param(lambda files: as_v4(files, 1), "checkpoint", "cpu_manager_state", id="v4-wrong-checksum"),
        pytest.param(virtual_function, "device-numa", G2, id="device-of-another-node"),
        pytest.param(control("cpu.idle", "1"), "applied", G2, id="cpu.idle"),
        pytest.param(control("memory.high", "4096"), "applied", G2, id="memory.high"),
        pytest.param(weight, "applied", "burstable/(qos)", id="weight-of-burstable"),
    ],
)
def test_what_is_judged(edit: Callable[[Files], None], rule: str | None, subject: str) -> None:
    """Just that fails, beside what fails on the node as it was captured."""
    files = capture("B1-4")
    before = failed(files).keys()
    edit(files)
    assert failed(files).keys() - before == ({(rule, subject)} if rule else set())


def test_containers_that_others_pin_are_judged_by_their_word() -> None:
    """Under policy ``none`` no state file has a CPU set: an NRI policy's cache does."""
    files = unmanaged()
    row = rows(files)[BE]
    files[nri.FILE] = nri.kept(cache({row["id"]: cached("4-7")}), "cache")
    place(files, row, "0-7")
    assert ("layers-agree", BE) in failed(files)


@pytest.mark.parametrize(
    ("start", "more", "pod", "admitted", "quota_us"),
    [
        pytest.param("B1-4", (), NEW, False, None, id="all-cpus-are-owned"),
        pytest.param("B1-5", (), NEW, True, -1, id="some-are-free"),
        pytest.param("B1-5", ("--kubelet-version", "1.28.0"), NEW, True, 200_000, id="quota-in-v1.28"),
        pytest.param("B1-5", ("--kubelet-version", "1.32.5"), NEW, True, 200_000, id="quota-in-v1.32"),
        pytest.param("B1-5", ("--kubelet-version", "1.32.0"), BUDGET, True, None, id="no-budget-in-v1.32"),
    ],
)
def test_what_becomes_of_a_new_pod(
    tmp_path: Path, start: str, more: tuple[str, ...], pod: str, admitted: bool, quota_us: int | None
) -> None:
    """Beside what the node's pods hold, and as the release decides. :param quota_us: of the container."""
    (tmp_path / "new.yaml").write_text(pod)
    files = capture(start)
    if more:  # An option that these releases have not, or take only with a gate.
        configure(files, '  strict-cpu-reservation: "true"\n', "")
    for name, data in files.items():
        (tmp_path / "c" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / name).write_bytes(data)
    ended = pinproof("plan", "--capture", tmp_path / "c", "--pods", tmp_path / "new.yaml", *more, "--json")
    assert ended.exit_code == 0, ended.stderr
    pods = {one["name"]: one for one in json.loads(ended.stdout)[0]["plan"]["pods"]}
    made = pods["newg"]
    assert made["admitted"] is admitted
    if quota_us is not None:
        assert made["containers"][0]["quota_us"] == quota_us
    if pod is BUDGET:
        assert (made["qos_class"], made["quota_us"]) == ("BestEffort", -1)


@pytest.mark.parametrize(
    ("field", "gate"),
    [
        ("systemPartition: {cpuset: '0-1'}", "NodeSystemPartition: true"),
        ("memoryReservationPolicy: TieredReservation", "MemoryQoS: true"),
    ],
)
def test_fields_of_v137_that_are_not_modelled_are_named(tmp_path: Path, field: str, gate: str) -> None:
    """Where that kubelet obeys them, in its claims."""
    files = capture("B1-4")
    files["kubelet/config.yaml"] += f"{field}\nfeatureGates: {{{gate}}}\n".encode()
    files["capture.json"] = json.dumps({"kubelet_version": "v1.37.0"}).encode()
    del files["metrics_managers.txt"]
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    assert f"not read: {field.split(':')[0]}" in pinproof("claims", "--capture", tmp_path).stderr


@pytest.mark.parametrize(("checksum", "outcome"), [(3660592824, "passed"), (3660592825, "failed"), (None, "undecided")])
def test_the_device_managers_checksum_is_judged(checksum: int | None, outcome: str) -> None:
    """A file as a kubelet writes it, with a device on no NUMA node; of what was left out nothing is known."""
    files = capture("B1-4")
    entry = {
        "PodUID": "bf52b2cd-b611-4e79-86b1-280b283185c3",
        "ContainerName": "check",
        "ResourceName": "nvidia.com/gpu",
        "DeviceIDs": {"-1": ["tegra"]},
        "AllocResp": "Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh",
    }
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {"nvidia.com/gpu": ["tegra"]}}
    said = {"Data": data} if checksum is None else {"Data": data, "Checksum": checksum}
    files["kubelet/kubelet_internal_checkpoint"] = json.dumps(said).encode()
    assert judged(files)["checkpoint", "kubelet_internal_checkpoint"].outcome == outcome
