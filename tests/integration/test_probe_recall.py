"""Planted escapes of a foreign program: every one counted, timed and named, and reported while it goes on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.escape_bounds import least_ns, stolen_since
from tests.integration.membership_lab import switches_on, total
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import (
    EMULATED,
    Planter,
    TaskClock,
    cgroup,
    join,
    stolen_ns,
    wait_for,
)
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from validators.credibility.trust import POSITIVE_CONTROL_LIMIT_MS

pytestmark = pytest.mark.integration

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]


@pytest.fixture(scope="module")
def planter(planter: Path) -> Path:
    """The compiled foreign program, where it can escape."""
    if len(ONLINE) < 2:
        pytest.skip("an escape needs two CPUs")
    return planter


@pytest.fixture
def place(observer: Observer) -> Iterator[str]:
    """A cgroup with the claim that its tasks stay on ``IN``."""
    with cgroup(f"pinproof-recall-{os.getpid()}") as path:
        observer.add_claim(Claim(name="db", cgroup=path, cpus=CpuSet.of([IN])))
        yield path
        observer.remove_claim("db")


def complete(evidence: Evidence) -> None:
    """Assert that nothing was lost."""
    coverage = evidence.coverage
    assert (coverage.lost_events, coverage.map_full, coverage.missed_runs) == (0, 0, 0)
    assert coverage.cpus_online <= coverage.cpus_seen


def no_transition(evidence: Evidence, perf: PerfAccount) -> None:
    """Assert that nothing was forgiven.

    What comes after a thread that this kernel hides from its tracepoints seems to have begun when that one did: a child
    even before its birth, which is transition.
    """
    assert total(evidence).transition_switches <= perf.hidden.arrivals


@pytest.mark.parametrize(
    ("mode", "count", "length_ns"),
    [
        ("hop", 1000, 10_000),
        ("hop", 300, 100_000),
        ("hop", 100, 1_000_000),
        ("hop", 5, 100_000_000),
        ("thread", 300, 20_000),
        ("thread", 30, 5_000_000),
        ("child", 100, 100_000),
        ("child", 20, 10_000_000),
    ],
)
def test_every_escape_is_counted_and_timed(
    observer: Observer, place: str, planter: Path, mode: str, count: int, length_ns: int
) -> None:
    """Each escape is at least one switch outside, time outside is right to 5 % or 20 us each, the offender is named."""
    with Planter(planter, mode, IN, OUT, count, length_ns) as run, PerfAccount(run.pid, OUT, observer) as perf:
        join(place, run.process.pid)
        # Kernels before 6.2 forget masks when a task changes its cpuset: it would wake up anywhere, which is an escape.
        os.sched_setaffinity(run.process.pid, {IN})
        stolen = stolen_ns(OUT)
        observer.open_window()
        run.go()
        truth = run.truth()
        evidence = observer.close_window()
        perf.close()
        stolen = stolen_since(OUT, stolen)
        run.end()
    complete(evidence)
    seen = total(evidence)
    tolerance = max(perf.on_cpu * 0.05, count * 20_000)
    died, counted = 0 if mode == "hop" else count, switches_on(evidence, OUT)
    assert truth.escapes == count
    assert seen.out_of_set_switches >= count - perf.missed(counted, died=died)
    assert least_ns(perf, counted, truth, stolen, died) <= seen.out_of_set_ns <= seen.run_ns
    if mode == "hop":
        # perf counts the switches to threads that this kernel hides, too.
        assert 0 <= perf.switched_out - seen.out_of_set_switches <= perf.hidden.arrivals
        assert perf.switched_out >= truth.switches
        assert seen.out_of_set_ns <= perf.on_cpu + tolerance + stolen
    elif not EMULATED:
        # perf stops counting before a task has died. What the scheduler charged goes on to the end, but leaves out
        # what the host took; /proc/stat tells that to 10 ms. (What an emulated CPU does beside is charged to no task.)
        assert seen.out_of_set_ns <= truth.outside_ns + max(stolen, 10_000_000) + tolerance
    named = {row.comm for row in evidence.offenders}
    assert named == {"planter"}
    assert sum(row.total_ns for row in evidence.offenders) == seen.out_of_set_ns
    assert sum(row.switches for row in evidence.offenders) == seen.out_of_set_switches
    assert {row.cpu for row in evidence.offenders} == {OUT}
    no_transition(evidence, perf)


def test_interval_of_a_task_that_exits_is_one_switch(observer: Observer, place: str, planter: Path) -> None:
    """Readings split intervals, also of a task whose record goes when it exits: it is counted once, all the same."""
    with Planter(planter, "child", IN, OUT, 100, 2_000_000) as run:
        join(place, run.process.pid)
        observer.open_window()
        run.go()
        done = threading.Event()
        waiter = threading.Thread(target=lambda: (run.truth(), done.set()))
        waiter.start()
        while not done.is_set():
            observer.snapshot()
        waiter.join()
        evidence = observer.close_window()
        run.end()
    complete(evidence)
    for row in evidence.cpu_use:
        if row.cpu == OUT:
            # One still runs, and one that the kernel is late to join to its cgroup ends its stay before it in between.
            assert 100 <= row.out_of_set_switches <= row.switches + 1 + row.cuts


def test_escape_in_a_nested_child_cgroup_is_counted(observer: Observer, place: str, planter: Path) -> None:
    """Tasks in cgroups below the claim's are covered, also when the child cgroup is made while we watch."""
    directory = cgroupfs.identity_dir(cgroupfs.detect(), place)
    observer.open_window()
    (directory / "a").mkdir()
    (directory / "a" / "b").mkdir()
    with Planter(planter, "hop", IN, OUT, 50, 200_000) as run, PerfAccount(run.pid, OUT, observer) as perf:
        join(f"{place}/a/b", run.process.pid)
        stolen = stolen_ns(OUT)
        run.go()
        truth = run.truth()
        evidence = observer.close_window()
        perf.close()
        stolen = stolen_since(OUT, stolen)
        run.end()
    complete(evidence)
    counted = switches_on(evidence, OUT)
    assert total(evidence).out_of_set_switches >= 50 - perf.missed(counted)
    assert total(evidence).out_of_set_ns >= least_ns(perf, counted, truth, stolen)


