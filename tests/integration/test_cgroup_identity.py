"""A claimed cgroup is deleted, or made again under its name: dated, watched from its first task on, accounted for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.cgroups.claimed_paths import KEPT_EVENTS, ClaimedPaths
from probes.cgroups.files import FileWatch
from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.apply_support import container, need_runtime, request
from tests.integration.planting import Watch
from tests.integration.probe_lab import BRISK, Planter, cgroup, join, remove, wait_for
from toolkit.apply.sandbox import sandbox
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.sandbox import WorkloadKind
from toolkit.store import load_run
from validators.credibility.agreement import disagreements

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("two_cpus")]

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
STAY_NS = 1_000_000


@pytest.fixture
def place() -> Iterator[str]:
    """A cgroup that tests may delete."""
    with cgroup(f"pinproof-identity-{os.getpid()}") as path:
        yield path
        directory(path).mkdir(exist_ok=True, parents=True)


def directory(path: str) -> Path:
    return cgroupfs.identity_dir(cgroupfs.detect(), path)


def remake(path: str) -> tuple[int, int]:
    """Delete the cgroup and make it again; returns the time before and after (CLOCK_MONOTONIC)."""
    before = time.monotonic_ns()
    remove(directory(path))
    directory(path).mkdir()
    return before, time.monotonic_ns()


def escapes(planter: Path, path: str, count: int) -> int:
    """Let a process join the cgroup and run outside ``count`` times; returns how often it was switched out there."""
    with Planter(planter, "hop", IN, OUT, count, STAY_NS) as run:
        join(path, run.process.pid)
        run.go()
        truth = run.truth()
        run.end()
    return truth.switches


def seen(evidence: Evidence, name: str = "a") -> tuple[int, int]:
    rows = [row for row in evidence.cpu_use if row.claim == name]
    return sum(row.out_of_set_switches for row in rows), sum(row.out_of_set_ns for row in rows)


def events(evidence: Evidence, name: str = "a") -> list[tuple[str, int]]:
    wanted = ("cgroup-gone", "cgroup-made")
    return [(row.what, row.start_at_ns) for row in evidence.transitions if row.claim == name and row.what in wanted]


def claims(path: str, name: str = "a") -> ClaimSet:
    return ClaimSet(claims=(Claim(name=name, cgroup=path, cpus=CpuSet.of([IN])),))


@pytest.mark.beside
@pytest.mark.parametrize("held", [False, True], ids=["free", "before-user-space-looks"])
def test_a_cgroup_made_again_is_watched_from_its_first_task_on(
    ledger: Ledger, planter: Path, place: str, *, held: bool
) -> None:
    """Twice: every escape of each new cgroup is counted, both times of each remaking are in the evidence.

    ``held``: user space cannot take note of anything until all is over; the kernel side must have done it alone.
    """
    with observing(claims(place), ledger=ledger) as observer:
        observer.open_window()
        started = observer._window().start_ns
        if held:
            observer.lock.acquire()
        try:
            planted = escapes(planter, place, 5)
            moments = []
            for _ in range(2):
                moments.append(remake(place))
                planted += escapes(planter, place, 5)
        finally:
            if held:
                observer.lock.release()
        evidence = observer.close_window()

    out, ns = seen(evidence)
    assert out >= planted >= 15
    assert ns >= 15 * STAY_NS * 0.95
    found = events(evidence)
    assert [what for what, _ in found] == ["cgroup-gone", "cgroup-made"] * 2
    for (_, gone), (_, made), (before, after) in zip(found[::2], found[1::2], moments, strict=True):
        assert before <= gone + started <= made + started <= after
    assert all(row.cause == "host" for row in evidence.transitions if row.what.startswith("cgroup-"))
    assert disagreements(claims(place), evidence) == ()


@pytest.mark.beside
def test_nested_cgroups_with_and_without_a_claim(ledger: Ledger, planter: Path, place: str) -> None:
    """The parent goes with the child and both come again; the deepest claim counts, below it nested cgroups too."""
    inner = f"{place}/inner"
    directory(inner).mkdir()
    both = ClaimSet(claims=(*claims(place, "outer").claims, *claims(inner, "inner").claims))
    with observing(both, ledger=ledger) as observer:
        observer.open_window()
        remove(directory(inner))
        remake(place)
        directory(inner).mkdir()
        (directory(inner) / "leaf").mkdir()
        of_inner = escapes(planter, f"{inner}/leaf", 5)
        of_outer = escapes(planter, place, 3)
        evidence = observer.close_window()

    assert [what for what, _ in events(evidence, "inner")] == ["cgroup-gone", "cgroup-made"]
    assert [what for what, _ in events(evidence, "outer")] == ["cgroup-gone", "cgroup-made"]
    assert seen(evidence, "inner")[0] >= of_inner >= 5
    assert seen(evidence, "outer")[0] >= of_outer >= 3
    assert seen(evidence, "inner")[1] < 2 * 5 * STAY_NS


def test_a_cgroup_that_is_gone_is_judged_for_the_time_it_was_there(ledger: Ledger, planter: Path, place: str) -> None:
    """Deleted and not made again: its last readings are kept, both accounts of its CPU time agree, watching goes on."""
    with observing(claims(place), ledger=ledger, witnesses=BRISK) as observer:
        observer.open_window()
        planted = escapes(planter, place, 20)
        wait_for(lambda: observer._window().watch(FileWatch).files.readings >= 2, "control files were read")
        remove(directory(place))
        wait_for(lambda: observer.subjects["a"].gone, "the deletion was noticed")
        evidence = observer.close_window()
        observer.open_window()
        empty = observer.close_window()
        with pytest.raises(InputError, match="a cgroup that exists"), observer.restarting("a"):
            pass

    assert seen(evidence)[0] >= planted >= 20
    assert [what for what, _ in events(evidence)] == ["cgroup-gone"]
    (own,) = [row for row in evidence.bandwidth if row.level == 0]
    assert own.usage_ns is not None
    assert own.usage_ns >= 20 * STAY_NS * 0.9
    assert disagreements(claims(place), evidence) == ()
    assert events(empty) == []
    assert seen(empty) == (0, 0)


@pytest.mark.beside
def test_a_stopped_reader_loses_dates_not_escapes(ledger: Ledger, planter: Path, place: str) -> None:
    """More events than the kernel side keeps, and none is read: the last cgroup is watched, the rest is counted."""
    times = KEPT_EVENTS
    with observing(claims(place), ledger=ledger) as observer:
        observer.open_window()
        with observer.lock:
            for _ in range(times):
                remake(place)
            planted = escapes(planter, place, 5)
        evidence = observer.close_window()

    assert seen(evidence)[0] >= planted >= 5
    assert len(events(evidence)) == KEPT_EVENTS
    assert any(f"{2 * times - KEPT_EVENTS} times more" in spot for spot in evidence.coverage.blind_spots)


@pytest.mark.beside
def test_a_name_too_long_for_the_kernel_side(ledger: Ledger, planter: Path, place: str) -> None:
    """Found out by comparing ids; what that left unseen is a blind spot."""
    path = place
    for part in "abc":
        path += "/" + part * 200
        directory(path).mkdir()
    with observing(claims(path), ledger=ledger) as observer:
        observer.open_window()
        number = observer.subjects["a"].cgroup_id
        remake(path)
        wait_for(lambda: observer.subjects["a"].cgroup_id != number, "the new id was found", 10)
        planted = escapes(planter, path, 5)
        evidence = observer.close_window()

    assert [what for what, _ in events(evidence)] == ["cgroup-gone", "cgroup-made"]
    assert seen(evidence)[0] >= planted >= 5
    assert any("not watched" in spot for spot in evidence.coverage.blind_spots)


@pytest.mark.beside
def test_a_removed_claim_leaves_its_name_to_no_cgroup(ledger: Ledger, place: str) -> None:
    """A cgroup made again after the claim was removed is no root, also where its slot has another claim by then."""
    with observing(claims(place), ledger=ledger) as observer:
        observer.remove_claim("a")
        remake(place)
        assert tuple(ledger.roots.keys()) == ()
        assert tuple(ledger.side(ClaimedPaths).paths.keys()) == ()


def test_a_restart_by_a_runtime_keeps_what_the_old_container_used(ledger: Ledger) -> None:
    """runc deletes the cgroup with the container: read before, so that both lives' CPU time is known and agrees."""
    need_runtime("runc")
    spinner = container("a", WorkloadKind.SPIN, cpus=CpuSet.of([IN]))
    with sandbox(request(spinner), run_id=f"lives-{os.getpid()}", runtime="runc") as live:
        (one,) = live.value.containers
        with observing(claims(one.cgroup), ledger=ledger) as observer:
            observer.open_window()
            live.before_delete = observer.read_last

            def used_ns() -> int:
                return cgroupfs.read_cpu_stat(live.hierarchy, one.cgroup).usage_ns or 0

            old = used_ns()
            wait_for(lambda: used_ns() > old + 300_000_000, "the old container ran")
            with observer.restarting("a"):
                live.restart("a")
            wait_for(lambda: used_ns() > 300_000_000, "the new container ran")
            evidence = observer.close_window()

    (own,) = [row for row in evidence.bandwidth if row.level == 0]
    assert own.lives >= 2
    assert own.usage_ns is not None
    assert own.usage_ns >= 600_000_000
    assert own.unread_ns < 30_000_000
    assert disagreements(claims(one.cgroup), evidence) == ()
    assert {row.cause for row in evidence.transitions} == {"toolkit"}
    assert {"cgroup-gone", "cgroup-made", "restart"} <= {row.what for row in evidence.transitions}


