"""The loaded programs against the kernel: record layout, completeness, exact windows, nothing left after SIGKILL."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from probes import loader
from probes.builder import Request
from probes.loaded import observing
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from tests.integration.perf_account import HiddenThreads
from tests.integration.probe_lab import (
    EMULATED,
    Planter,
    TaskClock,
    cgroup,
    join,
    switch_storm,
    wait_for,
)
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host import syscalls
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuUse, OwnerClass
from toolkit.session.engine.observe import keep_off

pytestmark = pytest.mark.integration

ONLINE = sorted(os.sched_getaffinity(0))
OFTEN = ObserveOptions(sampler_hz=400)
"""A piece of 4 ms without a tick shows, so that a busy machine, too, leaves pieces that do."""
PROJECT = Path(__file__).resolve().parents[2]


def loaded_programs() -> set[int]:
    """Ask the kernel for the ids of all loaded programs. Source: bpf(2), ``BPF_PROG_GET_NEXT_ID``."""
    found, last = set(), 0
    while True:
        attr = ctypes.create_string_buffer(struct.pack("=II", last, 0).ljust(128, b"\0"), 128)
        try:
            syscalls.call("bpf", 11, attr, 128)
        except FileNotFoundError:
            return found
        last = struct.unpack_from("=I", attr.raw, 4)[0]
        found.add(last)


def test_every_switch_of_the_kernel_is_judged(planter: Path, ledger: Ledger) -> None:
    """Under a switch storm the ledger's count is the kernel's (ctxt) to 1 in 10,000, and nothing is lost."""
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        switch_storm(planter, ONLINE[-1], 60_000)
        coverage = observer.close_window().coverage
    assert coverage.switches_judged > 100_000
    missing = abs(coverage.switches_kernel - coverage.switches_judged - coverage.switches_untraced)
    assert missing <= coverage.switches_skew + coverage.switches_kernel * 1e-4
    traced = coverage.switches_kernel - coverage.switches_untraced  # the rest no tracepoint of this kernel tells
    assert (coverage.switches_judged + coverage.switches_skew) / traced >= 0.9999
    assert (coverage.lost_events, coverage.map_full, coverage.missed_runs) == (0, 0, 0)
    assert coverage.cpus_seen == coverage.cpus_online


def test_an_open_window_counts_no_switch_that_the_kernel_has_not(planter: Path, ledger: Ledger) -> None:
    """A look at what goes on compares two counts of the same moments: the ledger's is not read later."""
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        storm = threading.Thread(target=switch_storm, args=(planter, ONLINE[-1], 60_000))
        storm.start()
        looks = []
        while storm.is_alive():
            looks.append(observer.snapshot().coverage)
        storm.join()
    assert looks[-1].switches_judged > 100_000
    assert [look for look in looks if look.switches_judged > look.switches_kernel + look.switches_skew] == []


def test_window_is_exact_for_a_task_that_never_switches(planter: Path, ledger: Ledger) -> None:
    """CPU time of a claim is the kernel's own account over the window to 1 %, whatever was running at its ends."""
    with (
        cgroup(f"pinproof-exact-{os.getpid()}") as path,
        Planter(planter, "stay", ONLINE[0], ONLINE[0], 1, 10**11) as run,
        TaskClock(run.process.pid) as clock,
    ):
        join(path, run.process.pid)
        claim = Claim(name="hog", cgroup=path, cpus=CpuSet.of(ONLINE))
        with observing(ClaimSet(claims=(claim,)), ledger=ledger) as observer:
            run.go()
            wait_for(lambda: clock.read_ns() > 50_000_000, "the hog runs")
            for _ in range(5):
                hidden = HiddenThreads()
                before_out = clock.read_ns()
                observer.open_window()
                before_in = clock.read_ns()
                deadline = time.monotonic() + 0.25
                wait_for(lambda end=deadline: time.monotonic() > end, "a quarter of a second")
                after_in = clock.read_ns()
                evidence = observer.close_window()
                after_out = clock.read_ns()
                # The hog may never have been switched out, and is not hidden for that.
                hidden_ns = hidden.read(lambda tid: tid == run.process.pid or ledger.seen(tid)).run_ns
                used = sum(row.run_ns for row in evidence.cpu_use)
                # The truth lies between the inner and the outer pair of readings; to a task inside its set belongs
                # what hidden threads took before it.
                slack = 100_000 + (after_out - before_out) * 0.01
                assert after_in - before_in - slack <= used <= after_out - before_out + slack + hidden_ns