def test_task_that_never_switches_again_is_reported_while_it_runs(
    observer: Observer, place: str, planter: Path
) -> None:
    """A hog that moved once is reported within the stated latency, and the window charges what ran so far."""
    with Planter(planter, "stay", IN, OUT, 1, 1_500_000_000) as run:
        join(place, run.process.pid)
        observer.open_window()
        began = time.monotonic()
        run.go()
        found = observer.poll(10.0)
        waited = time.monotonic() - began
        wait_for(lambda: time.monotonic() - began > 0.5, "half a second of hogging")
        evidence = observer.close_window()
        run.end()
    assert found
    assert found[0].claim == "db"
    assert found[0].tid == run.process.pid
    latency_ms = (found[0].reported_at_ns - found[0].first_at_ns) / 1e6
    assert latency_ms <= POSITIVE_CONTROL_LIMIT_MS, f"reported after {waited * 1000:.1f} ms"
    assert total(evidence).out_of_set_switches >= 1
    assert total(evidence).out_of_set_samples >= 1
    assert evidence.offenders[0].tid == run.process.pid


def test_second_attach_while_outside_forgives_nothing(observer: Observer, place: str, planter: Path) -> None:
    """An escaper that writes itself into its own cgroup again and again is a violation for its whole time outside."""
    procs = cgroupfs.identity_dir(cgroupfs.detect(), place) / "cgroup.procs"
    with Planter(planter, "attach", IN, OUT, 50, 1_000_000, procs) as run, PerfAccount(run.pid, OUT, observer) as perf:
        join(place, run.process.pid)
        stolen = stolen_ns(OUT)
        observer.open_window()
        run.go()
        truth = run.truth()
        evidence = observer.close_window()
        perf.close()
        stolen = stolen_since(OUT, stolen)
        run.end()
    assert total(evidence).out_of_set_ns >= least_ns(perf, switches_on(evidence, OUT), truth, stolen)
    no_transition(evidence, perf)


