"""Threads that no fork event announces: workers and pollers of io_uring have the membership of their process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.membership_lab import Mover, Stays, complete, home, procs, rest, switches_on, total
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import cgroup
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]


def ring_allowed() -> bool:
    """Whether this kernel has io_uring, and lets root use it."""
    path = Path("/proc/sys/kernel/io_uring_disabled")
    # Since 6.6; before, it is there unless the kernel was built without it.
    return (
        path.read_text().strip() != "2" if path.exists() else " io_uring_setup\n" in Path("/proc/kallsyms").read_text()
    )


pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs"),
    pytest.mark.skipif(not ring_allowed(), reason="this kernel does not allow io_uring"),
]


@pytest.fixture
def place(observer: Observer) -> Iterator[str]:
    """A cgroup with the claim that its tasks stay on ``IN``."""
    with cgroup(f"pinproof-ring-{os.getpid()}") as path:
        observer.add_claim(Claim(name="db", cgroup=path, cpus=CpuSet.of([IN])))
        yield path
        observer.remove_claim("db")


WORK = {
    "workers": f"workers {OUT} 3",
    "poller": f"poller {OUT} 40000 nap 60000",
    "workers of a thread": f"thread {{ pin {IN} workers {OUT} 3 }} wait",
}
AFTER = {
    "stays": "nap 1000",
    "leaves": "nap 100000 leave {home}",
    "leaves and returns": "nap 100000 leave {home} nap 100000 put {inside} 0 nap 100000 put {home} 0 put {inside} 0",
    "returns at once": "leave {home} put {inside} 0 put {home} 0 put {inside} 0",
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("born", ["joined", "forked inside"])
def test_kernel_made_threads_are_their_process(
    observer: Observer, place: str, mover: Path, born: str, work: str, after: str
) -> None:
    """What they run outside is outside, and no later leaving or returning forgives it."""
    then = AFTER[after].format(home=home(os.getpid()), inside=procs(place))
    script = f"put {procs(place)} 0 pin {IN} start {WORK[work]} {then}"
    if born == "forked inside":
        script = f"put {procs(place)} 0 fork {{ pin {IN} start {WORK[work]} {then} }}"
    with Mover(mover, f"pin {IN} ready {script} tell") as run, PerfAccount(run.pid, OUT, observer) as perf:
        observer.open_window()
        run.go()
        run.account()
        on_cpu = perf.read_ns()
        evidence = observer.close_window()
        perf.close()
        run.end()
    use = total(evidence)
    complete(evidence)
    # 20 us for each of the requests, or 5 %.
    slack = max(0.05 * on_cpu, 200_000)
    # Their last switches are not perf's: it lets go of what dies first.
    lost_ns = perf.lost_ns(switches_on(evidence, OUT), died=len({row.tid for row in evidence.offenders}))
    assert on_cpu > 5_000_000
    assert on_cpu - slack - lost_ns <= use.out_of_set_ns <= on_cpu + slack, (use, on_cpu, lost_ns)
    assert use.transition_ns == 0
    assert {row.cpu for row in evidence.offenders} == {OUT}
    assert all(row.comm.startswith(("iou-wrk-", "iou-sqp-")) for row in evidence.offenders), evidence.offenders


@pytest.mark.parametrize("way", ["to the claim that forbids it", "to the claim that allows it"])
def test_workers_live_on_when_their_process_is_moved(observer: Observer, place: str, mover: Path, way: str) -> None:
    """The workers that are there already have the process's new claim from the move on, and the old one before."""
    with cgroup(f"pinproof-ring-other-{os.getpid()}") as other:
        observer.add_claim(Claim(name="web", cgroup=other, cpus=CpuSet.of([OUT, IN])))
        first, second = (other, place) if way == "to the claim that forbids it" else (place, other)
        script = f"pin {IN} ready workers {OUT} 4 tell workers {OUT} 4 tell"
        with Mover(mover, script) as run, PerfAccount(run.pid, OUT, observer) as perf:
            procs(first).write_text(str(run.process.pid))
            observer.open_window()
            run.go()
            run.account()
            before, switched_before = perf.read_ns(), perf.switches.read()
            procs(second).write_text(str(run.process.pid))
            run.go()
            run.account()
            after = perf.read_ns() - before
            evidence = observer.close_window()
            perf.close()
            run.end()
        observer.remove_claim("web")
    complete(evidence)
    db, web = total(evidence), total(evidence, "web")
    truth = after if second == place else before
    assert truth > 5_000_000
    slack = max(0.05 * truth, 200_000)
    # At the move the workers may be in the middle of a switch of either claim: perf's later ones include all of them.
    switched_out = perf.switched_out - switched_before if second == place else switched_before
    died = len({row.tid for row in evidence.offenders})
    lost_ns = perf.lost_ns(switches_on(evidence, OUT), switched_out=switched_out, died=died)
    assert truth - slack - lost_ns <= db.out_of_set_ns <= truth + slack, (db, before, after, lost_ns)
    assert (db.transition_ns, web.out_of_set_ns, web.transition_ns) == (0, 0, 0)


