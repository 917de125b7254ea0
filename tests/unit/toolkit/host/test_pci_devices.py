"""PCI devices by address: in a copied tree, and on this machine by udev and by sysfs alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.host.pci import read_pci
from toolkit.host.pci_devices import full_address, read_devices
from toolkit.host.sysfs import SysTree
from toolkit.model.cpuset import CpuSet
from toolkit.model.placement import DevicePlace


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("3b:00.1", "0000:3b:00.1"),
        (" 10000:01:00.0 ", "10000:01:00.0"),
        ("", None),
        ("../../etc", None),
        ("0000:3b:00.9", None),
    ],
)
def test_addresses(text: str, address: str | None) -> None:
    """With or without a domain, in either case; anything else is no address."""
    assert full_address(text) == address


def test_a_copied_tree(tmp_path: Path) -> None:
    """Node and CPUs from the files; a device without them, one that is missing, and a word that is no address."""
    for bdf, files in {
        "0000:3b:00.0": {"numa_node": "1\n", "local_cpulist": "2-3,6-7\n"},
        "0000:3b:00.1": {},
    }.items():
        folder = tmp_path / "sys/bus/pci/devices" / bdf
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)

    found = read_devices(["3b:00.0", "0000:3b:00.1", "0000:ff:00.0", "eth0", "3b:00.0"], tmp_path)

    assert found == (
        DevicePlace(bdf="0000:3b:00.1", present=True),
        DevicePlace(bdf="0000:ff:00.0", present=False),
        DevicePlace(bdf="3b:00.0", present=True, numa_node=1, local_cpus=CpuSet.parse("2-3,6-7")),
        DevicePlace(bdf="eth0", present=False),
    )


def test_udev_and_sysfs_agree() -> None:
    """Every PCI device of this machine has the same node by udev as by its file."""
    devices = read_pci(SysTree())
    if not devices:
        pytest.skip("this machine has no PCI bus")

    found = {place.bdf: place.numa_node for place in read_devices(device.bdf for device in devices)}

    assert found == {device.bdf: device.numa_node for device in devices}