def test_time_before_joining_is_transition_and_after_it_violation(
    observer: Observer, place: str, planter: Path
) -> None:
    """A task that joins while it runs outside is charged from the moment of joining on, not before."""
    procs = cgroupfs.identity_dir(cgroupfs.detect(), place) / "cgroup.procs"
    with Planter(planter, "attach", IN, OUT, 1, 200_000_000, procs) as run, PerfAccount(run.pid, OUT, observer) as perf:
        observer.open_window()
        stolen = stolen_ns(OUT)
        run.go()
        truth = run.truth()
        evidence = observer.close_window()
        perf.close()
        stolen = stolen_ns(OUT) - stolen + 10_000_000
        run.end()
    use = total(evidence)
    lost_ns = perf.lost_ns(switches_on(evidence, OUT))
    half = truth.outside_ns / 2  # the planter halves by its own CPU time, which leaves out what the host takes
    assert half * 0.95 - lost_ns <= use.out_of_set_ns <= half * 1.05 + stolen
    # At most what ran since the last switch or tick, and a CPU that stands still takes no tick.
    assert use.transition_ns <= 20_000_000 + use.standstill_ns


def test_moving_out_and_back_charges_what_was_run_inside(observer: Observer, place: str, planter: Path) -> None:
    """Leaving the claim's cgroup and coming back forgives nothing of the time in it."""
    with Planter(planter, "stay", IN, OUT, 1, 600_000_000) as run, TaskClock(run.process.pid, OUT) as clock:
        join(place, run.process.pid)
        observer.open_window()
        run.go()
        wait_for(lambda: bool(observer.poll(0.05)), "the escape is reported")
        began = time.monotonic_ns()
        spent_out = 0
        for _ in range(20):
            left = time.monotonic_ns()
            join("/", run.process.pid)
            join(place, run.process.pid)
            spent_out += time.monotonic_ns() - left
            time.sleep(0.005)
        span = time.monotonic_ns() - began
        run.truth()
        evidence = observer.close_window()
        on_cpu = clock.read_ns()
        run.end()
    use = total(evidence)
    # What the planter ran, less the time that it was elsewhere (at most), within the sampler's period per crossing.
    assert use.out_of_set_ns >= on_cpu - spent_out - 20 * 11_000_000
    assert use.out_of_set_ns <= on_cpu * 1.05
    assert span > 0


def test_claim_kept_is_clean(observer: Observer, place: str, planter: Path) -> None:
    """A task that stays on its CPU is never reported, however often it switches."""
    with Planter(planter, "ping", IN, OUT, 20_000, 0) as run:
        join(place, run.process.pid)
        observer.open_window()
        run.go()
        run.truth()
        evidence = observer.close_window()
        run.end()
    use = total(evidence)
    assert use.switches >= 20_000
    assert (use.out_of_set_switches, use.out_of_set_ns, use.transition_ns) == (0, 0, 0)
    assert evidence.offenders == ()


def test_known_workload_is_counted_exactly(observer: Observer, place: str, planter: Path) -> None:
    """23 sleeps are 23 voluntary switches; the ledger's count equals the kernel's own."""
    with Planter(planter, "nap", IN, OUT, 23, 2_000_000) as run, PerfAccount(run.pid, IN, observer) as perf:
        join(place, run.process.pid)
        before = perf.switches.read()
        observer.open_window()
        opened = perf.switches.read()
        run.go()
        truth = run.truth()
        closing = perf.switches.read()
        evidence = observer.close_window()
        perf.close()
        run.end()
    # A sleep whose time is up before its task has gone to sleep is no switch: an emulated CPU may stand still for long.
    assert truth.switches >= 23 or EMULATED
    # By perf: where the window opens and closes is somewhere inside the calls.
    seen = total(evidence).switches
    assert closing - opened >= truth.switches
    assert closing - opened - perf.hidden.arrivals <= seen <= perf.switched_out - before
