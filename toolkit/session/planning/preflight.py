"""Refuse to begin what this host cannot finish, before anything is created."""

from __future__ import annotations

import shutil

from toolkit.errors import HostUnsupportedError
from toolkit.host import cgroupfs, limits
from toolkit.host.capabilities import own_cgroups, try_probes, views
from toolkit.host.privileges import require_root
from toolkit.host.runtimes import require_runtime
from toolkit.model.runtimes import CGROUPFS, find_runtime


def require_run(runtime: str = CGROUPFS) -> None:
    """Check what ``run``, ``conformance`` and ``watch`` need first.

    :raises HostUnsupportedError: no BPF, a capability that this process lacks, a pure v1 host, a view of the machine
        that is not the probes', or the runtime is not installed or needs root.
    """
    limits.widen()
    limits.require_files()
    for one in try_probes():
        if not one.available:
            raise HostUnsupportedError(f"no {one.name} here: {one.detail}: {one.remedy} (pinproof doctor reports all)")
    hierarchy = cgroupfs.detect()
    kind = find_runtime(runtime)
    require_runtime(kind, hierarchy)
    for one in (*views(hierarchy), own_cgroups(hierarchy)):
        if not one.available:
            raise HostUnsupportedError(f"{one.detail}: {one.remedy} (pinproof doctor reports all)")
    if kind.program:
        require_root(f"--runtime {runtime}")
    if kind.program and shutil.which(kind.program) is None:
        raise HostUnsupportedError(f"{runtime} is not installed: install the package {kind.program}")
