"""Moved by others while they spin: each moment is judged by where the task was then, whatever moved it, however short.

What spins never switches, so nothing cuts its interval but what the ledger knows of the moves.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from probes.observer import Observer
from probes.switches.moving import Moving
from probes.switches.records import MoveEvent
from tests.integration.escape_bounds import stolen_since
from tests.integration.membership_lab import (
    Mover,
    Stays,
    claim,
    complete,
    consistent,
    cpuset,
    home,
    procs,
    rest,
    switches_on,
    total,
    verdict,
)
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import TaskClock, cgroup, stolen_ns, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.verdict import Outcome

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
pytestmark = [pytest.mark.integration, pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs")]


@pytest.fixture
def place(observer: Observer) -> Iterator[str]:
    """A cgroup with the claim that its tasks stay on ``IN``."""
    with cgroup(f"pinproof-moves-{os.getpid()}") as path:
        observer.add_claim(claim("db", path, IN))
        yield path
        if "db" in observer.subjects:
            observer.remove_claim("db")


@pytest.fixture(autouse=True)
def beside() -> Iterator[None]:
    """What moves them is on the other CPU: waking up there cuts no interval of theirs."""
    os.sched_setaffinity(0, {IN})
    yield
    os.sched_setaffinity(0, set(ONLINE))


def _ran(clock: PerfAccount, since_ns: int) -> bool:
    return clock.read_ns() > since_ns


@pytest.mark.parametrize(("count", "inside_s"), [(40, 0.002), (200, 0.0003), (3, 0.1), (1, 0.004)])
def test_moved_in_while_spinning(observer: Observer, place: str, mover: Path, count: int, inside_s: float) -> None:
    """Each stay is time outside; before, between and after them it is of no claim."""
    with Mover(mover, f"pin {OUT} ready forever") as run, PerfAccount(run.pid, OUT, observer) as clock:
        back, pid = home(run.process.pid), str(run.process.pid)
        observer.open_window()
        run.go()
        wait_for(lambda: clock.read_ns() > 10_000_000, "it spins")
        stays = Stays(clock)
        for _ in range(count):
            stays.enter(lambda: procs(place).write_text(pid))
            entered_ns = clock.read_ns()
            rest(inside_s)
            # Others may want the CPU: a stay in which it never ran is none.
            wait_for(partial(_ran, clock, entered_ns), "it runs inside")
            stays.leave(lambda: back.write_text(pid))
            rest(0.003)
        evidence = observer.close_window()
        clock.close()
    use = total(evidence)
    complete(evidence)
    lost_ns, hidden_ns = stays.lost_ns(use.switches), clock.hidden.run_ns
    assert stays.account.agrees(use.out_of_set_ns, lost_ns), (use, stays.account)
    # Time outside begins at the task's arrival; what this kernel's hidden threads took before it is in its run time.
    assert use.out_of_set_ns <= use.run_ns
    assert stays.account.agrees(use.run_ns, lost_ns, hidden_ns), (use, stays.account)
    # Another task may want the CPU in between: each of those ends an interval, too. By perf's count, since the ledger
    # knows the task's arrival after a thread that this kernel hides from its tracepoint, but counts no switch there.
    # A stay whose task such a thread had interrupted when it was moved out has no interval that the ledger knows.
    missed = clock.missed(use.switches, switched_out=stays.switched_out)
    assert count - missed <= use.out_of_set_switches <= count + stays.switched_out
    assert {(row.tid, row.cpu, row.comm) for row in evidence.offenders} == {(int(pid), OUT, "mover")}
    claims = ClaimSet(claims=(claim("db", place, IN),))
    assert verdict(claims, evidence, "cpuset-containment") is Outcome.FAILED
    consistent(evidence)


def test_moved_between_two_claims(observer: Observer, place: str, mover: Path) -> None:
    """To and fro between a claim that allows the CPU and one that does not: each has its own time, and no other's."""
    with (
        cgroup(f"pinproof-other-{os.getpid()}") as other,
        Mover(mover, f"pin {OUT} ready forever") as run,
        PerfAccount(run.pid, OUT, observer) as clock,
    ):
        observer.add_claim(claim("web", other, OUT))
        pid = str(run.process.pid)
        procs(other).write_text(pid)
        observer.open_window()
        run.go()
        wait_for(lambda: clock.read_ns() > 10_000_000, "it spins")
        stays = Stays(clock)
        for _ in range(40):
            stays.enter(lambda: procs(place).write_text(pid))
            rest(0.002)
            stays.leave(lambda: procs(other).write_text(pid))
            rest(0.001)
        evidence = observer.close_window()
        clock.close()
        out = clock.on_cpu
        observer.remove_claim("web")
    db, web = total(evidence), total(evidence, "web")
    complete(evidence)
    lost_ns, hidden_ns = stays.lost_ns(db.switches), clock.hidden.run_ns
    assert stays.account.agrees(db.out_of_set_ns, lost_ns), (db, stays.account)
    assert db.out_of_set_ns <= db.run_ns
    assert stays.account.agrees(db.run_ns, lost_ns, hidden_ns), (db, stays.account)
    assert (web.out_of_set_ns, web.out_of_set_switches) == (0, 0)
    assert web.run_ns <= (out - db.run_ns) * 1.05 + 10_000_000 + lost_ns + hidden_ns


