"""Refuse to begin what this host cannot finish, before anything is created."""

from __future__ import annotations

import os
import shutil

from toolkit.errors import HostUnsupportedError
from toolkit.host import cgroupfs
from toolkit.host.capabilities import try_probes, views


def require_run(runtime: str = "cgroupfs") -> None:
    """Check what ``run``, ``conformance`` and ``watch`` need first.

    :raises HostUnsupportedError: no root, no BPF, a pure v1 host, a view of the machine that is not the probes', or
        the runtime is not installed.
    """
    if os.geteuid() != 0:
        raise HostUnsupportedError("root is needed to load BPF programs and make cgroups: run it with sudo")
    for one in try_probes():
        if not one.available:
            raise HostUnsupportedError(f"no {one.name} here: {one.detail}: {one.remedy} (pinproof doctor reports all)")
    hierarchy = cgroupfs.detect()
    if hierarchy.mode is cgroupfs.Mode.V1:
        raise HostUnsupportedError(
            "this host has cgroup v1 only, where BPF cannot tell cgroups apart: boot with cgroup v2, "
            "or mount a cgroup2 hierarchy that the container runtime joins"
        )
    for one in views(hierarchy):
        if not one.available:
            raise HostUnsupportedError(f"{one.detail}: {one.remedy} (pinproof doctor tells all)")
    if runtime != "cgroupfs" and shutil.which(runtime) is None:
        raise HostUnsupportedError(f"{runtime} is not installed: install the package {runtime}")
    if runtime == "crun" and hierarchy.mode is not cgroupfs.Mode.V2:
        raise HostUnsupportedError("crun needs a pure cgroup v2 host; this one is hybrid: use runc or cgroupfs")
