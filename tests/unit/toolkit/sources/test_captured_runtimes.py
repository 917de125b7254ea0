"""What containerd 2 and CRI-O answered and left in cgroups on real nodes: the same node reads the same with both.

Expected is what the pods asked for and what was done to them (tests/data/runtimes/README.md).
"""

from __future__ import annotations

import json
import lzma
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import DATA
from tests.unit.toolkit.sources.edited import Files, judged, part, rows
from tests.unit.toolkit.sources.socket_server import CRI, field, served
from toolkit.model.node_reading import Asked, RuntimeContainer
from toolkit.model.verdict import Outcome
from toolkit.sources.kubelet import reading
from toolkit.sources.kubelet.files.capture import read_bundle_files
from toolkit.sources.kubelet.files.sockets import runtime_files
from toolkit.sources.kubelet.pod_paths import place_of

RUNTIMES = {"containerd-2.4": ("containerd", ""), "crio-1.37": ("cri-o", "crio-")}
"""By recording: how it calls itself, and how the names of containers' cgroups begin."""
MI = 1 << 20
LIVING = {"web-vm/app", "batch-vm/job", "staged-vm/main", "db-vm/main"}
ASKED = {
    "web-vm/app": ("0", 50_000, 204, 64 * MI),
    "batch-vm/job": ("0", None, 2, None),
    "staged-vm/main": ("0", None, 2, None),
    "staged-vm/init": ("0-1", None, 2, None),
    "db-vm/main": ("1", None, 1024, 64 * MI),
}
"""CPUs, quota, shares and memory; no quota is none, or -1."""


def files_of(recording: str) -> Files:
    """The files of a captured node."""
    return dict(read_bundle_files(DATA / "runtimes" / f"{recording}.tar.gz"))


def answered(recording: str, folder: Path) -> dict[str, Any]:
    """``node.json`` of what the recorded socket says."""
    said = json.loads(lzma.decompress((DATA / "runtimes" / f"{recording}.answers.json.xz").read_bytes()))
    statuses = {field(1, key) + field(2, 1): b64decode(data) for key, data in said.pop("ContainerStatus").items()}
    answers = {method: b64decode(data) for method, data in said.items()}
    with served(folder / "x.sock", CRI, ContainerStatus=lambda asked: statuses[asked], **answers) as endpoint:
        files, problem = runtime_files([endpoint.removeprefix("unix://")])
    assert problem == ""
    node = json.loads(files["node.json"])
    assert isinstance(node, dict)
    return node


def called(entry: RuntimeContainer) -> str:
    return f"{entry.pod_name}/{entry.name}"


@pytest.mark.parametrize("recording", RUNTIMES)
def test_a_socket_says_what_the_kubelet_asked_for(recording: str, tmp_path: Path) -> None:
    """Names, CPUs, quota, shares and memory of each container, its cgroup, and the runtime's driver."""
    name, prefix = RUNTIMES[recording]
    node = answered(recording, tmp_path)
    entries = reading.from_cri(node)
    containers = [one for one in entries if not one.sandbox]

    assert (node["version"]["runtimeName"], reading.driver_of(node)) == (name, "cgroupfs")
    assert {called(one) for one in containers if one.state == "running"} == LIVING
    assert {called(one) for one in containers if one.state == "exited"} == {"web-vm/app", "staged-vm/init"}
    for one in containers:
        place = place_of(one.cgroups_path)
        assert place is not None
        assert one.cgroups_path.endswith(f"/pod{one.pod_uid}/{prefix}{one.id}")
        assert (place.id, place.pod_uid) == (one.id, one.pod_uid)
        assert one.state == "exited" or values(one.asked) == ASKED[called(one)]
        assert one.state == "running" or values(one.asked)[1:] == ASKED[called(one)][1:]
    assert {one.pod_name for one in entries if one.sandbox and one.ready} == {name.partition("/")[0] for name in LIVING}


def values(asked: Asked | None) -> tuple[object, ...]:
    assert asked is not None
    quota_us = None if asked.quota_us in (None, 0, -1) else asked.quota_us
    return asked.cpus, quota_us, asked.shares, asked.memory_bytes or None


@pytest.mark.parametrize("recording", RUNTIMES)
def test_a_healthy_node_passes(recording: str) -> None:
    """Every verdict about the containers that live is passed, and none is about one that has ended.

    CRI-O keeps the cgroup of one that has ended: its CPUs are those of then, no kubelet updates them.
    """
    found = judged(files_of(recording))

    assert {key: one.reason for key, one in found.items() if one.outcome in (Outcome.FAILED, Outcome.UNDECIDED)} == {}
    for rule in ("layers-agree", "affinity-mask"):
        assert {name for (one, name), said in found.items() if one == rule and said.outcome is Outcome.PASSED} >= LIVING


@pytest.mark.parametrize("recording", RUNTIMES)
def test_sandboxes_are_told_from_containers(recording: str) -> None:
    """Also where there is a cgroup for a pause container that the runtime left out: three of CRI-O's four."""
    found = rows(files_of(recording))
    kinds = {name: row["kind"] for name, row in found.items() if row["container"] not in ("(pod)", "")}
    waiting = {name: row["live_threads"] for name, row in found.items() if row["kind"] == "sandbox"}

    assert {name for name, kind in kinds.items() if kind == "sandbox"} == {
        f"{name.partition('/')[0]}/(sandbox)" for name in LIVING
    }
    assert {name for name, kind in kinds.items() if kind == "container" and not found[name]["gone"]} == LIVING
    assert set(kinds.values()) == {"sandbox", "container"}
    assert waiting["staged-vm/(sandbox)"] == 1
    assert sum(waiting.values()) == (4 if recording.startswith("containerd") else 1)


def test_a_container_in_which_something_runs_on_has_not_ended() -> None:
    """Its first process has, by CRI-O's word; another one is in its cgroup, on a CPU that is another pod's."""
    files = files_of("crio-1.37")
    with part(files, "node.json") as node:
        (ended,) = [
            one["id"]
            for one in node["containers"]["containers"]
            if one["metadata"]["name"] == "init" and one["state"] == "CONTAINER_EXITED"
        ]
    for name in files:
        if name.endswith(f"crio-{ended}/cgroup.procs"):
            files[name] = b"4711\n"

    assert not rows(files)["staged-vm/init"]["gone"]
    assert judged(files)["layers-agree", "staged-vm/init"].measures["overlap_cpus"] == "1"
