"""A thread id that is used again: two tasks, each with its own owner, name and time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from probes.switches.ledger import Ledger
from tests.integration.intruder_lab import (
    IN,
    ONLINE,
    OUT,
    POD,
    SYSTEM,
    Node,
    lost,
    node_of_pods,
    play,
    rows,
)
from tests.integration.membership_lab import Mover, complete, procs
from tests.integration.perf_account import HiddenThreads, PerfAccount
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome

pytestmark = [pytest.mark.integration, pytest.mark.skipif(len(ONLINE) < 2, reason="needs a CPU that no claim may use")]


@pytest.fixture(scope="module")
def node(ledger: Ledger) -> Iterator[Node]:
    """One observer for all windows of this module."""
    with node_of_pods(ledger) as made:
        yield made


def free_tid() -> int:
    """Return a thread id that no task has and none will get soon."""
    limit = int(Path("/proc/sys/kernel/pid_max").read_text())
    last = int(Path("/proc/sys/kernel/ns_last_pid").read_text())
    start = (last + limit // 2) % (limit - 1000) + 500
    return next(tid for tid in range(start, limit) if not Path(f"/proc/{tid}").exists())


def one_after_the_other(
    node: Node, mover: Path, tid: int, *blocks: str
) -> tuple[Evidence, list[int], int, HiddenThreads]:
    """Let the same number's tasks live in turn; returns perf's time of each on ``OUT``, and what may be lost of it."""
    script = " tell ".join(blocks)
    with Mover(mover, f"pin {IN} ready {script} tell") as run, PerfAccount(run.pid, OUT, node.observer) as perf:
        node.observer.open_window()
        ends = [perf.read_ns()]
        for _ in blocks:
            run.go()
            run.account()
            ends.append(perf.read_ns())
        evidence = node.observer.close_window()
        perf.close()
        run.end()
    complete(evidence)
    on_cpu = [end - begin for begin, end in pairwise(ends)]
    return evidence, on_cpu, lost(evidence, perf, tid, died=len(blocks)), perf.hidden


def near(seen_ns: int, on_cpu_ns: int, lost_ns: int, hidden_ns: int = 0) -> None:
    """Assert that a task's time is perf's, which ends before the task has died: 1 ms for that.

    :param hidden_ns: what hidden threads ran, where it is in the task's time.
    """
    slack = max(0.05 * on_cpu_ns, 1_000_000)
    high_ns = on_cpu_ns + slack + hidden_ns
    assert on_cpu_ns - slack - lost_ns <= seen_ns <= high_ns, (seen_ns, on_cpu_ns, lost_ns, hidden_ns)


def test_a_thread_id_used_twice_is_two_tasks(node: Node, mover: Path) -> None:
    """A system task, and after its death a foreign pod's task with the same number: two intruders."""
    tid = free_tid()
    once = f"tid {tid} {{ name first pin {OUT} work 30000 }}"
    again = f"tidinto {tid} {procs(node.evil).parent} {{ name second pin {OUT} work 60000 }}"
    evidence, (first, second), lost_ns, _ = one_after_the_other(node, mover, tid, once, again)
    found = {(row.owner, row.comm, row.cgroup == node.evil): row.total_ns for row in rows(evidence, tid)}
    assert set(found) == {(SYSTEM, "first", False), (POD, "second", True)}
    near(found[SYSTEM, "first", False], first, lost_ns)
    near(found[POD, "second", True], second, lost_ns)
    assert node.exclusive(evidence) is Outcome.FAILED


def test_a_thread_id_used_twice_in_one_place_is_two_tasks(node: Node, mover: Path) -> None:
    """The same class and cgroup: still two tasks, each with its name and its time."""
    tid, inside = free_tid(), procs(node.evil).parent
    script = " ".join(f"tidinto {tid} {inside} {{ name t{n} pin {OUT} work 20000 }}" for n in range(3))
    evidence, _, perf, _ = play(node, mover, script)
    assert sorted(row.comm for row in rows(evidence, tid)) == ["t0", "t1", "t2"]
    lost_ns = lost(evidence, perf, tid, died=3)
    assert all(row.total_ns >= 10_000_000 - lost_ns for row in rows(evidence, tid))


def test_a_thread_id_of_a_dead_member_says_nothing(node: Node, mover: Path) -> None:
    """A member of the claim dies; a task of no claim gets its number: no member, and an intruder like any other."""
    tid = free_tid()
    member = f"tidinto {tid} {procs(node.db).parent} {{ pin {OUT} work 30000 }}"
    stranger = f"tid {tid} {{ name stranger pin {OUT} work 60000 }}"
    evidence, (first, second), lost_ns, hidden = one_after_the_other(node, mover, tid, member, stranger)
    (row,) = rows(evidence, tid)
    assert (row.owner, row.comm) == (SYSTEM, "stranger")
    own = sum(use.run_ns for use in evidence.cpu_use if use.claim == "db" and use.cpu == OUT)
    # A task inside its set is not looked up at each switch: what hidden threads took before it is in its run time.
    near(own, first, lost_ns, hidden.run_ns)
    near(row.total_ns, second, lost_ns)
