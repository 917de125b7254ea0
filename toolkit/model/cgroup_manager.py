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


def kubepods_below(cgroup_root: str) -> tuple[str, str]:
    """Return these two for a kubelet's ``cgroupRoot``, which driver systemd takes for a slice: paths without a ``/`` at
    their ends. ``/kubelet`` gives ``kubelet/kubepods`` and ``kubelet.slice/kubelet-kubepods.slice``.

    Source: pkg/kubelet/cm/cgroup_manager_linux.go, ``ToSystemd``, ``ParseSystemdToCgroupName``.
    """
    parts = [part for part in cgroup_root.split("/") if part]
    # A slice's own name says which slices it is in.
    slices = parts[-1].removesuffix(".slice").split("-") if parts and parts[-1].endswith(".slice") else None
    stems = [*(slices or (part.replace("-", "_") for part in parts)), KUBEPODS[0]]
    return "/".join([*parts, KUBEPODS[0]]), "/".join("-".join(stems[: n + 1]) + ".slice" for n in range(len(stems)))


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
