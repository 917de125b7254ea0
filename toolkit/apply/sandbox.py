"""The sandbox: a set of real cgroups and real processes, made and removed by a context manager.

::

    with sandbox(request, run_id="r1") as live:
        live.value                      # what stands on the machine
        live.set_cpus("db", CpuSet.of([1]))

Everything is below ``/pinproof-<run_id>``; :mod:`toolkit.apply.runs` writes the journal first and undoes everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from toolkit.apply import cgroups, runs
from toolkit.apply.cgroupfs_runtime import CgroupfsRuntime
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.apply.oci_runtime import OciRuntime
from toolkit.apply.runtime import Runtime
from toolkit.apply.unwind import signals_unwind
from toolkit.errors import HostUnsupportedError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.host.privileges import require_root, why_no_cgroup
from toolkit.host.runtimes import require_runtime
from toolkit.model.runtimes import CGROUPFS, RUNTIMES, find_runtime
from toolkit.model.sandbox import SandboxRequest


@contextlib.contextmanager
def sandbox(
    request: SandboxRequest,
    *,
    run_id: str,
    runtime: str = CGROUPFS,
    root: Path = Path("/"),
    start: bool = True,
) -> Iterator[LiveSandbox]:
    """Put a request on the machine, and take it away again whatever happens.

    Runs that died before are cleaned up first. SIGTERM and SIGHUP end the program through the clean-up.

    :param start: start all containers; ``False`` leaves that to :meth:`LiveSandbox.start`.
    :raises InputError: the request contradicts itself, or the run id is in use.
    :raises HostUnsupportedError: this host lacks what the runtime needs.
    :raises ApplyError: the kernel or the runtime refused something; nothing is left.
    """
    hierarchy = cgroupfs.detect(root)
    check(hierarchy, runtime)
    with signals_unwind():
        pages = any(one.cgroup.hugepages for one in request.containers)
        more = (cgroups.HUGETLB,) if pages else ()
        run, cleaned = runs.begin(root, hierarchy, run_id, runtime=runtime, more=more)
        made: Runtime = CgroupfsRuntime(hierarchy, run.directory)
        try:
            if RUNTIMES[runtime].program:
                made = OciRuntime(hierarchy, run.directory, run_id, runtime)
            live = LiveSandbox(root, hierarchy, run_id, made, cleaned)
            live.build(request)
            if start:
                live.start_all(container.claim for container in request.containers)
            yield live
            live.close()
        finally:
            runs.end(root, hierarchy, run)
            made.reap()


def check(hierarchy: Hierarchy, runtime: str) -> None:
    """Raise if the runtime cannot work on this host."""
    kind = find_runtime(runtime)
    require_runtime(kind, hierarchy)
    for name in ("cpu", "cpuset"):
        hierarchy.controller_dir(name)
    if kind.program:
        require_root(f"the runtime {runtime}")
    for mount in cgroups.member_mounts(hierarchy, memory=False):
        cause, remedy = why_no_cgroup(mount)
        if cause:
            raise HostUnsupportedError(f"{cause}: {remedy}")
