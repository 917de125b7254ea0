"""PCI devices by address, and the NUMA node that each hangs on: through udev's library on the running machine, from
sysfs files in a copied tree.

Source: Documentation/ABI/testing/sysfs-bus-pci (``numa_node``, ``local_cpulist``); libudev(3), udev_device_new_from_\
subsystem_sysname.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.sysfs import SysTree
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.placement import DevicePlace

_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,6}", re.ASCII)


def full_address(text: str) -> str | None:
    """Return a PCI address as the kernel names it: lower case, with its domain (``0000:00:1f.2``).

    ``None``: it is no PCI address.
    """
    match = _ADDRESS.fullmatch(text.strip().lower())
    return None if match is None else f"{match[1] or '0000'}:{match[2]}"


def addresses(claims: Iterable[Claim]) -> Iterator[str]:
    """Yield the PCI addresses that claims name, and of what a kubelet gave those ids that are such addresses."""
    for claim in claims:
        yield from claim.devices
        yield from (device.id for device in claim.assigned_devices if full_address(device.id))


def read_devices(addresses: Iterable[str], root: Path = Path("/")) -> tuple[DevicePlace, ...]:
    """Look up devices; ``bdf`` of each value is the address as it was given. What is no address is not present."""
    tree = SysTree(root)
    return tuple(_look_up(address, tree) for address in sorted(set(addresses)))


def _look_up(address: str, tree: SysTree) -> DevicePlace:
    name = full_address(address)
    if name is None:
        return DevicePlace(bdf=address, present=False)
    return _by_udev(address, name) if tree.live else _by_tree(address, name, tree)


def _by_udev(address: str, name: str) -> DevicePlace:
    import pyudev

    try:
        device = pyudev.Devices.from_name(pyudev.Context(), "pci", name)
    except pyudev.DeviceNotFoundError:
        return DevicePlace(bdf=address, present=False)
    found = {}
    for attribute in ("numa_node", "local_cpulist"):
        try:
            found[attribute] = device.attributes.asstring(attribute).strip()
        except (KeyError, UnicodeDecodeError):
            found[attribute] = ""
    return _place(address, found["numa_node"], found["local_cpulist"])


def _by_tree(address: str, name: str, tree: SysTree) -> DevicePlace:
    folder = f"sys/bus/pci/devices/{name}"
    if not tree.is_folder(folder):
        return DevicePlace(bdf=address, present=False)
    return _place(address, tree.read(f"{folder}/numa_node") or "", tree.read(f"{folder}/local_cpulist") or "")


def _place(address: str, node: str, local: str) -> DevicePlace:
    try:
        cpus = CpuSet.parse(local)
    except InputError:
        cpus = CpuSet()
    return DevicePlace(
        bdf=address, present=True, numa_node=int(node) if _NUMBER.fullmatch(node) else None, local_cpus=cpus
    )
