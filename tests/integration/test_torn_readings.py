"""Control files that are written to while they are read: what is kept is what stood there at one moment."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from probes.cgroups.control_files import ControlFiles
from probes.cgroups.known_files import KnownFiles
from tests.integration.apply_support import traces
from tests.seeds import SOAK
from toolkit.apply.sandbox import sandbox
from toolkit.host.kept_files import KeptFiles
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest

pytestmark = pytest.mark.integration

ONLINE = CpuSet.of(os.sched_getaffinity(0))
CHANGES = 600 if SOAK else 300
DEADLINE_S = 20.0


@pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values")
def test_request_and_grant_are_of_one_moment() -> None:
    """A cpuset changes all the time; in no reading has one file the old set and another the new one."""
    one, two = ONLINE, CpuSet.of([max(ONLINE)])
    request = SandboxRequest(containers=(ContainerRequest(claim="a", cgroup=CgroupRequest(path="a", cpus=one)),))
    run_id = f"torn-{os.getpid()}"
    with sandbox(request, run_id=run_id) as live, KeptFiles() as kept:
        path = live.value.containers[0].cgroup
        files = ControlFiles(KnownFiles(live.hierarchy, kept), {}, time.monotonic_ns())

        file = live.hierarchy.controller_dir("cpuset") / path[1:] / "cpuset.cpus"
        # Not a thread of this process: it would wait for the reader. Not without a rest: between two looks at the
        # same bytes nothing must have changed them there and back.
        rest = "i=0; while [ $i -lt 500 ]; do i=$((i+1)); done"
        loop = f"while :; do echo {two} > {file}; {rest}; echo {one} > {file}; {rest}; done"
        writer = subprocess.Popen(["sh", "-c", loop])
        try:
            end = time.monotonic() + DEADLINE_S
            while len(files.changes(0)) < CHANGES and time.monotonic() < end:
                files.look(path)
        finally:
            writer.terminate()
            writer.wait()
        files.look(path)
    seen = files.changes(0)

    assert {reading.cpus for reading in seen} == {one, two}, "the writer was at work, and is seen"
    assert [reading for reading in seen if reading.cpus != reading.cpus_effective] == []
    assert traces(run_id) == []