def id_of_the_gone(mover: Path, how: str) -> int:
    """Return the id of a task that has just gone, and let the next task have it."""
    words = {"a task": "nap 1000", "a leader before its thread": "thread { nap 30000 } nap 1000 gone"}[how]
    with subprocess.Popen([mover, *words.split()]) as one:
        one.wait(10)
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(one.pid - 1))
    return one.pid


@pytest.mark.parametrize("gone", ["a task", "a leader before its thread"])
def test_a_worker_has_the_id_of_a_task_that_has_gone(observer: Observer, place: str, mover: Path, gone: str) -> None:
    """It is another task: what it runs outside is outside, and it is cut where its process is moved."""
    script = f"put {procs(place)} 0 pin {IN} tell workers {OUT} 4 tell workers {OUT} 100 tell"
    for _ in range(20):  # another task may be quicker
        with Mover(mover, f"pin {IN} ready {script}") as run, PerfAccount(run.pid, OUT, observer) as perf:
            observer.open_window()
            run.go()
            run.account()
            tid = id_of_the_gone(mover, gone)
            run.go()
            run.account()
            on_cpu, switched = perf.read_ns(), perf.switches.read()
            stayed = observer.close_window()
            procs("/").write_text(str(run.process.pid))
            stays = Stays(perf)
            observer.open_window()
            run.go()
            longest_ns = 0
            for _ in range(40):
                rest(0.006)
                before = perf.read_ns()
                stays.enter(lambda: procs(place).write_text(str(run.process.pid)))
                rest(0.001)
                stays.leave(lambda: procs("/").write_text(str(run.process.pid)))
                longest_ns = max(longest_ns, perf.read_ns() - before)
            visited = observer.close_window()
            perf.close()
        if {row.tid for row in stayed.offenders + visited.offenders} == {tid}:
            break
    else:
        pytest.skip("no worker got the id: other tasks of this machine took it each time")
    complete(stayed)
    use = total(stayed)
    assert on_cpu > 5_000_000
    slack = max(0.05 * on_cpu, 200_000)
    lost_ns = perf.lost_ns(switches_on(stayed, OUT), switched_out=switched)
    assert on_cpu - slack - lost_ns <= use.out_of_set_ns <= on_cpu + slack, (use, on_cpu, lost_ns)
    complete(visited)
    use = total(visited)
    assert stays.account.agrees(use.out_of_set_ns, stays.lost_ns(switches_on(visited, OUT))), (use, stays.account)
    assert max(row.longest_ns for row in visited.offenders) <= longest_ns + 20_000


def test_workers_at_home_are_no_offence(observer: Observer, place: str, mover: Path) -> None:
    """The same work on the claim's CPU."""
    script = f"put {procs(place)} 0 pin {IN} workers {IN} 3 poller {IN} 20000 nap 40000"
    with Mover(mover, f"pin {IN} ready {script} tell") as run, PerfAccount(run.pid, IN, observer) as perf:
        before = perf.read_ns()
        observer.open_window()
        run.go()
        run.account()
        on_cpu = perf.read_ns() - before
        evidence = observer.close_window()
        perf.close()
        run.end()
    use = total(evidence)
    assert (use.out_of_set_ns, evidence.offenders) == (0, ())
    # Poller and workers are counted where they are: all that perf counts there, but what the program did on its way in.
    assert on_cpu > 5_000_000
    lost_ns = perf.lost_ns(switches_on(evidence, IN))
    assert use.run_ns >= 0.95 * on_cpu - 1_000_000 - lost_ns, (use, on_cpu, lost_ns)
