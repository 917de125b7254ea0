"""A claim's task whose quota or memory limit is that of another v1 cgroup: the claim's own files are right."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import cpuset, procs, removed
from tests.integration.probe_lab import BURSTS, cgroup, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators.registry import judge

ONLINE = sorted(os.sched_getaffinity(0))
CPUS = CpuSet.of(ONLINE[:1])
V1 = ("cpu", "cpuacct", "cpuset", "memory")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
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


@dataclass(frozen=True, slots=True)
class Watched:
    """A claim of two tasks, what was seen and what the rules say. :param second: that task's id."""

    claim: Claim
    second: int
    evidence: Evidence
    verdicts: tuple[Verdict, ...]


@contextlib.contextmanager
def spinning(stays_out: str | None) -> Iterator[tuple[Claim, int]]:
    """Make a claim of two tasks, the second of which is not in one hierarchy; yields the claim and its id."""
    name = f"not-in-{stays_out}"
    with (
        cgroup(f"pinproof-strays-{name}-{os.getpid()}") as path,
        cpuset(path, CPUS) as in_cpuset,
        contextlib.ExitStack() as stack,
    ):
        doors = {
            controller: stack.enter_context(in_v1(path, controller)) for controller in ("cpu", "cpuacct", "memory")
        }
        doors["memory"].with_name("memory.limit_in_bytes").write_text(str(1 << 30))
        tasks = [subprocess.Popen([sys.executable, "-c", BURSTS]) for _ in range(2)]
        try:
            for task, outside in zip(tasks, (None, stays_out), strict=True):
                for controller, door in {**doors, "cpuset": in_cpuset}.items():
                    if controller != outside or controller == "cpuset":
                        door.write_text(str(task.pid))
                if outside != "cpuset":  # The other way round: it is in the cpuset, and has no identity.
                    procs(path).write_text(str(task.pid))
            yield Claim(name=name, cgroup=path, cpus=CPUS, quota_us=NO_QUOTA, memory_bytes=1 << 30), tasks[1].pid
        finally:
            for task in tasks:
                task.kill()
                task.wait()


@pytest.fixture(scope="module")
def watched(ledger: Ledger) -> dict[str | None, Watched]:
    """One window over four claims; the second task of each is not in another hierarchy, that of one is in all."""
    with contextlib.ExitStack() as stack:
        made = {stays_out: stack.enter_context(spinning(stays_out)) for stays_out in (None, *RULES)}
        claims = ClaimSet(claims=tuple(claim for claim, _ in made.values()))
        with observing(claims, ledger=ledger) as observer:
            observer.open_window()
            time.sleep(2.5)
            evidence = observer.close_window()
    verdicts = judge(claims, evidence)
    return {stays_out: Watched(claim, second, evidence, verdicts) for stays_out, (claim, second) in made.items()}


@pytest.mark.parametrize("stays_out", [None, *RULES])
def test_a_task_that_a_claims_files_do_not_hold(watched: dict[str | None, Watched], stays_out: str | None) -> None:
    """A task that is in all of them is judged; one that is not in one leaves undecided what that one promises."""
    one = watched[stays_out]
    spots = one.evidence.coverage.blindness
    found = {spot.text for spot in spots if spot.claim == one.claim.name and str(one.second) in spot.text}
    assert len(found) == (stays_out is not None), one.evidence.coverage.blind_spots
    if stays_out is not None:
        said = {v.outcome for v in one.verdicts if (v.rule, v.subject) == (RULES[stays_out], one.claim.name)}
        assert said == {Outcome.UNDECIDED}
