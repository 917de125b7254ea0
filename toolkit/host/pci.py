"""PCI devices and the NUMA node that each hangs on.

Source: Documentation/ABI/testing/sysfs-bus-pci (``numa_node``, ``local_cpulist``).
"""

from __future__ import annotations

from toolkit.host.sysfs import SysTree
from toolkit.model.topology import PciDevice
from toolkit.text import names

_DEVICES = "sys/bus/pci/devices"


def read_pci(tree: SysTree) -> tuple[PciDevice, ...]:
    """Return every PCI device in order of its address; empty where there is no PCI bus."""
    return tuple(
        PciDevice(
            bdf=names.from_path(name),
            pci_class=tree.read(f"{_DEVICES}/{name}/class"),
            vendor=tree.read(f"{_DEVICES}/{name}/vendor"),
            device=tree.read(f"{_DEVICES}/{name}/device"),
            numa_node=tree.integer(f"{_DEVICES}/{name}/numa_node"),
            local_cpulist=tree.read(f"{_DEVICES}/{name}/local_cpulist"),
        )
        for name in tree.names(_DEVICES)
        if tree.is_folder(f"{_DEVICES}/{name}")
    )
