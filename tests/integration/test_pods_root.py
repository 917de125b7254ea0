"""The cgroup that all pods are in is removed and made again, or comes late: whose tasks lie below it is known all the
time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from probes.cgroups.claimed_paths import ClaimedPaths
from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.probe_lab import BRISK, Planter, cgroup, join, remove, wait_for
from toolkit.host import cgroupfs
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.verdict import Outcome
from validators.rules.exclusive_cpus import check as exclusive_cpus

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("two_cpus")]

ONLINE = sorted(os.sched_getaffinity(0))
HOME, OWNED = ONLINE[0], ONLINE[-1]
STAY_NS = 5_000_000
TIMES = 5


@pytest.fixture
def place() -> Iterator[str]:
    """A cgroup for the claim; the pods' lies beside it."""
    with cgroup(f"pinproof-podsroot-{os.getpid()}") as path:
        yield path


def directory(path: str) -> Path:
    return cgroupfs.identity_dir(cgroupfs.detect(), path)


def claims(place: str, pods: str | None) -> ClaimSet:
    """One container owns a CPU."""
    directory(f"{place}/db").mkdir()
    claim = Claim(name="db", cgroup=f"{place}/db", cpus=CpuSet.of([OWNED]), isolation=Isolation.CONTAINER)
    return ClaimSet(claims=(claim,), pods_root=pods)


def make_pod(pods: str) -> None:
    (directory(pods) / "pod1/main").mkdir(parents=True)


def hog(planter: Path, pods: str) -> None:
    """Let a task of a pod without a claim run on the exclusive CPU."""
    with Planter(planter, "hop", HOME, OWNED, TIMES, STAY_NS) as run:
        join(f"{pods}/pod1/main", run.process.pid)
        run.go()
        run.truth()
        run.end()


def foreign_ns(evidence: Evidence) -> int:
    return sum(row.total_ns for row in evidence.intruders if row.owner is OwnerClass.FOREIGN_POD)


def doubts(evidence: Evidence) -> list[str]:
    """Return what the ledger of switches did not see."""
    return [spot.text for spot in evidence.coverage.blindness if Witness.SWITCHES in spot.witnesses]


def outcome(promised: ClaimSet, evidence: Evidence) -> Outcome:
    (verdict,) = [one for one in exclusive_cpus(promised, evidence) if one.subject == "db"]
    return verdict.outcome


@pytest.mark.parametrize("held", [False, True], ids=["free", "before-user-space-looks"])
def test_made_again_while_a_window_is_open(ledger: Ledger, planter: Path, place: str, *, held: bool) -> None:
    """As by a kubelet that restarts without pods: the next pod's task on an exclusive CPU is a foreign pod's.

    ``held``: user space cannot take note of anything before the task has run.
    """
    pods = f"{place}/kubepods"
    make_pod(pods)
    promised = claims(place, pods)
    with observing(promised, ledger=ledger) as observer:
        observer.open_window()
        if held:
            observer.lock.acquire()
        try:
            for below in ("pod1/main", "pod1", ""):
                remove(directory(pods) / below)
            make_pod(pods)
            hog(planter, pods)
        finally:
            if held:
                observer.lock.release()
        evidence = observer.close_window()

    assert foreign_ns(evidence) >= TIMES * STAY_NS * 0.9
    assert outcome(promised, evidence) is Outcome.FAILED
    assert not doubts(evidence)


def test_made_for_the_first_time_while_a_window_is_open(ledger: Ledger, planter: Path, place: str) -> None:
    """An empty node, which is no doubt; then its first pod."""
    pods = f"{place}/kubepods"
    promised = claims(place, pods)
    with observing(promised, ledger=ledger, witnesses=BRISK) as observer:
        observer.open_window()
        checked_ns = observer.pods.checked_ns if observer.pods else 0
        wait_for(lambda: observer.pods is not None and observer.pods.checked_ns > checked_ns, "it was looked for", 10)
        empty = observer.close_window()
        observer.open_window()
        make_pod(pods)
        hog(planter, pods)
        evidence = observer.close_window()

    assert not doubts(empty)
    assert foreign_ns(empty) == 0
    assert outcome(promised, evidence) is Outcome.FAILED
    assert not doubts(evidence)