@pytest.mark.parametrize("where", ["both outside", "one inside"])
def test_process_is_moved_whole_while_its_threads_spin(observer: Observer, place: str, mover: Path, where: str) -> None:
    """The kernel names only the leader; its threads were moved, too, and those on a CPU of the claim did no wrong."""
    second = OUT if where == "both outside" else IN
    script = f"pin {OUT} ready thread {{ pin {OUT} forever }} thread {{ pin {second} forever }} pin {IN} wait"
    with Mover(mover, script) as run, PerfAccount(run.pid, OUT, observer) as clock:
        back, pid = home(run.process.pid), str(run.process.pid)
        observer.open_window()
        run.go()
        wait_for(lambda: clock.read_ns() > 10_000_000, "they spin")
        stays = Stays(clock)
        for _ in range(20):
            stays.enter(lambda: procs(place).write_text(pid))
            rest(0.005)
            stays.leave(lambda: back.write_text(pid))
            rest(0.005)
        evidence = observer.close_window()
        clock.close()
    use = total(evidence)
    complete(evidence)
    lost_ns = stays.lost_ns(switches_on(evidence, OUT))
    assert stays.account.agrees(use.out_of_set_ns, lost_ns), (use, stays.account)
    assert {row.cpu for row in evidence.offenders} == {OUT}
    assert int(pid) not in {row.tid for row in evidence.offenders}
    assert len({row.tid for row in evidence.offenders}) == (2 if second == OUT else 1)


def test_moved_in_before_the_claim_was_watched(observer: Observer, place: str, mover: Path) -> None:
    """What was there already when the claim was added is a member from then on, until it is moved out."""
    with Mover(mover, f"pin {OUT} ready forever") as run, PerfAccount(run.pid, OUT, observer) as clock:
        back, pid = home(run.process.pid), str(run.process.pid)
        observer.remove_claim("db")
        procs(place).write_text(pid)
        run.go()
        wait_for(lambda: clock.read_ns() > 10_000_000, "it spins")
        observer.add_claim(claim("db", place, IN))
        stays = Stays(clock)
        stays.enter(observer.open_window)
        entered_ns = clock.read_ns()
        wait_for(lambda: clock.read_ns() > entered_ns + 45_000_000, "it spins inside")
        stays.leave(lambda: back.write_text(pid))
        rest(0.05)
        evidence = observer.close_window()
        clock.close()
    use = total(evidence)
    complete(evidence)
    # Where exactly the window began is somewhere inside the call.
    assert stays.account.agrees(use.out_of_set_ns, stays.lost_ns(use.switches)), (use, stays.account)
    assert stays.account.low_ns >= 40_000_000


