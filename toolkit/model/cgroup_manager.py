"""The manager that makes a cgroup and writes its limits: systemd rounds by its own rules, others do not.

Source: systemd.unit(5), systemd.scope(5), systemd.slice(5): the cgroup of a unit has the unit's name.
"""

from __future__ import annotations

from enum import StrEnum

_UNITS = (".service", ".scope", ".slice")
KUBEPODS = ("kubepods", "kubepods.slice")
"""What a kubelet calls the cgroup of all pods, below its ``cgroupRoot``: under driver cgroupfs, and under systemd.

Source: pkg/kubelet/cm/node_container_manager_linux.go, ``defaultNodeAllocatableCgroupName``.
"""


class CgroupManager(StrEnum):
    """The writer of a cgroup's files."""

    SYSTEMD = "systemd"
    """It is the cgroup of a systemd unit: a container's scope under the systemd driver, a pod's slice, a service."""
    CGROUPFS = "cgroupfs"
    """Files written directly: by a runtime with the cgroupfs driver, by pinproof, by a person."""
    UNKNOWN = "unknown"
    """Not read, or it could not be read."""


def names_unit(cgroup: str) -> bool:
    """Return whether a cgroup has the name of a unit that can have one."""
    return cgroup.rstrip("/").endswith(_UNITS)


def systemd_wrote(cgroup: str, manager: CgroupManager) -> bool:
    """Return whether systemd wrote the cgroup's limits; where that was not read, the name decides."""
    return manager is CgroupManager.SYSTEMD or (manager is CgroupManager.UNKNOWN and names_unit(cgroup))
