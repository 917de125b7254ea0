"""Single threads are moved in threaded cgroups, and their process as a whole: each is judged by where it was itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.membership_lab import Mover, Stays, claim, complete, procs, rest, total
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import cgroup, wait_for
from toolkit.host import cgroupfs

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
pytestmark = [pytest.mark.integration, pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs")]


@pytest.fixture
def place() -> Iterator[str]:
    """A cgroup to make threaded ones in."""
    with cgroup(f"pinproof-threaded-{os.getpid()}") as path:
        yield path


@pytest.fixture(autouse=True)
def beside() -> Iterator[None]:
    """What moves them is on the other CPU: waking up there cuts no interval of theirs."""
    os.sched_setaffinity(0, {IN})
    yield
    os.sched_setaffinity(0, set(ONLINE))


@contextlib.contextmanager
def threaded(path: str, *names: str) -> Iterator[list[Path]]:
    """Make threaded cgroups below a cgroup; they are empty at the end, because what was there was killed."""
    directories = [cgroupfs.identity_dir(cgroupfs.detect(), path) / name for name in names]
    for directory in directories:
        directory.mkdir()
        (directory / "cgroup.type").write_text("threaded")
    try:
        yield directories
    finally:
        for directory in directories:
            wait_for(lambda one=directory: not (one / "cgroup.threads").read_text(), f"{directory} empty")
            directory.rmdir()


def second_thread(pid: int) -> int:
    """Wait until a process has one thread beside its leader, and return it."""
    tasks = Path(f"/proc/{pid}/task")
    wait_for(lambda: len(list(tasks.iterdir())) == 2, "its thread")
    return next(int(path.name) for path in tasks.iterdir() if path.name != str(pid))


def test_single_threads_are_moved_in_a_threaded_subtree(observer: Observer, place: str, mover: Path) -> None:
    """One thread of a process is moved between two claims' threaded cgroups; its siblings stay where they are."""
    # The claim about `near` forbids OUT, the one about `far` allows it; the one around both allows everything.
    with (
        threaded(place, "near", "far") as (near, far),
        Mover(mover, f"pin {IN} ready thread {{ pin {OUT} forever }} wait") as run,
    ):
        observer.add_claim(claim("all", place, *ONLINE))
        observer.add_claim(claim("db", f"{place}/near", IN))
        observer.add_claim(claim("far", f"{place}/far", OUT))
        pid = run.process.pid
        procs(place).write_text(str(pid))
        observer.open_window()
        run.go()
        tid = second_thread(pid)
        with PerfAccount(tid, OUT, observer) as clock:
            wait_for(lambda: clock.read_ns() > 10_000_000, "it spins")
            stays = Stays(clock)
            for _ in range(40):
                stays.enter(lambda: (near / "cgroup.threads").write_text(str(tid)))
                rest(0.002)
                stays.leave(lambda: (far / "cgroup.threads").write_text(str(tid)))
                rest(0.001)
            evidence = observer.close_window()
            clock.close()
        for name in ("all", "far", "db"):
            observer.remove_claim(name)
    use = total(evidence)
    complete(evidence)
    assert stays.account.agrees(use.out_of_set_ns, stays.lost_ns(use.switches)), (use, stays.account)
    assert {(row.claim, row.tid, row.cpu) for row in evidence.offenders} == {("db", tid, OUT)}


def test_a_thread_comes_home_with_its_process(observer: Observer, place: str, mover: Path) -> None:
    """A thread is moved into an inner claim, then the whole process into the outer cgroup, where its leader is already.

    Nothing changes for the leader, but for the thread: its time is the outer claim's from then on, and the kernel's
    program knows that by itself, so that user space need not settle every interval.
    """
    with (
        threaded(place, "near") as (near,),
        Mover(mover, f"pin {IN} ready thread {{ pin {OUT} forever }} wait") as run,
    ):
        observer.add_claim(claim("all", place, *ONLINE))
        observer.add_claim(claim("db", f"{place}/near", IN))
        outer = observer.subjects["all"]
        pid = run.process.pid
        procs(place).write_text(str(pid))
        observer.open_window()
        run.go()
        tid = second_thread(pid)
        with PerfAccount(tid, OUT, observer) as clock:
            wait_for(lambda: clock.read_ns() > 10_000_000, "it spins")
            stays = Stays(clock)
            stays.enter(lambda: (near / "cgroup.threads").write_text(str(tid)))
            rest(0.005)
            stays.leave(lambda: procs(place).write_text(str(pid)))
            number = observer.ledger.window
            home_ns = clock.read_ns()
            settled = observer.ledger.rows.ns(outer.slot, number)
            wait_for(
                lambda: observer.ledger.rows.ns(outer.slot, number) > settled + 100_000_000,
                "the program counts it for the outer claim",
            )
            least_ns = clock.read_ns() - home_ns
            evidence = observer.close_window()
            clock.close()
        for name in ("all", "db"):
            observer.remove_claim(name)
    use, around = total(evidence), total(evidence, "all")
    complete(evidence)
    assert stays.account.agrees(use.out_of_set_ns, stays.lost_ns(use.switches)), (use, stays.account)
    assert around.out_of_set_ns == 0
    assert around.run_ns >= least_ns * 0.95 - clock.lost_ns(around.switches)
