"""Who makes a cgroup and writes its limits: systemd does it by its own rules, everybody else as they please.

Source: systemd.unit(5), systemd.scope(5), systemd.slice(5): the cgroup of a unit has the unit's name.
"""

from __future__ import annotations

from enum import StrEnum

_UNITS = (".service", ".scope", ".slice")


class CgroupManager(StrEnum):
    """Who wrote a cgroup's files."""

    SYSTEMD = "systemd"
    """It is the cgroup of a systemd unit: a container's scope under the systemd driver, a pod's slice, a service."""
    CGROUPFS = "cgroupfs"
    """Somebody who writes the files himself: a runtime with the cgroupfs driver, pinproof, a person."""
    UNKNOWN = "unknown"
    """Not read, or it could not be read."""


def names_unit(cgroup: str) -> bool:
    """Say whether a cgroup has the name of a unit that can have one."""
    return cgroup.rstrip("/").endswith(_UNITS)


def systemd_wrote(cgroup: str, manager: CgroupManager) -> bool:
    """Say whether systemd wrote the cgroup's limits; where that was not read, the name tells."""
    return manager is CgroupManager.SYSTEMD or (manager is CgroupManager.UNKNOWN and names_unit(cgroup))
