"""Refuse to begin what this host cannot finish, before anything is created."""

from __future__ import annotations

import shutil

from toolkit.errors import HostUnsupportedError
from toolkit.host import cgroupfs, limits
from toolkit.host.capabilities import own_cgroups, try_probes, views
from toolkit.host.own_memory import require_memory
from toolkit.host.privileges import require_root
from toolkit.host.runtimes import require_runtime
from toolkit.model.runtimes import CGROUPFS, find_runtime


def require_run(runtime: str = CGROUPFS) -> None:
    """Check what ``run``, ``conformance`` and ``watch`` need first.

    :raises HostUnsupportedError: no BPF, a capability that this process lacks, a pure v1 host, a view of the machine
        that is not the probes', or the runtime is not installed or needs root.
    :raises InputError: this process is in a memory cgroup that is too small.
    """
    if why := _require(needed=True):
        raise HostUnsupportedError(f"{why} (pinproof doctor reports all)")
    kind = find_runtime(runtime)
    require_runtime(kind, cgroupfs.detect())
    if kind.program:
        require_root(f"--runtime {runtime}")
    if kind.program and shutil.which(kind.program) is None:
        raise HostUnsupportedError(f"{runtime} is not installed: install the package {kind.program}")


def require_watch(off: str = "", *, needed: bool = False) -> str:
    """Check what ``watch`` needs first; return why it goes on without programs in the kernel, empty where it does not.

    :param off: why none are to be loaded. :param needed: there is no watch without them.
    :raises HostUnsupportedError: as :func:`require_run`; no BPF only where that is needed.
    """
    why = _require(off, needed=needed)
    if why and needed:
        raise HostUnsupportedError(f"{why} (pinproof doctor reports all)")
    return why


def _require(off: str = "", *, needed: bool) -> str:
    """Check what every observation needs, and return why no programs can be loaded; empty: as far as is known they can.

    The canaries' cgroups are needed where programs see them.
    """
    limits.widen()
    limits.require_files()
    why = off or _refused(needed=needed)
    hierarchy = cgroupfs.detect()
    hierarchy.identity_root()
    for one in (*views(hierarchy), *(() if why else (own_cgroups(hierarchy),))):
        if not one.available:
            raise HostUnsupportedError(f"{one.detail}: {one.remedy} (pinproof doctor reports all)")
    if not why:  # what programs and their maps need
        require_memory(hierarchy)
    return why


def _refused(*, needed: bool) -> str:
    """Say what is refused. Where a watch may go on without it the sampler is no reason to load nothing."""
    missing = (one for one in try_probes() if not one.available and (needed or one.name != "perf-event"))
    return next((f"no {one.name} here: {one.detail}: {one.remedy}" for one in missing), "")
