"""Tasks that move themselves, that are born inside in every way there is, and that end right after they came.

Each spends its time on a CPU that its claim forbids; the truth is perf's account of the task on that CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.membership_lab import Account, Mover, complete, consistent, home, procs, total, verdict
from tests.integration.probe_lab import TaskClock, cgroup
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
pytestmark = [pytest.mark.integration, pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs")]


@pytest.fixture
def place(observer: Observer) -> Iterator[str]:
    """A cgroup with the claim that its tasks stay on ``IN``."""
    with cgroup(f"pinproof-tasks-{os.getpid()}") as path:
        observer.add_claim(Claim(name="db", cgroup=path, cpus=CpuSet.of([IN])))
        yield path
        observer.remove_claim("db")


def play(observer: Observer, mover: Path, script: str) -> tuple[Evidence, Account, int, int]:
    """Play a script in a window; returns the account, perf's time on ``OUT``, and the program's pid."""
    with Mover(mover, f"ready {script} tell") as run, TaskClock(run.process.pid, OUT) as clock:
        observer.open_window()
        run.go()
        account = run.account()
        on_cpu = clock.read_ns()
        evidence = observer.close_window()
        run.end()
        complete(evidence)
        return evidence, account, on_cpu, run.process.pid


def test_enters_and_leaves(observer: Observer, place: str, mover: Path) -> None:
    """200 stays of half a millisecond, always outside: each counts, and what ended agrees with what was sampled."""
    inside = f"enter {procs(place)} burn 500 leave {home(os.getpid())} burn 500"
    evidence, account, _, pid = play(observer, mover, f"pin {OUT} times 200 {{ {inside} }}")
    use = total(evidence)
    assert account.stays == 200
    assert account.agrees(use.out_of_set_ns), (use, account)
    assert use.out_of_set_switches >= 200
    assert use.transition_ns == 0
    assert {row.tid for row in evidence.offenders} == {pid}
    claims = ClaimSet(claims=(Claim(name="db", cgroup=place, cpus=CpuSet.of([IN])),))
    assert verdict(claims, evidence, "cpuset-containment") is Outcome.FAILED
    consistent(evidence)


def test_enters_and_leaves_at_home(observer: Observer, place: str, mover: Path) -> None:
    """The same where the claim allows it is no violation, and the time outside of the cgroup is not the claim's."""
    inside = f"enter {procs(place)} burn 500 leave {home(os.getpid())} burn 500"
    evidence, account, _, _ = play(observer, mover, f"pin {IN} times 100 {{ {inside} }}")
    use = total(evidence)
    assert (use.out_of_set_ns, use.out_of_set_switches, evidence.offenders) == (0, 0, ())
    assert account.agrees(use.run_ns), (use, account)


def test_children_born_inside_by_clone3(observer: Observer, place: str, mover: Path) -> None:
    """``CLONE_INTO_CGROUP``: no attach is reported, the child is a member from its first moment on."""
    evidence, account, on_cpu, pid = play(
        observer, mover, f"pin {OUT} times 50 {{ into {procs(place).parent} {{ start burn 400 done }} }}"
    )
    use = total(evidence)
    assert account.stays == 50
    assert account.low_ns * 0.95 <= use.out_of_set_ns <= on_cpu * 1.05
    assert use.out_of_set_switches >= 50
    tids = {row.tid for row in evidence.offenders}
    assert len(tids) == 50
    assert pid not in tids


@pytest.mark.parametrize(
    ("child", "count"),
    [
        ("vfork pin {out} burn 300 ;", 50),
        ("fork {{ pin {out} burn 300 }}", 50),
        ("fork {{ thread {{ pin {out} exec burn 1000 }} wait }}", 20),
        ("fork {{ thread {{ pin {out} burn 500 fork {{ burn 300 }} }} wait }}", 20),
    ],
    ids=["vfork", "fork", "exec by another thread", "fork in a thread"],
)
def test_children_of_a_member(observer: Observer, place: str, mover: Path, child: str, count: int) -> None:
    """Whatever a member makes is a member: all that perf counts on ``OUT`` is time outside."""
    made = child.format(out=OUT)
    evidence, _, on_cpu, _ = play(observer, mover, f"pin {IN} put {procs(place)} 0 times {count} {{ {made} }}")
    use = total(evidence)
    # perf stops counting before a task has died, the ledger when it is switched out for the last time.
    assert on_cpu * 0.95 <= use.out_of_set_ns <= on_cpu * 1.05 + count * 200_000, (use, on_cpu)
    assert use.out_of_set_switches >= count
    assert use.transition_ns == 0
    assert len({row.tid for row in evidence.offenders}) >= count


@pytest.mark.parametrize("born", ["leader", "thread"])
def test_exec_right_after_joining(observer: Observer, place: str, mover: Path, born: str) -> None:
    """A process joins outside and becomes another program there, also by a thread that takes the leader's number."""
    run = "exec burn 2000" if born == "leader" else "thread { exec burn 2000 } wait"
    script = f"times 20 {{ fork {{ pin {IN} put {procs(place)} 0 pin {OUT} {run} }} }}"
    evidence, _, on_cpu, _ = play(observer, mover, f"pin {IN} {script}")
    use = total(evidence)
    assert on_cpu * 0.95 <= use.out_of_set_ns <= on_cpu * 1.05 + 20 * 200_000, (use, on_cpu)
    assert use.out_of_set_ns >= 20 * 1_900_000
    assert use.transition_ns == 0


def test_exit_right_after_joining(observer: Observer, place: str, mover: Path) -> None:
    """Who joins outside and exits at once was outside: its record is gone when anybody looks."""
    script = f"times 50 {{ fork {{ pin {OUT} enter {procs(place)} done }} }}"
    evidence, account, on_cpu, _ = play(observer, mover, f"pin {IN} {script}")
    use = total(evidence)
    assert account.stays == 50
    assert account.low_ns <= use.out_of_set_ns <= on_cpu * 1.05 + 50 * 200_000
    assert use.out_of_set_switches >= 50
    assert len({row.tid for row in evidence.offenders}) == 50


def test_exit_right_after_leaving(observer: Observer, place: str, mover: Path) -> None:
    """What a task does between its leaving and its death is nobody's; what it did inside stays."""
    script = f"fork {{ pin {OUT} enter {procs(place)} burn 1000 leave {home(os.getpid())} burn 1000 }}"
    evidence, account, _, _ = play(observer, mover, f"pin {IN} times 30 {{ {script} }}")
    use = total(evidence)
    assert account.agrees(use.out_of_set_ns), (use, account)
    assert len({row.tid for row in evidence.offenders}) == 30
