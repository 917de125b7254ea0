"""Switches that the kernel does not tell: nobody is charged with the time of a thread that the tracepoint never names.

Some hosts hide a supervisor's threads. Here the program at ``sched_switch`` is taken off for a while: what is switched
meanwhile is as hidden as there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from probes.switches.ledger import Ledger
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
def test_the_time_of_hidden_threads_is_nobodys(planter: Path, mover: Path, hidden_ms: int) -> None:
    """A task comes onto a CPU unseen, after another that ran there unseen: it is outside since its arrival.

    Also where the CPU has told of no switch for longer than a second.
    """
    script = f"pin {IN} put {{door}} 0 ready pin {OUT} burn 200000 pin {IN} tell"
    with cgroup(f"pinproof-hidden-{os.getpid()}") as path, Observer(ClaimSet(claims=())) as observer:
        observer.add_claim(Claim(name="db", cgroup=path, cpus=CpuSet.of([IN])))
        run = Mover(mover, script.format(door=procs(path)))
        hog = Mover(mover, f"pin {OUT} ready start burn {hidden_ms}000 done tell")
        # Nobody shall come between: the first switch that is told again is the one in which it goes.
        os.sched_setscheduler(run.process.pid, os.SCHED_FIFO, os.sched_param(1))
        with run, hog, TaskClock(run.process.pid, OUT) as clock:
            observer.open_window()
            while not observer.ledger.states()[OUT].compared_ns:
                switch_storm(planter, OUT, STORM_ROUNDS)  # until a switch has compared the clocks
            # Without them now: each tick would find the hidden thread and count it as what it is.
            observer.ledger.forget_sampler(OUT)
            with hidden_switches(observer.ledger):
                hog.go()
                assert hog.account().low_ns > hidden_ms * 1_000_000 // 3
                run.go()
                wait_for(lambda: clock.read_ns() > 0, "it is there")
            run.account()
            on_cpu = clock.read_ns()
            evidence = observer.close_window()
            hog.end()
            run.end()
    use = total(evidence)
    assert use.out_of_set_ns == pytest.approx(on_cpu, rel=0.05), (use, on_cpu)
