"""Switches that the kernel does not tell: no task is charged with the time of a thread that the tracepoint never names.

Some hosts hide a supervisor's threads. Here the program at ``sched_switch`` is taken off for a while: what is switched
meanwhile is as hidden as there.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from probes.composition import WITNESSES
from probes.loaded import loaded, observing
from probes.node.witness import Threads
from probes.switches.ledger import Ledger
from probes.witness import Witness
from tests.integration.membership_lab import Mover, procs, total
from tests.integration.probe_lab import TaskClock, cgroup, switch_storm, wait_for
from toolkit.host import bpf_syscalls
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
STORM_ROUNDS = 2_000

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs"),
]


def link_to(tracepoint: str) -> int:
    """Return the descriptor of this process that holds a program to a tracepoint."""
    found = [
        int(fd.name)
        for fd in Path("/proc/self/fdinfo").iterdir()
        if f"tp_name:\t{tracepoint}\n" in _text(fd) and "link_type:\traw_tracepoint" in _text(fd)
    ]
    assert len(found) == 1, found
    return found[0]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:  # that of the listing itself
        return ""


@contextlib.contextmanager
def hidden_switches(ledger: Ledger) -> Iterator[None]:
    """Let the kernel tell of no switch while the block runs."""
    link = link_to("sched_switch")
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, link)  # the last descriptor: the program is taken off
    os.close(null)
    try:
        yield
    finally:
        again = bpf_syscalls.attach(ledger.programs["on_switch"])
        os.dup2(again, link)
        os.close(again)


@pytest.fixture
def _away_from_it() -> Iterator[None]:
    """The real-time task on the other CPU would keep us from attaching the program again until it has gone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {IN})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("_away_from_it")
@pytest.mark.parametrize("hidden_ms", [150, 1500])
@pytest.mark.parametrize("at_home", [False, True], ids=["outside", "at home"])
def test_the_time_of_hidden_threads_is_charged_to_no_task(
    planter: Path, mover: Path, hidden_ms: int, at_home: bool
) -> None:
    """A task comes onto a CPU unseen, after another that ran there unseen: it runs, or is outside, since its arrival.

    Also where the CPU has told of no switch for longer than a second. Its cgroup is charged with no more.
    """
    script = f"pin {IN} put {{door}} 0 ready pin {OUT} burn 200000 pin {IN} tell"
    with cgroup(f"pinproof-hidden-{os.getpid()}") as path, observing(ClaimSet(claims=())) as observer:
        observer.add_claim(Claim(name="db", cgroup=path, cpus=CpuSet.of([IN, OUT] if at_home else [IN])))
        run = Mover(mover, script.format(door=procs(path)))
        hog = Mover(mover, f"pin {OUT} ready start work {hidden_ms}000 done tell")
        # No other task shall come between: the first switch that is told again is the one in which it goes.
        os.sched_setscheduler(run.process.pid, os.SCHED_FIFO, os.sched_param(1))
        os.setpriority(os.PRIO_PROCESS, hog.process.pid, -20)  # its time is its own, whatever works there beside it
        with run, hog, TaskClock(run.process.pid, OUT) as clock:
            observer.open_window()
            while not observer.ledger.states()[OUT].compared_ns:
                switch_storm(planter, OUT, STORM_ROUNDS)  # until a switch has compared the clocks
            # Without them now: each tick would find the hidden thread and count it as what it is.
            observer.ledger.forget_sampler(OUT)
            with hidden_switches(observer.ledger):
                hog.go()
                assert hog.account().low_ns >= hidden_ms * 990_000
                run.go()
                wait_for(lambda: clock.read_ns() > 0, "it is there")
            run.account()
            on_cpu = clock.read_ns()
            evidence = observer.close_window()
            hog.end()
            run.end()
    use = total(evidence)
    there = next(row for row in evidence.cpu_use if (row.claim, row.cpu) == ("db", OUT))
    assert there.run_ns == pytest.approx(on_cpu, rel=0.05), (there, on_cpu)
    assert use.out_of_set_ns == pytest.approx(0 if at_home else on_cpu, rel=0.05), (use, on_cpu)


class Waking(Witness):
    """Wakes a thread while an edge is read: after the counters of threads, before the kernel's total."""

    wake: ClassVar[Callable[[], None]]

    def edge(self, turn: bool) -> Generator[None, None, None]:
        """Wake it."""
        del turn
        Waking.wake()
        yield


SLEEPER = """
import sys, time
for line in sys.stdin:
    for _ in range(20):
        time.sleep(0.001)
    print(flush=True)
"""


def test_a_thread_that_wakes_at_an_edge_is_not_hidden() -> None:
    """Its switches are judged from the first one on: as a hidden thread's they would be counted a second time."""
    after = WITNESSES.index(Threads) + 1
    with subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], stdin=-1, stdout=-1, text=True, bufsize=1) as sleeper:
        assert sleeper.stdin is not None
        assert sleeper.stdout is not None
        answers = sleeper.stdout

        def wake() -> None:
            print(file=sleeper.stdin)
            assert answers.readline()

        wake()
        wait_for(lambda: "(sleeping)" in Path(f"/proc/{sleeper.pid}/status").read_text(), "it sleeps")
        # Loaded only now, so that no switch of the sleeper was ever seen before the edge.
        with (
            loaded() as ledger,
            observing(
                ClaimSet(claims=()), ledger=ledger, witnesses=(*WITNESSES[:after], Waking, *WITNESSES[after:])
            ) as observer,
        ):
            Waking.wake = lambda: None
            observer.open_window()
            Waking.wake = wake
            coverage = observer.close_window().coverage
        sleeper.stdin.close()
    assert not [spot.text for spot in coverage.blindness if f"({sleeper.pid})" in spot.text]
    missing = abs(coverage.switches_kernel - coverage.switches_judged - coverage.switches_untraced)
    assert missing <= coverage.switches_skew, coverage


@pytest.mark.usefixtures("_away_from_it")
def test_a_thread_that_took_its_leaders_id_is_not_hidden(mover: Path) -> None:
    """In exec: what was known of the id is its own no more, but its switches were judged, under its own id before."""
    script = f"pin {OUT} ready thread {{ times 10 {{ nap 1000 }} exec forever }} nap 60000000"
    run = Mover(mover, script)
    place = Path("/proc") / str(run.process.pid)
    with run:
        # What has once begun to spin is not switched out; the time of ticks is enough for the ledger to look at it.
        os.sched_setscheduler(run.process.pid, os.SCHED_FIFO, os.sched_param(1))
        with loaded() as ledger, observing(ClaimSet(claims=()), ledger=ledger) as observer:
            observer.open_window()
            run.go()
            wait_for(lambda: b"ready" not in (place / "cmdline").read_bytes(), "it is another program")
            begun = int((place / "stat").read_text().split()[13])
            wait_for(lambda: int((place / "stat").read_text().split()[13]) >= begun + 5, "it spins")
            coverage = observer.close_window().coverage
    assert not [spot.text for spot in coverage.blindness if f"({run.process.pid})" in spot.text]
    missing = abs(coverage.switches_kernel - coverage.switches_judged - coverage.switches_untraced)
    assert missing <= coverage.switches_skew, coverage
