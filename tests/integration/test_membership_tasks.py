"""Tasks that move themselves, that are born inside in every way there is, and that end right after they came.

Each spends its time on a CPU that its claim forbids; the truth is perf's account of the task on that CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.membership_lab import (
    Account,
    consistent,
    home,
    played,
    procs,
    switches_on,
    total,
    verdict,
)
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import cgroup
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


def play(observer: Observer, mover: Path, script: str, cpu: int = OUT) -> tuple[Evidence, Account, PerfAccount, int]:
    """Play a script in a window; returns the account, perf's on ``cpu``, and the program's pid."""
    return played(observer, mover, script, cpu)


def test_enters_and_leaves(observer: Observer, place: str, mover: Path) -> None:
    """200 stays of half a millisecond, always outside: each counts, and what ended agrees with what was sampled."""
    inside = f"enter {procs(place)} burn 500 leave {home(os.getpid())} burn 500"
    evidence, account, perf, pid = play(observer, mover, f"pin {OUT} times 200 {{ {inside} }}")
    use = total(evidence)
    assert account.stays == 200
    counted = switches_on(evidence, OUT)
    assert account.agrees(use.out_of_set_ns, perf.lost_ns(counted)), (use, account)
    assert use.out_of_set_switches >= 200 - perf.missed(counted)
    assert use.transition_ns == 0
    assert {row.tid for row in evidence.offenders} == {pid}
    claims = ClaimSet(claims=(Claim(name="db", cgroup=place, cpus=CpuSet.of([IN])),))
    assert verdict(claims, evidence, "cpuset-containment") is Outcome.FAILED
    consistent(evidence)


def test_enters_and_leaves_at_home(observer: Observer, place: str, mover: Path) -> None:
    """The same where the claim allows it is no violation, and the time outside of the cgroup is not the claim's."""
    inside = f"enter {procs(place)} burn 500 leave {home(os.getpid())} burn 500"
    evidence, account, perf, _ = play(observer, mover, f"pin {IN} times 100 {{ {inside} }}", IN)
    use = total(evidence)
    assert (use.out_of_set_ns, use.out_of_set_switches, evidence.offenders) == (0, 0, ())
    # Inside its set a task's arrival is not looked up: what hidden threads took before it is in its time.
    lost_ns = perf.lost_ns(switches_on(evidence, IN))
    assert account.agrees(use.run_ns, lost_ns, perf.hidden.run_ns), (use, account)


def test_children_born_inside_by_clone3(observer: Observer, place: str, mover: Path) -> None:
    """``CLONE_INTO_CGROUP``: no attach is reported, the child is a member from its first moment on."""
    evidence, account, perf, pid = play(
        observer, mover, f"pin {OUT} times 50 {{ into {procs(place).parent} {{ start burn 400 done }} }}"
    )
    use = total(evidence)
    assert account.stays == 50
    counted = switches_on(evidence, OUT)
    lost_ns = perf.lost_ns(counted, died=50)
    assert account.low_ns * 0.95 - lost_ns <= use.out_of_set_ns <= perf.on_cpu * 1.05, (use, account, lost_ns)
    assert use.out_of_set_switches >= 50 - perf.missed(counted, died=50)
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
    evidence, _, perf, _ = play(observer, mover, f"pin {IN} put {procs(place)} 0 times {count} {{ {made} }}")
    use = total(evidence)
    # perf stops counting before a task has died, the ledger when it is switched out for the last time.
    on_cpu, counted, died = perf.on_cpu, switches_on(evidence, OUT), len({row.tid for row in evidence.offenders})
    low_ns = on_cpu * 0.95 - perf.lost_ns(counted, died=died)
    assert low_ns <= use.out_of_set_ns <= perf.until_death_ns(count), (use, on_cpu, low_ns, perf.unseen_ns)
    assert use.out_of_set_switches >= count - perf.missed(counted, died=died)
    assert use.transition_ns == 0
    assert len({row.tid for row in evidence.offenders}) >= count


@pytest.mark.parametrize("born", ["leader", "thread"])
def test_exec_right_after_joining(observer: Observer, place: str, mover: Path, born: str) -> None:
    """A process joins outside and becomes another program there, also by a thread that takes the leader's number."""
    run = "exec work 2000" if born == "leader" else "thread { exec work 2000 } wait"
    script = f"times 20 {{ fork {{ pin {IN} put {procs(place)} 0 pin {OUT} {run} }} }}"
    evidence, _, perf, _ = play(observer, mover, f"pin {IN} {script}")
    use = total(evidence)
    died = len({row.tid for row in evidence.offenders})
    on_cpu, lost_ns = perf.on_cpu, perf.lost_ns(switches_on(evidence, OUT), died=died)
    assert on_cpu * 0.95 - lost_ns <= use.out_of_set_ns <= perf.until_death_ns(20), (use, on_cpu, lost_ns)
    # Each worked so long by its own clock, which runs no faster than perf's.
    assert on_cpu >= 20 * 2_000_000
    assert use.transition_ns == 0


def test_exit_right_after_joining(observer: Observer, place: str, mover: Path) -> None:
    """A task that joins outside and exits at once was outside: its record is gone when it is looked for."""
    script = f"times 50 {{ fork {{ pin {OUT} enter {procs(place)} done }} }}"
    evidence, account, perf, _ = play(observer, mover, f"pin {IN} {script}")
    use = total(evidence)
    assert account.stays == 50
    # They do next to nothing between the two: one that a hidden thread interrupted there has no interval at all.
    counted = switches_on(evidence, OUT)
    low_ns = account.low_ns - perf.lost_ns(counted, died=50)
    missed = perf.missed(counted, died=50)
    assert low_ns <= use.out_of_set_ns <= perf.until_death_ns(50)
    assert use.out_of_set_switches >= 50 - missed
    assert 50 - missed <= len({row.tid for row in evidence.offenders}) <= 50


def test_exit_right_after_leaving(observer: Observer, place: str, mover: Path) -> None:
    """What a task does between its leaving and its death is of no claim; what it did inside stays."""
    script = f"fork {{ pin {OUT} enter {procs(place)} burn 1000 leave {home(os.getpid())} burn 1000 }}"
    evidence, account, perf, _ = play(observer, mover, f"pin {IN} times 30 {{ {script} }}")
    use = total(evidence)
    assert account.agrees(use.out_of_set_ns, perf.lost_ns(switches_on(evidence, OUT), died=30)), (use, account)
    assert len({row.tid for row in evidence.offenders}) == 30
