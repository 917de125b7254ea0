"""A claim's task whose quota or memory limit is that of another v1 cgroup: the claim's own files are right."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import cpuset, procs, removed, verdict
from tests.integration.probe_lab import cgroup, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.verdict import Outcome

ONLINE = sorted(os.sched_getaffinity(0))
CPUS = CpuSet.of(ONLINE[:1])
V1 = ("cpu", "cpuacct", "cpuset", "memory")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(any(cgroupfs.detect().is_v2(name) for name in V1), reason="needs all of them in v1 hierarchies"),
]
RULES = {"cpu": "quota-free", "memory": "applied", "cpuset": "cpuset-containment"}
"""Of each hierarchy, a rule that says nothing else about where its tasks are."""


@contextlib.contextmanager
def in_v1(name: str, controller: str) -> Iterator[Path]:
    """Make a cgroup of this name in one hierarchy, if no other has; yields its ``cgroup.procs``."""
    root = cgroupfs.detect().controller_dir(controller)
    directory = root / name.strip("/")
    if directory.exists():
        yield directory / "cgroup.procs"
        return
    directory.mkdir()
    try:
        yield directory / "cgroup.procs"
    finally:
        wait_for(lambda: removed(directory), f"{directory} removed")


@pytest.mark.parametrize("stays_out", [None, "cpu", "memory", "cpuset"])
def test_a_task_that_a_claims_files_do_not_hold(ledger: Ledger, stays_out: str | None) -> None:
    """Whoever is in all of them is judged; who is not in one leaves undecided what that one promises."""
    with (
        cgroup(f"pinproof-strays-{os.getpid()}") as name,
        cpuset(name, CPUS) as in_cpuset,
        contextlib.ExitStack() as stack,
    ):
        doors = {
            controller: stack.enter_context(in_v1(name, controller)) for controller in ("cpu", "cpuacct", "memory")
        }
        limit = doors["memory"].with_name("memory.limit_in_bytes")
        limit.write_text(str(1 << 30))
        claim = Claim(name="a", cgroup=name, cpus=CPUS, quota_us=NO_QUOTA, memory_bytes=1 << 30)
        tasks = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        try:
            for task, outside in zip(tasks, (None, stays_out), strict=True):
                for controller, door in {**doors, "cpuset": in_cpuset}.items():
                    if controller != outside or controller == "cpuset":
                        door.write_text(str(task.pid))
                if outside != "cpuset":  # The other way round: it is in the cpuset, and has no identity.
                    procs(name).write_text(str(task.pid))
            with Observer(ClaimSet(claims=(claim,)), ledger=ledger) as observer:
                observer.open_window()
                time.sleep(2.5)
                evidence = observer.close_window()
        finally:
            for task in tasks:
                task.kill()
                task.wait()
    found = {spot.text for spot in evidence.coverage.blindness if spot.claim == "a" and str(tasks[1].pid) in spot.text}
    assert len(found) == (stays_out is not None), evidence.coverage.blind_spots
    if stays_out is not None:
        assert verdict(ClaimSet(claims=(claim,)), evidence, RULES[stays_out]) is Outcome.UNDECIDED
