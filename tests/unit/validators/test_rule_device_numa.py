"""The rule ``device-numa``: devices near the CPUs, far from them, and nowhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, cpus
from tests.unit.validators.machine_builder import machine, with_topology
from toolkit.model.claims import AssignedDevice, Claim, DeviceScope, Isolation
from toolkit.model.evidence import Evidence
from toolkit.model.placement import DevicePlace
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.device_numa import RULE

NIC = "0000:3b:00.0"


def claim(**changes: object) -> Claim:
    return claim_db(**{"cpus": cpus("2,6"), "devices": (NIC,), **changes})


def judged(evidence: Evidence, own: Claim | None = None) -> Verdict:
    return RULE(claim_set(own or claim()), evidence)[0]


def nic(node: int | None, present: bool = True) -> tuple[DevicePlace, ...]:
    return (DevicePlace(bdf=NIC, present=present, numa_node=node),)


@pytest.mark.parametrize(
    ("devices", "outcome"),
    [
        (nic(1), "passed"),
        (nic(0), "failed"),
        (nic(-1), "undecided"),
        (nic(None), "undecided"),
        (nic(None, present=False), "undecided"),
        ((), "undecided"),
        (None, "undecided"),
    ],
)
def test_where_the_device_sits(devices: tuple[DevicePlace, ...] | None, outcome: str) -> None:
    """Node 1 has the CPUs 2,6; the negative control is a device on node 0."""
    verdict = judged(machine(devices=devices))

    assert verdict.outcome.value == outcome


def test_an_unknown_node_is_told() -> None:
    """The reason names the device and the -1."""
    assert f"{NIC} (numa_node -1)" in judged(machine(devices=nic(-1))).reason


def test_no_device_is_skipped() -> None:
    """No claim names one."""
    assert RULE(claim_set(claim_db()), machine())[0].outcome is Outcome.SKIPPED


def test_what_the_kernel_granted_counts() -> None:
    """The negative control: the promised CPUs are near, the granted ones are not."""
    verdict = judged(machine("0,4", devices=nic(1)))

    assert verdict.outcome is Outcome.FAILED
    assert "its CPUs 0,4 (granted before the window) on 0" in verdict.reason


def test_one_node_or_none_known() -> None:
    """On a machine with one node everything is on it; on an unknown machine nothing is known."""
    found = machine(devices=nic(-1))

    assert judged(with_topology(found, numa_nodes={"0": "0-7"})).outcome is Outcome.PASSED
    assert judged(with_topology(found, numa_nodes=None)).outcome is Outcome.UNDECIDED


def test_memory_nodes_stand_in_for_cpus() -> None:
    """A claim without CPUs of its own is where its memory is; with neither nothing is known but what was granted."""
    found = machine(devices=nic(1))

    assert judged(found, claim(cpus=None, mems=cpus("1"))).outcome is Outcome.PASSED
    assert judged(found, claim(cpus=None, mems=cpus("0"))).outcome is Outcome.FAILED
    assert judged(machine(devices=nic(1), files_after=()), claim(cpus=None)).outcome is Outcome.UNDECIDED


VF = AssignedDevice(id=NIC, resource="intel.com/sriov", numa_nodes=(1,), aligned=DeviceScope.CONTAINER)
GPU = AssignedDevice(id="gpu.example.com/node-1/gpu-0", claim="default/gpu", cdi=("example.com/gpu=0",))


def given(*devices: AssignedDevice, **changes: object) -> Claim:
    """A container with CPUs 2,6 of node 1 for itself, and what a kubelet gave it."""
    own = {"devices": (), "isolation": Isolation.CONTAINER, "assigned_devices": devices, "pod": "db"}
    return claim(**(own | changes))


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({}, "passed", "1 aligned devices on the nodes of its CPUs 2,6 (promised)"),
        ({"numa_nodes": (0,)}, "failed", f"device intel.com/sriov {NIC} sits on node 0, its CPUs 2,6 (promised) on 1"),
        ({"numa_nodes": (0, 1)}, "passed", "1 aligned"),
        ({"numa_nodes": (0,), "aligned": None}, "skipped", f"measured, not promised: device intel.com/sriov {NIC}"),
        ({"numa_nodes": (), "aligned": None}, "skipped", "measured, not promised: no device is seen far"),
    ],
)
def test_what_a_kubelet_gave(changes: dict[str, Any], outcome: str, words: str) -> None:
    """By the plugin's word; what no policy aligns is measured."""
    verdict = judged(machine(devices=None), given(replace(VF, **changes)))

    assert (verdict.outcome.value, words in verdict.reason) == (outcome, True), verdict.reason
    assert verdict.measures["far_devices_count"] == int("sits on" in verdict.reason)


def test_the_kernel_knows_better_than_a_plugin() -> None:
    """The negative control: the plugin says node 1, the kernel node 0."""
    verdict = judged(machine(devices=nic(0)), given(VF))

    assert verdict.outcome is Outcome.FAILED
    assert "sits on node 0 (by its plugin on 1)" in verdict.reason
    assert judged(machine(devices=nic(-1)), given(VF)).outcome is Outcome.PASSED


def test_memory_of_its_own_counts_beside_cpus() -> None:
    """A container of the shared pool has no CPUs that a device could be near, but memory; one with neither is none."""
    shared = {"isolation": Isolation.HOST, "cpus": cpus("0-7")}

    assert judged(machine(), given(VF, mems=cpus("0"))).outcome is Outcome.FAILED
    assert judged(machine(), given(VF, mems=cpus("1"), **shared)).outcome is Outcome.PASSED
    assert "its memory on 0" in judged(machine(), given(VF, mems=cpus("0"), **shared)).reason
    assert judged(machine(), given(VF, **shared)).outcome is Outcome.SKIPPED


def test_scope_pod_counts_the_pods_cpus() -> None:
    """The device is given to one container, the CPUs to another of its pod; another pod's are of no account."""
    wide = given(replace(VF, numa_nodes=(0,), aligned=DeviceScope.POD), cpus=None, isolation=Isolation.HOST)
    other = claim(name="side", devices=(), cgroup="/db/side", pod="db", isolation=Isolation.CONTAINER)
    found = machine()
    files = tuple(replace(row, cgroup="/db/side") for row in found.files_before)
    found = replace(found, files_before=files, files_after=files)

    verdict = RULE(claim_set(wide, other), found)[0]
    assert verdict.outcome is Outcome.FAILED
    assert "its CPUs 2,6 (promised) of side on 1" in verdict.reason
    assert RULE(claim_set(wide, replace(other, pod="x")), found)[0].outcome is Outcome.SKIPPED
    narrow = replace(wide, assigned_devices=(replace(VF, numa_nodes=(0,)),))
    assert RULE(claim_set(narrow, other), found)[0].outcome is Outcome.SKIPPED


def test_a_claim_of_dra_is_measured_where_the_kernel_knows_it() -> None:
    """Pod-resources states no NUMA node of it, and no policy aligns it."""
    assert judged(machine(), given(GPU)).outcome is Outcome.SKIPPED
    both = judged(machine(), given(VF, GPU))
    assert (both.outcome, both.measures["devices_count"]) == (Outcome.PASSED, 2)
