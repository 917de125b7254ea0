"""PCI devices by address, and the NUMA node that each hangs on: through udev's library on the running machine, from
sysfs files in a copied tree.

Source: Documentation/ABI/testing/sysfs-bus-pci (``numa_node``, ``local_cpulist``); libudev(3), udev_device_new_from_\
subsystem_sysname.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.sysfs import SysTree
from toolkit.model.cpuset import CpuSet
from toolkit.model.placement import DevicePlace

_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,6}", re.ASCII)


def full_address(text: str) -> str:
    """Return a PCI address as the kernel names it: lower case, with its domain (``0000:00:1f.2``).

    :raises InputError: it is no PCI address.
    """
    match = _ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        raise InputError("PCI device", repr(text[:60]), "an address such as 0000:00:1f.2")
    return f"{match[1] or '0000'}:{match[2]}"


def read_devices(addresses: Iterable[str], root: Path = Path("/")) -> tuple[DevicePlace, ...]:
    """Look up devices; ``bdf`` of each value is the address as it was given.

    :raises InputError: one of them is no PCI address.
    """
    tree = SysTree(root)
    wanted = sorted(set(addresses))
    return tuple(_by_udev(address) if tree.live else _by_tree(address, tree) for address in wanted)


def _by_udev(address: str) -> DevicePlace:
    import pyudev

    try:
        device = pyudev.Devices.from_name(pyudev.Context(), "pci", full_address(address))
    except pyudev.DeviceNotFoundError:
        return DevicePlace(bdf=address, present=False)
    found = {}
    for name in ("numa_node", "local_cpulist"):
        try:
            found[name] = device.attributes.asstring(name).strip()
        except (KeyError, UnicodeDecodeError):
            found[name] = ""
    return _place(address, found["numa_node"], found["local_cpulist"])


def _by_tree(address: str, tree: SysTree) -> DevicePlace:
    folder = f"sys/bus/pci/devices/{full_address(address)}"
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
