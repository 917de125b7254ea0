"""The rule ``device-numa``: devices near the CPUs, far from them, and nowhere."""

from __future__ import annotations

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, cpus
from tests.unit.validators.machine_builder import machine, with_topology
from toolkit.model.claims import Claim
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
