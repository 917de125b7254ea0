"""Which containers own CPUs by what a pod asks for, and have no quota; and which share them, and keep theirs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.toolkit.sources.edited import (
    STATE,
    Files,
    allocations,
    asked,
    capture,
    configure,
    document,
    failed,
    part,
    place,
    rows,
    write_state,
)
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet

MANAGERS = "  PodLevelResourceManagers: true\n"
PLR = ("plr-node1/main", "plr-node1/(pod)")


def control(files: Files, path: str, name: str, value: str) -> None:
    """Write a control file of the one cgroup whose path ends so."""
    (found,) = [one for one in files if re.fullmatch(rf"cgroup/.*{path}/{re.escape(name)}", one)]
    files[found] = f"{value}\n".encode()


def allocate(files: Files, uid: str, cpu: str, memory: str) -> None:
    """Let the kubelet have allocated as much to container ``main`` as it may use at most, and put it into force."""
    resources = {"cpu": cpu, "memory": memory}
    with allocations(files) as entries:
        entries[uid]["ContainerResources"]["main"] = {"limits": resources, "requests": resources}
    files["kubelet/actuated_pods_state"] = files["kubelet/allocated_pods_state"]


def asked_quota(files: Files, row: dict[str, Any], quota_us: int) -> None:
    """Let the runtime say that the kubelet asked for another quota."""
    with part(files, "containers.json") as listed:
        listed[row["id"]]["resources"]["cpu"]["quota"] = quota_us


def unmanaged(gate: str) -> Files:
    """A pod with a budget on a node that looks after none: all of it is in the shared pool."""
    files = capture("B2-2")
    named = rows(files)
    configure(files, MANAGERS, gate)
    write_state(files, "2-7")
    for name, row in named.items():
        if name.startswith("plr-") and row.get("in_state"):
            place(files, row, "2-7")
            asked(files, row, "2-7")
    control(files, named[PLR[0]]["id"], "cpu.max", "200000 100000")
    del files["kubelet/memory_manager_state"], files["metrics_managers.txt"], files["podresources.json"]
    return files


@pytest.mark.parametrize("gate", ["", MANAGERS.replace("true", "false")])
def test_a_pod_with_a_budget_that_is_not_managed_keeps_its_quotas(gate: str) -> None:
    """Without the gate, which is off by default, the static policy passes over it."""
    files = unmanaged(gate)
    row = rows(files)[PLR[0]]
    assert [rows(files)[name]["quota_us"] for name in PLR] == [200_000, 400_000]
    assert not [subject for rule, subject in failed(files) if rule == "applied"]

    control(files, row["id"], "cpu.max", "max 100000")
    control(files, f"pod{row['pod_uid']}", "cpu.max", "max 100000")
    found = failed(files)
    assert all("quota" in found["applied", name] for name in PLR)


def test_without_its_gate_a_budget_is_not_looked_at() -> None:
    """A kubelet without PodLevelResources limits containers by their own resources, and a pod by these."""
    files = capture("B2-3")
    names = [f"plr-shared-node1/{name}" for name in ("a", "b", "(pod)")]
    assert {rows(files)[name]["quota_us"] for name in names} == {200_000}
    off = "  PodLevelResources: false\n  InPlacePodLevelResourcesVerticalScaling: false\n"
    configure(files, "  PodLevelResources: true\n", off)
    configure(files, MANAGERS, "")
    assert {rows(files)[name]["quota_us"] for name in names} == {-1}
    assert [rows(files)[name]["shares"] for name in names] == [2, 102, 102]


def test_a_container_below_a_lesser_class_owns_nothing() -> None:
    """Allocations lack init containers, whose missing requests make a pod Burstable; its cgroup shows that it is."""
    files = capture("D-4")
    files = {name: data for name, data in files.items() if name != "pods.json" and "/manifests/" not in name}
    row = rows(files)["bu-node1/main"]
    allocate(files, row["pod_uid"], "1", "64Mi")
    with part(files, "cgroup.json") as tree:
        for path, controls in tree["cpu"].items():
            if path.endswith(row["id"]):
                controls |= {"cpu.cfs_quota_us": "100000", "cpu.shares": "1024"}
            elif path.endswith("/burstable"):  # which sums up what its pods ask for
                controls |= {"cpu.shares": "1024"}
    assert rows(files)["bu-node1/main"]["quota_us"] == 100_000
    assert failed(files) == {}

    with part(files, "cgroup.json") as tree:
        next(own for path, own in tree["cpu"].items() if path.endswith(row["id"]))["cpu.cfs_quota_us"] = "-1"
    assert "quota" in failed(files)["applied", "bu-node1/main"]


def test_an_owner_has_no_quota_whatever_was_asked_for_it() -> None:
    """A kubelet that asks the runtime for one (F56) makes no promise of it, where requests are not known either."""
    files = capture("A-3")
    files = {name: data for name, data in files.items() if name != "pods.json" and "/pods/" not in name}
    row = rows(files)["g1-node1/main"]
    asked_quota(files, row, 100_000)
    control(files, row["id"], "cpu.cfs_quota_us", "100000")
    assert rows(files)["g1-node1/main"]["quota_us"] == -1
    assert "quota" in failed(files)["applied", "g1-node1/main"]


@pytest.mark.parametrize(
    ("entries", "level"),
    [
        ({"main": "4-5", "helper": "6-7"}, {"main": "container", "helper": "pod"}),
        ({"setup": "4-5", "main": "4-5", "helper": "6-7", "side": "6-7"}, {"main": "container", "helper": "pod"}),
    ],
)
def test_a_quota_marks_a_container_that_shares_the_cpus_of_its_pod(
    entries: dict[str, str], level: dict[str, str]
) -> None:
    """Equal sets do not: one may share alone, and an owner may have the CPUs of an init container that has ended."""
    files = capture("B2-2")
    files = {name: data for name, data in files.items() if name != "pods.json" and "/pods/" not in name}
    uid = rows(files)[PLR[0]]["pod_uid"]
    state = CpuState(
        policy_name="static",
        default=CpuSet.parse("2-3"),
        entries={uid: {name: CpuSet.parse(cpus) for name, cpus in entries.items()}},
        pods={uid: CpuSet.parse("4-7")},
    )
    files[STATE] = write_cpu_checkpoint(state, pod_level=True).encode()
    found = rows(files)
    assert {name: found[f"plr-node1/{name}"]["isolation"] for name in level} == level
    assert [found[f"plr-node1/{name}"]["quota_us"] for name in ("main", "helper")] == [-1, 400_000]
    assert not [key for key in failed(files) if key[0] == "applied"]


@pytest.mark.parametrize(
    ("version", "exempt"), [("v1.32.2", False), ("v1.33.0", True), ("v1.36.2", True), ("v0.0.0-master+abc", True)]
)
def test_kubelets_before_v1_33_give_owners_a_quota(version: str, *, exempt: bool) -> None:
    """They do not know the gate DisableCPUQuotaWithExclusiveCPUs, which later ones have on by default."""
    files = capture("A-3")
    files["metrics_managers.txt"] += f'kubernetes_build_info{{git_version="{version}",minor="x"}} 1\n'.encode()
    row = rows(files)["g1-node1/main"]
    asked_quota(files, row, 100_000)
    names = ("g1-node1/main", "g1-node1/(pod)")
    for path in (row["id"], f"pod{row['pod_uid']}"):
        control(files, path, "cpu.cfs_quota_us", "100000")
    assert {rows(files)[name]["quota_us"] for name in names} == {-1 if exempt else 100_000}
    assert {subject for rule, subject in failed(files) if rule == "applied"} == (set(names) if exempt else set())
    named = [row for row in document(files)["missing"] if row["part"] == "version"]
    assert bool(named) == (version != "v1.36.2")


def test_cpus_of_two_owners_in_a_capture_without_the_list_of_pods() -> None:
    """As `pinproof capture` writes it: that its pod has ended is known by what the runtime was asked to give it."""
    files = capture("A2-4")
    del files["pods.json"]
    reason = failed(files)["layers-agree", "g1slow-node1/main"]
    assert reason.endswith("it still runs, on CPU 1, exclusive to g1-node1/main")
    assert ("layers-agree", "g1-node1/main") not in failed(files)
