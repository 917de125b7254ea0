"""Devices as hint providers: what counts on a node, and what a refusal reports.

Source of the expectations: Kubernetes v1.36 pkg/kubelet/cm/devicemanager (topology_hints.go, manager.go).
"""

from __future__ import annotations

import pytest

from toolkit.allocation.admission import AdmissionError
from toolkit.allocation.device.manager import Device, DeviceManager
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.kubernetes.pod import Container, Pod, Resources
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.plan import ContainerRole

NIC = "example.com/nic"


def asks(name: str, count: int, role: ContainerRole = ContainerRole.APP) -> Container:
    """A container that asks for devices."""
    amounts = {NIC: Quantity.of(count)}
    return Container(name=name, role=role, resources=Resources(requests=amounts, limits=amounts))


def pod(*containers: Container, uid: str = "p") -> Pod:
    """A pod of these containers."""
    return Pod(uid=uid, name=uid, containers=containers)


def manager(*numa: tuple[int, ...]) -> DeviceManager:
    """Devices ``d0``, ``d1``, ... with these NUMA nodes, on two nodes."""
    return DeviceManager([Device(resource=NIC, id=f"d{i}", numa=nodes) for i, nodes in enumerate(numa)], (0, 1))


def test_a_device_without_a_node_counts_on_no_node() -> None:
    """One device of node 0 and one that names none: one can be had there, two are possible nowhere."""
    devices = manager((0,), ())

    one, two = (devices.container_hints(pod(asks("c", count)), asks("c", count)) for count in (1, 2))

    assert one == {NIC: [TopologyHint(0b01, True), TopologyHint(0b11, False)]}
    assert two == {NIC: []}, "no hint is a preference that cannot be met"


def test_devices_that_all_name_no_node_give_no_hint() -> None:
    """Then the resource has no preference at all."""
    wanted = asks("c", 2)

    assert manager((), ()).container_hints(pod(wanted), wanted) == {NIC: None}


def test_a_reused_device_without_a_node_holds_nothing_to_a_node() -> None:
    """An init container left a device that names no node: the app container's second device decides."""
    devices = manager((), (1,))
    wanted = pod(asks("i", 1, ContainerRole.INIT), asks("c", 1))
    devices.allocate(wanted, wanted.containers[0])
    assert devices.owners["p", "i"] == {NIC: ("d0",)}

    hints = devices.container_hints(wanted, wanted.containers[1])

    assert hints is not None
    assert hints[NIC] == [TopologyHint(0b10, True), TopologyHint(0b11, False)]


def test_a_refusal_counts_what_is_missing_beyond_what_is_used_again() -> None:
    """Three are asked for, two are there again from the init container: one is missing, and none is left."""
    devices = manager((0,), (1,))
    wanted = pod(asks("i", 2, ContainerRole.INIT), asks("c", 3))
    devices.allocate(wanted, wanted.containers[0])

    with pytest.raises(AdmissionError) as raised:
        devices.allocate(wanted, wanted.containers[1])

    assert f"requested number of devices unavailable for {NIC}. Requested: 1, Available: 0," in raised.value.message