def test_time_on_a_cpu_without_timer_interrupts_is_told(planter: Path) -> None:
    """While no tick of the sampler comes a CPU seems to stand still: what ran meanwhile is told, and nothing else."""
    cpu = ONLINE[-1]
    with (
        keep_off(CpuSet.of([cpu])),
        cgroup(f"pinproof-standstill-{os.getpid()}") as path,
        Planter(planter, "stay", cpu, cpu, 1, 10**11) as run,
        TaskClock(run.process.pid) as clock,
        observing(ClaimSet(claims=(Claim(name="hog", cgroup=path),)), options=OFTEN) as observer,
    ):
        # Others of a busy machine would cut what it does into pieces too short to show. (In a guest there are none, but
        # on PREEMPT_RT threads of the CPU's own timers that it would keep out. Not allowed in a cgroup of v1 without
        # real-time bandwidth.)
        if not EMULATED:
            with contextlib.suppress(PermissionError):
                os.sched_setscheduler(run.process.pid, os.SCHED_FIFO, os.sched_param(1))
        join(path, run.process.pid)
        run.go()

        def watched(*, ticks: bool) -> CpuUse:
            observer.ledger.sample(observer.sampled)
            observer.open_window()
            if not ticks:
                observer.ledger.forget_sampler(cpu)
            began_ns = clock.read_ns()
            wait_for(lambda: clock.read_ns() - began_ns > 500_000_000, "half a second of the hog")
            (row,) = observer.close_window().cpu_use
            return row

        with_ticks = watched(ticks=True)
        without = watched(ticks=False)
    gap_ns, hz = observer.options.sampler_gap_ns, observer.options.sampler_hz
    # A host that stops the CPU makes it stand still, and takes ticks away. A piece of g periods, 1.5 at least, lacks
    # g - 1 ticks or more: a third of its periods. A period is two thirds of the gap; each end may lack one.
    missing = max(0.0, with_ticks.run_ns * hz / 1e9 - with_ticks.samples)
    assert with_ticks.samples > 0, "no tick came: the bound would hold for any standstill"
    assert with_ticks.standstill_ns <= 2 * gap_ns * (missing + 2)
    # What else runs there cuts what the hog did into pieces, and so do the ticks that came before the sampler was taken
    # away; those that are too short to show are shorter than the gap.
    pieces = without.switches + without.samples + 3
    assert without.standstill_ns >= without.run_ns - pieces * gap_ns
    assert pieces * gap_ns < without.run_ns, "others left no piece that must show"


def test_mask_change_is_transition_and_then_binds(planter: Path, ledger: Ledger) -> None:
    """While a change is under way the old CPUs are tolerated; once it is complete they are outside."""
    if len(ONLINE) < 2:
        pytest.skip("a change needs two CPUs")
    first, last = ONLINE[0], ONLINE[-1]
    with cgroup(f"pinproof-change-{os.getpid()}") as path, Planter(planter, "stay", last, last, 1, 10**9) as run:
        join(path, run.process.pid)
        claim = Claim(name="db", cgroup=path, cpus=CpuSet.of(ONLINE))
        with observing(ClaimSet(claims=(claim,)), ledger=ledger) as observer:
            observer.open_window()
            run.go()
            clock = ~run.process.pid << 3 | 2
            wait_for(lambda: time.clock_gettime_ns(clock) > 10_000_000, "it runs")
            with observer.changing("db", CpuSet.of([first])):
                began = time.clock_gettime_ns(clock)
                wait_for(lambda: time.clock_gettime_ns(clock) > began + 50_000_000, "it runs during the change")
                assert observer.poll() == ()
            changed = time.clock_gettime_ns(clock)
            wait_for(lambda: time.clock_gettime_ns(clock) > changed + 50_000_000, "it runs after the change")
            assert observer.poll(1.0)
            evidence = observer.close_window()
            run.end()
    (transition,) = evidence.transitions
    assert (transition.what, transition.cpus_after) == ("mask-change", CpuSet.of([first]))
    use = {row.cpu: row for row in evidence.cpu_use}[last]
    assert use.transition_ns >= 45_000_000
    assert use.out_of_set_ns >= 45_000_000
    assert use.run_ns >= use.transition_ns + use.out_of_set_ns


