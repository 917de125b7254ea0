"""A claim with a v1 cpuset: the place of it in both hierarchies, and scripts that are played there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.membership_lab import Account, cpuset, played, procs, total, verdict
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import cgroup
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
MARKS = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs"),
    pytest.mark.skipif(cgroupfs.detect().is_v2("cpuset"), reason="a task joins once: cpusets are in the v2 hierarchy"),
]
"""Of each module that uses this."""
narrow = pytest.mark.parametrize("place", ["narrow"], indirect=True)
wide = pytest.mark.parametrize("place", ["wide"], indirect=True)


class Place:
    """A cgroup in both hierarchies, with the claim that its tasks stay on ``IN``."""

    def __init__(self, path: str, join_cpuset: Path) -> None:
        self.path, self.cpuset, self.identity = path, join_cpuset, procs(path)
        self.claims = ClaimSet(claims=(Claim(name="db", cgroup=path, cpus=CpuSet.of([IN])),))
        mount = cgroupfs.detect().controller_dir("cpuset")
        mine = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if ":cpuset:" in line)
        self.cpuset_home = mount / mine.split(":", 2)[2].strip("/") / "cgroup.procs"


@contextmanager
def placed(observer: Observer, width: str) -> Iterator[Place]:
    """Make the place. Its cpuset is what is claimed (narrow), or everything (wide): then a member can escape."""
    path = f"/pinproof-cpusets-{os.getpid()}"
    cpus = [IN] if width == "narrow" else ONLINE
    with cpuset(path, CpuSet.of(cpus)) as file, cgroup(path[1:]):
        one = Place(path, file)
        observer.add_claim(one.claims.claims[0])
        yield one
        observer.remove_claim("db")


def play(observer: Observer, mover: Path, script: str) -> tuple[Evidence, Account, PerfAccount]:
    """Play a script in a window; returns the account, and perf's on ``OUT``.

    Before all other tasks: on a busy machine a joining must not take longer than the patience because others ran.
    """
    evidence, account, perf, _ = played(observer, mover, script, OUT, nice=-20)
    return evidence, account, perf


def clean(evidence: Evidence, place: Place) -> None:
    """Assert that nothing was outside."""
    use = total(evidence)
    assert (use.out_of_set_ns, use.out_of_set_switches, evidence.offenders) == (0, 0, ())
    assert verdict(place.claims, evidence, "cpuset-containment") is not Outcome.FAILED