@pytest.mark.beside
def test_watch_that_was_stopped_meanwhile_still_judges_the_new_cgroup(
    planter: Path, place: str, tmp_path: Path
) -> None:
    """The whole command is stopped (SIGSTOP) while the cgroup is made again and its task escapes: exit 1, and why."""
    claim = {"name": "a", "cgroup": place, "cpus": str(IN)}
    with Watch({"claims": [claim]}, tmp_path) as watch:
        watch.process.send_signal(signal.SIGSTOP)
        try:
            remake(place)
            escapes(planter, place, 5)
        finally:
            watch.process.send_signal(signal.SIGCONT)
        answer = watch.answer()

    said = answer.verdict("cpuset-containment")
    assert (answer.code, said["outcome"]) == (1, "failed")
    assert "its cgroup was deleted at" in said["reason"]
    assert "made again at" in said["reason"]
    (run,) = (tmp_path / "runs").iterdir()
    assert [what for what, _ in events(load_run(run).evidence)] == ["cgroup-gone", "cgroup-made"]


def test_all_cgroups_that_are_made_are_counted(ledger: Ledger) -> None:
    """Made by any program, in any hierarchy: a witness that knows all need not look for new ones."""
    side = ledger.side(ClaimedPaths)
    before = side.made()
    with cgroup(f"pinproof-counted-{os.getpid()}"):
        assert side.made() > before
