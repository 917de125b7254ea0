"""Events of moves between cgroups and of affinity changes: exact numbers of a known workload, and a bounded flood."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from probes.actions.reader import Actions
from probes.loaded import loaded, observing
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from tests.integration.probe_lab import cgroup, join
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet

pytestmark = pytest.mark.integration

ONLINE = sorted(os.sched_getaffinity(0))


@contextmanager
def sleeper(*, threads: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits until its input ends."""
    code = f"import sys, threading\nfor _ in range({threads - 1}): threading.Thread(target=sys.stdin.read).start()\n"
    with subprocess.Popen(
        ["python3", "-c", code + "print(flush=True); sys.stdin.read()"], stdin=-1, stdout=-1
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        assert child.stdin is not None
        child.stdin.close()


@pytest.fixture(scope="module")
def tracing() -> Iterator[Ledger]:
    """Programs that tell of affinity changes also where each system call has to be traced for that."""
    with loaded(options=ObserveOptions(trace_syscalls=True)) as one:
        yield one


def test_seven_moves_are_seven_rows(ledger: Ledger) -> None:
    """In, out and inside: what moved which task from where to where, in order; a stranger's moves are not reported."""
    with cgroup(f"pinproof-moves-{os.getpid()}") as path, sleeper() as child, sleeper() as stranger:
        for name in ("claim", "claim/below", "outside"):
            cgroupfs.identity_dir(cgroupfs.detect(), f"{path}/{name}").mkdir()
        claim = Claim(name="db", cgroup=f"{path}/claim", cpus=CpuSet.of(ONLINE))
        with observing(ClaimSet(claims=(claim,)), ledger=ledger) as observer:
            observer.open_window()
            for where in ("outside", "claim", "claim/below", "claim", "outside", "claim", "outside", "claim/below"):
                join(f"{path}/{where}", child.pid)
                join(f"{path}/outside", stranger.pid)
            evidence = observer.close_window()
            observer.open_window()
            again = observer.close_window()
    rows = [(row.from_claim, row.to_claim, row.cgroup.removeprefix(path)) for row in evidence.cgroup_moves]
    assert rows == [
        ("", "db", "/claim"),
        ("db", "db", "/claim/below"),
        ("db", "db", "/claim"),
        ("db", "", "/outside"),
        ("", "db", "/claim"),
        ("db", "", "/outside"),
        ("", "db", "/claim/below"),
    ]
    me = Path("/proc/self/comm").read_text().strip()
    for row in evidence.cgroup_moves:
        assert (row.tid, row.hierarchy, row.whole_process, row.writer_comm) == (child.pid, "v2", True, me)
    times = [row.at_ns for row in evidence.cgroup_moves]
    assert 0 <= times[0] <= times[-1] <= evidence.duration_ns
    assert times == sorted(times)
    assert evidence.coverage.cgroup_moves_dropped == 0
    assert again.cgroup_moves == ()


def test_23_calls_are_23_rows(tracing: Ledger) -> None:
    """Affinity changes of a claim's task by another process, by itself, and one refused: mask, caller, answer."""
    last = CpuSet.of([ONLINE[-1]])
    with cgroup(f"pinproof-affinity-{os.getpid()}") as path, sleeper() as child:
        join(path, child.pid)
        claim = Claim(name="db", cgroup=path, cpus=CpuSet.of(ONLINE))
        with observing(ClaimSet(claims=(claim,)), ledger=tracing) as observer:
            if not observer.ledger.side(Actions).affinity_observed:
                pytest.skip("; ".join(observer.ledger.side(Actions).blind_spots))
            observer.open_window()
            for number in range(22):
                os.sched_setaffinity(child.pid, last if number % 2 else ONLINE)
            with pytest.raises(OSError, match="Invalid"):
                os.sched_setaffinity(child.pid, [1023])
            evidence = observer.close_window()
    assert evidence.affinity_changes is not None
    rows = [row for row in evidence.affinity_changes if row.tid == child.pid]
    assert len(rows) == 23
    assert [row.cpus for row in rows[:22]] == [CpuSet.of(ONLINE), last] * 11
    assert [row.errno for row in rows] == [0] * 22 + [errno.EINVAL]
    assert {(row.claim, row.caller_tid, row.caller_claim) for row in rows} == {("db", os.getpid(), "")}
    assert evidence.coverage.affinity_changes_dropped == 0


def test_own_calls_are_told_where_they_matter(tracing: Ledger) -> None:
    """A task without a claim that changes its own mask is told where it asks for a watched CPU, else not."""
    if len(ONLINE) < 2:
        pytest.skip("a mask beside the watched CPU needs two CPUs")
    with observing(ClaimSet(claims=(), reserved_cpus=CpuSet.of([ONLINE[-1]])), ledger=tracing) as observer:
        if not observer.ledger.side(Actions).affinity_observed:
            pytest.skip("; ".join(observer.ledger.side(Actions).blind_spots))
        observer.open_window()
        try:
            for _ in range(7):
                os.sched_setaffinity(0, [ONLINE[0]])
            for _ in range(5):
                os.sched_setaffinity(0, [ONLINE[-1]])
        finally:
            os.sched_setaffinity(0, [ONLINE[0]])
        evidence = observer.close_window()
        os.sched_setaffinity(0, ONLINE)
    assert evidence.affinity_changes is not None
    mine = [row.cpus for row in evidence.affinity_changes if row.tid == os.getpid()]
    assert mine == [CpuSet.of([ONLINE[-1]])] * 5


def test_a_flood_is_cut_off_and_counted() -> None:
    """Beyond max_actions for each CPU events are counted, not reported, leaves apart; the ledger loses nothing."""
    with cgroup(f"pinproof-flood-{os.getpid()}") as path, sleeper() as child:
        for name in ("claim", "outside"):
            cgroupfs.identity_dir(cgroupfs.detect(), f"{path}/{name}").mkdir()
        claim = Claim(name="db", cgroup=f"{path}/claim", cpus=CpuSet.of(ONLINE))
        os.sched_setaffinity(0, [ONLINE[0]])
        try:
            with observing(ClaimSet(claims=(claim,)), options=ObserveOptions(max_actions=10)) as observer:
                observer.open_window()
                for number in range(23):
                    join(f"{path}/{('claim', 'outside')[number % 2]}", child.pid)
                evidence = observer.close_window()
        finally:
            os.sched_setaffinity(0, ONLINE)
    assert [row.leaves for row in evidence.cgroup_moves].count(True) == 10
    assert len(evidence.cgroup_moves) == 20
    assert (evidence.coverage.cgroup_moves_dropped, evidence.coverage.leaves_dropped) == (2, 1)
    assert evidence.coverage.lost_events == 0


def test_what_cannot_be_seen_is_said(ledger: Ledger) -> None:
    """Without a way to see affinity changes that all can afford, there are no rows and a blind spot says why."""
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        evidence = observer.close_window()
    told = any("affinity" in spot for spot in evidence.coverage.blind_spots)
    assert told == (evidence.affinity_changes is None)
