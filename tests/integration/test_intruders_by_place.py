"""The owner of a task on an exclusive CPU: by where the task was at that moment, not by its first microsecond.

A runtime starts a pod's process outside of the pod's cgroup, moves it in, and lets it become another program.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.switches.ledger import Ledger
from tests.integration.intruder_lab import IN, ONLINE, OUT, POD, SYSTEM, Node, lost, node_of_pods, play, rows, total_ns
from tests.integration.membership_lab import Mover, Stays, home, procs
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import wait_for
from toolkit.model.evidence import OwnerClass
from toolkit.model.verdict import Outcome

pytestmark = [pytest.mark.integration, pytest.mark.skipif(len(ONLINE) < 2, reason="needs a CPU that no claim may use")]


@pytest.fixture(scope="module")
def node(ledger: Ledger) -> Iterator[Node]:
    """One observer for all windows of this module."""
    with node_of_pods(ledger) as made:
        yield made


@pytest.mark.parametrize("first", [OUT, IN], ids=["starts on the exclusive CPU", "starts elsewhere"])
def test_starting_pod_on_an_exclusive_cpu(node: Node, mover: Path, first: int) -> None:
    """System before it joined, a foreign pod's after: the rule fails, whichever CPU it began on."""
    script = f"pin {first} work 20000 enter {procs(node.evil)} pin {OUT} name hog work 200000 leave {home(os.getpid())}"
    evidence, account, perf, pid = play(node, mover, script)
    on_cpu, lost_ns = perf.on_cpu, lost(evidence, perf, pid, moves=2)
    pod, before = total_ns(evidence, pid, POD), total_ns(evidence, pid, SYSTEM)
    assert {row.cgroup for row in rows(evidence, pid, POD)} == {node.evil}
    assert {row.comm for row in rows(evidence, pid, POD)} == {"hog"}
    if first == OUT:
        assert account.agrees(pod, lost_ns), (pod, account, lost_ns)
        # What is lost is missing in one of the two, and what is left for the other is as much too high.
        slack = max(0.05 * (on_cpu - pod), 1_000_000)
        assert on_cpu - pod - slack - lost_ns <= before <= on_cpu - pod + slack, (before, pod, on_cpu, lost_ns)
        assert before >= 15_000_000 - lost_ns
    else:
        assert 0.95 * account.low_ns - lost_ns <= pod <= 1.05 * account.low_ns, (pod, account, lost_ns)
    assert node.exclusive(evidence) is Outcome.FAILED


def test_system_task_alone_fails_nothing(node: Node, mover: Path) -> None:
    """The control: what never joins a pod is system, and noise under the policy of Kubernetes."""
    evidence, _, perf, pid = play(node, mover, f"pin {OUT} work 100000")
    slack = max(0.05 * perf.on_cpu, 100_000)
    low_ns = perf.on_cpu - slack - lost(evidence, perf, pid)
    assert low_ns <= total_ns(evidence, pid, SYSTEM) <= perf.on_cpu + slack
    assert rows(evidence, pid, POD) == []
    assert node.exclusive(evidence) is not Outcome.FAILED


def test_joins_and_leaves_a_pod_again_and_again(node: Node, mover: Path) -> None:
    """Each stay is the pod's, and the time between the stays is not."""
    stay = f"enter {procs(node.evil)} burn 1000 leave {home(os.getpid())} burn 1000"
    evidence, account, perf, pid = play(node, mover, f"pin {OUT} times 60 {{ {stay} }}")
    pod, system = total_ns(evidence, pid, POD), total_ns(evidence, pid, SYSTEM)
    lost_ns = lost(evidence, perf, pid, moves=2 * account.stays)
    assert account.agrees(pod, lost_ns), (pod, account, lost_ns)
    assert 0.95 * perf.on_cpu - lost_ns <= pod + system <= 1.05 * perf.on_cpu, (pod, system, perf.on_cpu, lost_ns)


