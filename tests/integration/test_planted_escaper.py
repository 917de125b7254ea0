"""The task that a negative control plants: how far it came is counted by the kernel, not by the rule under test."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.integration.probe_lab import stand_still, wait_for
from toolkit.apply.load.work import HOP_NS
from toolkit.apply.sandbox import sandbox
from toolkit.faults.controls import broken
from toolkit.faults.escaper import ROUNDS
from toolkit.host import procfs
from toolkit.host.topology import read_topology
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.scenario import NegativeControl

pytestmark = pytest.mark.integration
MANY = 50
CONTROL = NegativeControl(rule="cpuset-containment", fault="widen-cpuset", target="web")


def test_the_rounds_of_an_escaper_are_counted() -> None:
    """It makes rounds over all CPUs; stopped, it makes none, and that is told, too."""
    online = read_topology().online
    request = SandboxRequest(
        containers=(
            ContainerRequest(
                claim="web",
                cgroup=CgroupRequest(path="web", cpus=CpuSet.of([online.first()])),
                workloads=(Workload(kind=WorkloadKind.QUIET),),
            ),
        )
    )
    with contextlib.ExitStack() as stack:
        live = stack.enter_context(sandbox(request, run_id="test-escaper"))
        (place,) = live.value.containers
        claims = ClaimSet(claims=(Claim(name="web", cgroup=place.cgroup, cpus=CpuSet.of([online.first()])),))
        escaper = stack.enter_context(broken(CONTROL, live, claims, online))
        assert escaper is not None
        first = escaper.rounds()
        assert first is not None
        wait_for(lambda: (escaper.rounds() or 0) >= first + ROUNDS, "two rounds")

        # One part of it may have begun before. A count of sleeps would run ahead: what is moved sleeps meanwhile.
        before, began_ns = escaper.rounds() or 0, time.monotonic_ns()
        wait_for(lambda: (escaper.rounds() or 0) >= before + MANY, "many rounds")
        least_ns = (MANY - 1) * (len(online) + 1) * HOP_NS
        assert time.monotonic_ns() - began_ns >= least_ns, "a round visits every CPU, then all together"

        (worker,) = procfs.children(escaper.pid) or ()
        stand_still(worker)
        stopped = escaper.rounds()
        assert stopped is not None
        assert escaper.rounds() == stopped
    assert escaper.rounds() is None
