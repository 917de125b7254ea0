"""Quiet CPUs: no sampler and no thread of ours is there, for as long as they are quiet, and a window says which."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from probes.build import build
from probes.observer import Observer
from probes.options import ObserveOptions
from probes.subjects import Subject
from probes.unloaded import UnloadedLedger
from toolkit.host import own_threads
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet

ONLINE = CpuSet.parse("0-3")


class Sampling(UnloadedLedger):
    """Four CPUs, on which nothing but a sampler runs."""

    def online(self) -> CpuSet:
        """Return them."""
        return ONLINE

    def sample(self, cpus: CpuSet) -> CpuSet:
        """Start it."""
        self._perf |= dict.fromkeys(cpus, -1)
        return CpuSet.of(self._perf)

    def forget_sampler(self, cpu: int) -> None:
        """Stop it."""
        self._perf.pop(cpu, None)


@pytest.fixture
def confined(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[int]]:
    """Where threads were confined to, which may use all four."""
    found: list[frozenset[int]] = []
    monkeypatch.setattr(own_threads, "confine", found.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    return found


def observer(options: ObserveOptions) -> Observer:
    """Return one on such a ledger, which has begun."""
    ledger = Sampling(Path("/"), options, (), "nothing is loaded")
    ledger.open()
    made = Observer(ClaimSet(claims=()), Path("/"), ledger)
    made.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    made.begin(())
    return made


def own(made: Observer, cpus: str) -> None:
    """Let a claim have CPUs for itself, or none."""
    claim = Claim(name="db", cgroup="/db", cpus=CpuSet.parse(cpus), isolation=Isolation.CONTAINER)
    made.subjects.clear()
    if cpus:
        made.subjects["db"] = Subject(
            claim=claim, cgroup_id=5, slot=0, ident=1, cpus=CpuSet.parse(cpus), since_ns=0, legacy_ids={}, watched_ns=0
        )
    made._watch()


def unsampled(made: Observer) -> str:
    """Return which CPUs the window that is open says nothing sampled, for a while at least."""
    frame = made.read_so_far().frame
    return str(ONLINE - frame.sampled)


def test_named_cpus_are_quiet_all_the_time(confined: list[frozenset[int]]) -> None:
    """No sampler, no thread; what is not sampled is in the frame of each window."""
    made = observer(ObserveOptions(quiet_cpus=CpuSet.parse("2-3")))
    made.open_window()
    assert (str(made.sampled), unsampled(made)) == ("0-1", "2-3")
    assert confined == [frozenset({0, 1})]
    assert build(made.read_so_far()).duration_ns > 0


def test_exclusive_cpus_are_quiet_while_something_owns_them(confined: list[frozenset[int]]) -> None:
    """A window in which a CPU was quiet for a while says so; the next one is told what is so by then."""
    made = observer(ObserveOptions(quiet_exclusive=True))
    made.open_window()
    assert unsampled(made) == ""
    own(made, "1")
    assert (str(made.sampled), unsampled(made)) == ("0,2-3", "1")
    own(made, "2")
    assert (str(made.sampled), unsampled(made)) == ("0-1,3", "1-2")
    made.finish(made.turn_window())
    assert unsampled(made) == "2"
    own(made, "")
    made.finish(made.turn_window())
    assert (str(made.sampled), unsampled(made)) == ("0-3", "")
    assert confined[:2] == [frozenset({0, 2, 3}), frozenset({0, 1, 3})]


def test_without_a_wish_no_thread_is_moved(confined: list[frozenset[int]]) -> None:
    """And every CPU has a sampler."""
    made = observer(ObserveOptions())
    own(made, "1")
    assert (made.sampled, confined) == (ONLINE, [])


def test_every_thread_of_this_process_is_confined() -> None:
    """Also one that was started before; it comes back where it may run again."""
    before = frozenset(os.sched_getaffinity(0))
    stop, seen = threading.Event(), list[int]()
    thread = threading.Thread(target=lambda: (seen.append(threading.get_native_id()), stop.wait()))
    thread.start()
    try:
        own_threads.confine(frozenset({min(before)}))
        assert {frozenset(os.sched_getaffinity(tid)) for tid in (0, *seen)} == {frozenset({min(before)})}
    finally:
        own_threads.confine(before)
        stop.set()
        thread.join()