def test_moved_between_pods_by_another_while_it_spins(node: Node, mover: Path) -> None:
    """Each pod has its own time; a spinner never switches, so nothing but the history can say so."""
    with Mover(mover, f"pin {OUT} ready forever") as run, PerfAccount(run.pid, OUT, node.observer) as clock:
        pid = run.process.pid
        procs(node.other).write_text(str(pid))
        node.observer.open_window()
        run.go()
        wait_for(lambda: clock.read_ns() > 10_000_000, "it spins")
        stays = Stays(clock)
        for _ in range(20):
            stays.enter(lambda: procs(node.evil).write_text(str(pid)))
            time.sleep(0.004)
            stays.leave(lambda: procs(node.other).write_text(str(pid)))
            time.sleep(0.001)
        evidence = node.observer.close_window()
        clock.close()
    seen = total_ns(evidence, pid, POD, node.evil)
    counted = sum(row.switches for row in rows(evidence, pid, POD) if row.cgroup == node.evil)
    # Each stay ends with a move, of which the row counts an interval, too.
    lost_ns = stays.lost_ns(counted - stays.account.stays)
    assert stays.account.agrees(seen, lost_ns), (seen, stays.account, lost_ns)
    assert total_ns(evidence, pid, SYSTEM) <= 20_000 * 40
    assert node.exclusive(evidence) is Outcome.FAILED


def test_moved_from_the_claim_to_a_foreign_pod(node: Node, mover: Path) -> None:
    """A task of the claim itself is an intruder from the moment on in which it belongs to another pod."""
    script = f"put {procs(node.db)} 0 pin {OUT} work 50000 enter {procs(node.evil)} work 50000 leave {procs(node.db)}"
    evidence, account, perf, pid = play(node, mover, script)
    on_cpu, hidden_ns, lost_ns = perf.on_cpu, perf.hidden.run_ns, lost(evidence, perf, pid, moves=2)
    seen = total_ns(evidence, pid, POD)
    assert account.agrees(seen, lost_ns), (seen, account, lost_ns)
    own = sum(row.run_ns for row in evidence.cpu_use if row.claim == "db" and row.cpu == OUT)
    # A task inside its set is not looked up at each switch: what hidden threads took before it is in its run time.
    slack = max(0.05 * (on_cpu - seen), 1_000_000)
    assert on_cpu - seen - slack - lost_ns <= own <= on_cpu - seen + slack + hidden_ns


@pytest.mark.parametrize(
    ("then", "name"),
    [("name last work 30000 nap 1000 burn 1000", "last"), ("exec work 30000 nap 1000 burn 1000", "mover")],
    ids=["rename", "exec"],
)
def test_the_last_name_is_named(node: Node, mover: Path, then: str, name: str) -> None:
    """Not the one of its first microsecond: ``runc:[2:INIT]`` is no workload."""
    script = f"fork {{ name runc:[2:INIT] put {procs(node.evil)} 0 pin {OUT} burn 2000 nap 1000 {then} }}"
    evidence, _, perf, _ = play(node, mover, script)
    found = [row for row in evidence.intruders if row.owner is POD]
    assert {row.comm for row in found} == {name}
    lost_ns = perf.lost_ns(sum(row.switches for row in found), died=1)
    assert sum(row.total_ns for row in found) >= perf.on_cpu * 0.9 - lost_ns


def test_the_last_name_of_an_offender_is_named(node: Node, mover: Path) -> None:
    """The same for a task that leaves its claim's CPUs."""
    script = f"fork {{ name runc:[2:INIT] put {procs(node.db)} 0 pin {IN} burn 2000 nap 1000 exec work 20000 nap 100 }}"
    with Mover(mover, f"pin {IN} ready {script} tell") as run:
        node.observer.open_window()
        run.go()
        run.account()
        evidence = node.observer.close_window()
        run.end()
    assert {row.comm for row in evidence.offenders} == {"mover"}


def test_own_workload_is_not_the_toolkit_itself(node: Node, mover: Path) -> None:
    """What the observer's process starts is a task like any other; its own threads alone are the toolkit."""
    spinning, stop = threading.Event(), threading.Event()

    def spin() -> None:
        os.sched_setaffinity(0, {OUT})
        spinning.set()
        while not stop.is_set():
            pass

    with Mover(mover, f"pin {OUT} ready work 100000 tell") as run:
        node.observer.open_window()
        own = threading.Thread(target=spin)
        own.start()
        run.go()
        spinning.wait()
        run.account()
        stop.set()
        own.join()
        evidence = node.observer.close_window()
        run.end()
    assert {row.owner for row in rows(evidence, run.process.pid)} == {SYSTEM}
    assert own.native_id is not None
    assert {row.owner for row in rows(evidence, own.native_id)} == {OwnerClass.TOOLKIT}
    assert node.exclusive(evidence) is not Outcome.FAILED