def test_children_are_born_while_their_parent_is_moved(observer: Observer, place: str, mover: Path) -> None:
    """A child is where its parent was at its birth, and stays there when the parent is moved."""
    burst = f"fork {{ pin {OUT} work 1000 }}"
    with (
        Mover(mover, f"pin {OUT} ready times 300 {{ {burst} }} tell") as run,
        PerfAccount(run.pid, OUT, observer) as clock,
    ):
        back, pid = home(run.process.pid), str(run.process.pid)
        observer.open_window()
        run.go()
        wait_for(lambda: clock.read_ns() > 10_000_000, "it runs")
        told = threading.Event()
        waiter = threading.Thread(target=lambda: (run.account(), told.set()))
        waiter.start()
        stays, stolen = Stays(clock), stolen_ns(OUT)

        def for_a_while() -> None:
            # Of their CPU time: on a busy machine there are no more moves, and no more children at their edges.
            begun_ns = clock.read_ns()
            wait_for(lambda: told.is_set() or clock.read_ns() > begun_ns + 3_000_000, "they run")

        while not told.is_set():
            stays.enter(lambda: procs(place).write_text(pid))
            for_a_while()
            stays.leave(lambda: back.write_text(pid))
            for_a_while()
        waiter.join()
        evidence = observer.close_window()
        clock.close()
        stolen = stolen_since(OUT, stolen)
    use = total(evidence)
    complete(evidence)
    # A child that is alive when its parent moves stays behind: 1 ms of it, at either end, and what the host takes from
    # it, which its own clock leaves out.
    slack = stays.account.stays * 1_100_000 + stolen
    children = {row.tid for row in evidence.offenders} - {int(pid)}
    lost_ns = stays.lost_ns(use.switches, died=len(children))
    assert stays.account.low_ns - slack - lost_ns <= use.out_of_set_ns <= stays.account.high_ns + slack
    # A sixth of what 300 children worked for 1 ms each, so that something is left when all of that is taken off: on a
    # busy machine most of it is worked while the test waits for a move to be done.
    assert stays.account.low_ns > 50_000_000
    assert len(children) > 20


def test_moved_out_for_good_is_of_no_claim(observer: Observer, place: str, mover: Path) -> None:
    """A task that spins on outside after it was moved out of the claim is not counted any more."""
    with Mover(mover, f"pin {OUT} ready forever") as run, TaskClock(run.process.pid, OUT) as clock:
        back, pid = home(run.process.pid), str(run.process.pid)
        procs(place).write_text(pid)
        back.write_text(pid)
        observer.open_window()
        run.go()
        wait_for(lambda: clock.read_ns() > 100_000_000, "it spins")
        evidence = observer.close_window()
    assert (total(evidence).run_ns, evidence.offenders) == (0, ())


@pytest.fixture
def moving(observer: Observer) -> Moving:
    """Moves under way, on a kernel that shows them (the lab's do: ``tests/lab/test_lab_probes.py``)."""
    if not observer.ledger.moving.observed:
        pytest.skip("this kernel takes no program at the begin of a function")
    return observer.ledger.moving


def test_a_move_says_when_it_began(observer: Observer, place: str, moving: Moving) -> None:
    """Within the write that moves; what began has ended."""
    heard: list[MoveEvent] = []
    trails, add = observer.trails, observer.trails.add
    with (
        mock.patch.object(trails, "add", lambda event: (heard.append(event), add(event))),
        subprocess.Popen(["sleep", "60"]) as sleeper,
    ):
        before_ns = time.monotonic_ns()
        procs(place).write_text(str(sleeper.pid))
        after_ns = time.monotonic_ns()
        wait_for(lambda: any(event.tid == sleeper.pid for event in heard), "the move")
        sleeper.kill()
    (event,) = (event for event in heard if event.tid == sleeper.pid)

    assert before_ns < event.begun_ns < event.at_ns < after_ns
    assert moving.begun_ns() == ()


@pytest.mark.skipif(cgroupfs.detect().is_v2("cpuset"), reason="a cpuset of v2 has its parent's CPUs")
def test_a_move_that_the_kernel_refuses_is_over(place: str, moving: Moving) -> None:
    """To a cpuset without CPUs: it began, and nothing waits for its word."""
    with subprocess.Popen(["sleep", "60"]) as sleeper, cpuset(place, CpuSet()) as without_cpus:
        with pytest.raises(OSError, match="No space left on device"):
            without_cpus.write_text(str(sleeper.pid))
        sleeper.kill()

    assert moving.begun_ns() == ()