def test_watched_cpu_names_what_ran_there(planter: Path, ledger: Ledger) -> None:
    """A task without a claim on an exclusive CPU is an intruder with its class; the claim's own tasks are none."""
    with cgroup(f"pinproof-owner-{os.getpid()}") as path:
        claim = Claim(name="db", cgroup=path, cpus=CpuSet.of([ONLINE[-1]]), isolation=Isolation.CONTAINER)
        with (
            observing(ClaimSet(claims=(claim,), pods_root=path), ledger=ledger) as observer,
            Planter(planter, "nap", ONLINE[-1], ONLINE[-1], 20, 1_000_000) as stranger,
            Planter(planter, "nap", ONLINE[-1], ONLINE[-1], 20, 1_000_000) as owner,
        ):
            join(path, owner.process.pid)
            observer.open_window()
            for run in (stranger, owner):
                run.go()
                run.truth()
            evidence = observer.close_window()
            for run in (stranger, owner):
                run.end()
    found = {row.tid: row for row in evidence.intruders}
    assert found[stranger.process.pid].switches >= 20
    assert found[stranger.process.pid].owner is OwnerClass.SYSTEM  # our own child, but not our own thread
    assert found[stranger.process.pid].comm == "planter"
    assert owner.process.pid not in found
    assert {row.cpu for row in evidence.intruders} == {ONLINE[-1]}
    assert 0 not in found, "the idle task is no intruder"


def test_claims_that_cannot_be_watched_are_refused(ledger: Ledger) -> None:
    """The root cgroup, a missing cgroup and a second claim on one cgroup: one clear line each, nothing left loaded."""
    before = loaded_programs()
    with pytest.raises(InputError, match="root"), observing(ClaimSet(claims=(Claim(name="all", cgroup="/"),))):
        pass
    wait_for(lambda: loaded_programs() <= before, "the kernel frees the programs")
    missing = ClaimSet(claims=(Claim(name="x", cgroup="/no-such"),))
    with pytest.raises(InputError, match="no-such"), observing(missing, ledger=ledger):
        pass
    with cgroup(f"pinproof-twice-{os.getpid()}") as path:
        claims = ClaimSet(claims=(Claim(name="a", cgroup=path), Claim(name="b", cgroup=path)))
        with pytest.raises(InputError, match="claim already"), observing(claims, ledger=ledger):
            pass


def test_sigkill_leaves_nothing_behind(tmp_path: Path) -> None:
    """Nothing is pinned and no directory is kept: when the process is killed its programs and files are gone."""
    script = (
        "from probes.loaded import observing\nfrom toolkit.model.claims import ClaimSet\nimport sys, time\n"
        "with observing(ClaimSet(claims=())) as o:\n"
        "    print(*o.ledger.programs.values(), flush=True)\n"
        "    o.open_window()\n    sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert child.stdout is not None
    fds = child.stdout.readline().split()
    ids = {
        int(line.split()[1])
        for fd in fds
        for line in Path(f"/proc/{child.pid}/fdinfo/{fd}").read_text().splitlines()
        if line.startswith("prog_id:")
    }
    assert len(ids) == len(fds) >= 12
    assert ids <= loaded_programs()
    child.send_signal(signal.SIGKILL)
    child.communicate()

    wait_for(lambda: not ids & loaded_programs(), "the kernel frees the programs")
    assert list(tmp_path.iterdir()) == []


def test_wrong_source_is_told_in_one_line() -> None:
    """A unit that does not compile ends as 'host unsupported' with the compiler's first complaint."""
    with pytest.raises(HostUnsupportedError, match=r"do not compile with .*error: .*'MAX_"):
        loader.compile_and_load(Request(sources=("switches/ledger.bpf.c",), settings={}, programs=()))