def test_named_only_when_its_first_pod_appears(ledger: Ledger, planter: Path, place: str) -> None:
    """Where a node's cgroups have no name that says it, it is published later; so is another in its place."""
    pods = f"{place}/kubepods"
    make_pod(pods)
    promised = claims(place, None)
    with observing(promised, ledger=ledger) as observer:
        observer.open_window()
        hog(planter, pods)
        before = observer.close_window()
        observer.open_window()
        observer.watch_pods(f"{place}/elsewhere")
        observer.watch_pods(pods)
        hog(planter, pods)
        there = observer.snapshot()
        for below in ("pod1/main", "pod1"):
            remove(directory(pods) / below)
        evidence = observer.close_window()
        assert len(tuple(ledger.side(ClaimedPaths).paths.keys())) == 2

    for found, gone in ((there, False), (evidence, True)):
        assert {row.gone for row in found.intruders if row.owner is OwnerClass.FOREIGN_POD} == {gone}
    assert foreign_ns(before) == 0
    assert foreign_ns(evidence) >= TIMES * STAY_NS * 0.9
    assert outcome(promised, evidence) is Outcome.FAILED
    assert tuple(ledger.roots.keys()) == ()
    assert tuple(ledger.side(ClaimedPaths).paths.keys()) == ()


def test_a_name_too_long_for_the_kernel_side(ledger: Ledger, planter: Path, place: str) -> None:
    """Found out by comparing numbers, now and then; what that left unseen is a blind spot."""
    pods = place + "".join("/" + part * 200 for part in "abc")
    make_pod(pods)
    promised = claims(place, pods)
    with observing(promised, ledger=ledger, witnesses=BRISK) as observer:
        observer.open_window()
        known = observer.pods
        assert known is not None
        number = known.cgroup_id
        for below in ("pod1/main", "pod1", ""):
            remove(directory(pods) / below)
        make_pod(pods)
        wait_for(lambda: known.cgroup_id != number, "the new number was found", 10)
        hog(planter, pods)
        evidence = observer.close_window()

    assert outcome(promised, evidence) is Outcome.FAILED
    (doubt,) = doubts(evidence)
    assert "was made anew" in doubt


def beside(pods: str) -> list[Callable[[], None]]:
    """Make the pods' cgroup in the v1 hierarchies alone; returns how to remove it."""
    hierarchy = cgroupfs.detect()
    if hierarchy.is_v2("cpuset"):
        pytest.skip("this machine has no v1 hierarchy")
    mount = hierarchy.find_controller("cpuset")
    assert mount is not None
    folder = mount / pods.strip("/")
    made = [folder.parent, folder]
    for one in made:
        one.mkdir()
    for name in ("cpuset.cpus", "cpuset.mems"):
        for one in made:
            (one / name).write_text((mount / name).read_text())
    return [lambda one=one: one.rmdir() for one in reversed(made)]  # type: ignore[misc]


def test_pods_in_a_v1_hierarchy_alone_are_a_doubt(ledger: Ledger, planter: Path, place: str) -> None:
    """Where tasks run in it; an empty one is none."""
    pods = f"{place}/kubepods"
    promised = claims(place, pods)
    undo = beside(pods)
    mount = cgroupfs.detect().find_controller("cpuset")
    assert mount is not None
    try:
        with observing(promised, ledger=ledger, witnesses=BRISK) as observer:

            def looked(times: int) -> None:
                for _ in range(times):
                    at_ns = observer.pods.checked_ns if observer.pods else 0
                    wait_for(lambda: observer.pods is not None and observer.pods.checked_ns > at_ns, "a look", 10)  # noqa: B023

            observer.open_window()
            looked(3)
            empty = observer.close_window()
            with Planter(planter, "hop", HOME, OWNED, 1, STAY_NS) as run:
                (mount / pods.strip("/") / "cgroup.procs").write_text(str(run.process.pid))
                observer.open_window()
                looked(3)
                evidence = observer.close_window()
                (mount / "cgroup.procs").write_text(str(run.process.pid))
    finally:
        for step in undo:
            step()
    assert not doubts(empty)
    (doubt,) = doubts(evidence)
    assert "not in the v2 hierarchy" in doubt
