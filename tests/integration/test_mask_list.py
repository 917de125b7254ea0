"""The kernel's list of tasks: what it says of real threads, how soon it shows a mask, and what happens without it.

The expectations are what was asked of the kernel by system calls, and what ``/proc`` says, read here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.loaded import loaded, observing
from probes.masks.iterator import Piece, TaskIterator
from probes.masks.records import TaskMasks
from probes.masks.sample import STANDS
from probes.masks.scan_method import ScanMethod
from probes.masks.witness import MaskWatch
from probes.program import Program
from probes.switches.ledger import Ledger
from tests.integration.probe_lab import EMULATED, cgroup, join, wait_for
from toolkit.host import cgroupfs
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.text import names

pytestmark = pytest.mark.integration
ONLINE = CpuSet.of(os.sched_getaffinity(0))
HERE = CpuSet.of([ONLINE.first()])
COMM = b"x\nFAILED\x1b[2J\xff\\"
THREADS = 2000
WORKERS = """
import ctypes, os, sys, threading
threading.stack_size(64 << 10)
forever = threading.Event()
def begin(cpu, policy, name):
    os.sched_setaffinity(0, {cpu} if cpu >= 0 else os.sched_getaffinity(0))
    os.sched_setscheduler(0, policy, os.sched_param(0))
    if name:
        ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    os.write(1, b"%d\\n" % threading.get_native_id())  # in one piece, whatever else writes
    forever.wait()
input()
for cpu, policy, name in eval(sys.argv[1]):
    threading.Thread(target=begin, args=(cpu, policy, name), daemon=True).start()
for _ in range(int(sys.argv[2])):
    threading.Thread(target=forever.wait, daemon=True).start()
forever.wait()
"""


@contextlib.contextmanager
def workers(path: str, kinds: list[tuple[int, int, bytes]], more: int = 0) -> Iterator[tuple[int, list[int]]]:
    """Run a process on one CPU in a cgroup; yields its id, and its threads' of these kinds, when all have begun.

    :param kinds: CPU, or -1 for its own; policy; name.
    """
    command = [sys.executable, "-c", WORKERS, repr(kinds), str(more)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            os.sched_setaffinity(process.pid, HERE)
            if path:
                join(path, process.pid)
            print(file=process.stdin, flush=True)
            tids = sorted(int(process.stdout.readline()) for _ in kinds)
            wait_for(
                lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 1 + len(kinds) + more,  # noqa: PTH208
                "all threads",
                60.0,
            )
            yield process.pid, tids
        finally:
            process.kill()


def status(tid: int) -> dict[str, str]:
    """Return the fields of a thread's status, apart from its name."""
    lines = Path(f"/proc/{tid}/status").read_text(errors="surrogateescape").split("\n")
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}


def listed(ledger: Ledger) -> dict[int, TaskMasks]:
    """Return what one pass says, by thread."""
    side = ledger.side(TaskIterator)
    if not side.usable:
        pytest.skip(f"this kernel lists no tasks to a program: {side.refused}")
    size, found = side.known.layout.size, {}
    for _, data in side.read():
        for at in range(0, len(data), size):
            task = side.known.layout.decode(data[at : at + size])
            assert task.thread.tid not in found
            found[task.thread.tid] = task
    return found


@pytest.mark.beside
def test_threads_are_as_they_are(ledger: Ledger) -> None:
    """Masks, policy, process and name of each thread of two claims, one of them below the other; of no other cgroup."""
    kinds = [(cpu, os.SCHED_OTHER, b"") for cpu in ONLINE]
    kinds += [(-1, os.SCHED_BATCH, COMM[:15]), (-1, os.SCHED_IDLE, b"idle")]
    with cgroup(f"pinproof-list-{os.getpid()}") as outer:
        inner = f"{outer}/in/side"
        cgroupfs.identity_dir(cgroupfs.detect(), inner).mkdir(parents=True)
        claims = tuple(Claim(name=name, cgroup=path, cpus=ONLINE) for name, path in (("a", outer), ("b", inner)))
        with (
            workers(outer, kinds) as (first, tids),
            workers(inner, kinds[-1:]) as (second, others),
            workers("", kinds[:1]) as (stranger, _),
            observing(ClaimSet(claims=claims), ledger=ledger) as observer,
        ):
            found = listed(ledger)
            idents = {name: observer.require(name).ident for name in ("a", "b")}
            for tid in (first, second, *tids, *others):
                task, said = found[tid], status(tid)
                masks = task.thread.masks
                assert task.ident == idents["a" if tid in (first, *tids) else "b"]
                assert set(masks.cpus) == os.sched_getaffinity(tid)
                assert (str(masks.cpus), str(masks.mems)) == (said["Cpus_allowed_list"], said["Mems_allowed_list"])
                assert task.thread.pid == int(said["Tgid"])
                assert names.raw(task.thread.comm) + b"\n" == Path(f"/proc/{tid}/comm").read_bytes()
                assert not task.exiting
            assert found.keys() == {first, second, *tids, *others}
            assert stranger not in found
            by_name = {names.raw(task.thread.comm): task.thread.policy for task in found.values() if task.ident}
            assert (by_name[COMM[:15]], by_name[b"idle"]) == ("batch", "idle")


@pytest.mark.beside
def test_an_exited_leader_is_said_to_be_exiting(ledger: Ledger) -> None:
    """A process that has not been waited for is in the list, and no evidence of anything."""
    with cgroup(f"pinproof-zombie-{os.getpid()}") as path:
        claims = ClaimSet(claims=(Claim(name="a", cgroup=path, cpus=HERE),))
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            join(path, process.pid)
            with observing(claims, ledger=ledger) as observer:
                assert process.stdin is not None
                process.stdin.close()
                wait_for(lambda: status(process.pid)["State"].startswith("Z"), "its end")
                assert all(task.exiting for task in listed(ledger).values())
                observer.open_window()
                masks = observer._window().watch(MaskWatch).masks
                wait_for(lambda: masks.scans >= 1, "a scan")
                evidence = observer.close_window()
        finally:
            process.kill()
            process.wait()
    assert evidence.thread_masks == ()


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.skipif(EMULATED, reason="how much a scan costs is the emulator's affair")
def test_a_mask_that_is_put_back_soon_is_seen(ledger: Ledger) -> None:
    """One of 2,000 threads may use every CPU until the next scan, within the time that the coverage allows.

    What is kept of it is what ``/proc`` said; the others were read in each scan. How soon that is goes by what a scan
    costs here: on a warm CPU before ``/proc`` alone would be read once more (5.6 s).
    """
    with cgroup(f"pinproof-soon-{os.getpid()}") as path, workers(path, [(-1, 0, b"wide")], THREADS) as (_, (tid,)):
        claims = ClaimSet(claims=(Claim(name="many", cgroup=path, cpus=HERE),))
        with observing(claims, ledger=ledger) as observer:
            listed(ledger)
            observer.open_window()
            masks = observer._window().watch(MaskWatch).masks
            wait_for(lambda: masks.scans >= 1, "the first scan")
            before, began = masks.scans, time.monotonic()
            os.sched_setaffinity(tid, ONLINE)
            wait_for(lambda: masks.scans > before, "another scan", 60.0)
            os.sched_setaffinity(tid, HERE)
            took_s = time.monotonic() - began
            evidence = observer.close_window()
    wide = [mask for mask in evidence.thread_masks if not mask.cpus_allowed <= HERE]
    assert {(mask.tid, mask.cpus_allowed, mask.comm) for mask in wide} == {(tid, ONLINE, "wide")}
    assert len({mask.tid for mask in evidence.thread_masks}) == THREADS + 2
    (gap,) = evidence.coverage.scan_gaps
    assert gap.longest_ns <= gap.allowed_ns
    assert gap.scans == evidence.coverage.proc_scans >= 2
    print(f"seen after {took_s:.2f} s")


def test_a_thread_that_the_list_lacks_is_a_blind_spot(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim's list of threads has it, and so has ``/proc``, scan after scan."""
    side = ledger.side(TaskIterator)
    listed(ledger)
    with (
        cgroup(f"pinproof-lacks-{os.getpid()}") as path,
        workers(path, [(-1, 0, b"lost")]) as (_, (tid,)),
        observing(ClaimSet(claims=(Claim(name="a", cgroup=path, cpus=HERE),)), ledger=ledger) as observer,
    ):
        read, size = side.read, side.known.layout.size

        def without() -> list[Piece]:
            records = [(at, data[of : of + size]) for at, data in read() for of in range(0, len(data), size)]
            return [one for one in records if side.known.layout.decode(one[1]).thread.tid != tid]

        monkeypatch.setattr(side, "read", without)
        monkeypatch.setattr(ScanMethod, "next", lambda _self, _count: side)
        observer.open_window()
        masks = observer._window().watch(MaskWatch).masks
        wait_for(lambda: masks.scans > STANDS, "some scans")
        evidence = observer.close_window()
    (spot,) = (spot for spot in evidence.coverage.blindness if spot.claim == "a")
    assert spot.witnesses == (Witness.MASKS,)
    assert spot.text.startswith(f"thread {tid} (lost) of a is not among its threads")


def test_a_kernel_that_lists_no_tasks_is_read_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is refused: every thread is read from ``/proc``, and that is no blind spot."""
    refused = Program(name="on_task", iterates="no_such_thing", optional=True)
    monkeypatch.setattr(TaskIterator, "PROGRAMS", (refused,))
    with (
        cgroup(f"pinproof-refused-{os.getpid()}") as path,
        workers(path, [(-1, 0, b"one")], 300) as (pid, (tid,)),
        loaded() as ledger,
        observing(ClaimSet(claims=(Claim(name="a", cgroup=path, cpus=HERE),)), ledger=ledger) as observer,
    ):
        side = ledger.side(TaskIterator)
        assert not side.usable
        assert "no function bpf_iter_no_such_thing" in side.refused
        observer.open_window()
        masks = observer._window().watch(MaskWatch).masks
        wait_for(lambda: masks.scans >= 2, "two scans")
        evidence = observer.close_window()
    assert {pid, tid} < {mask.tid for mask in evidence.thread_masks}
    assert len({mask.tid for mask in evidence.thread_masks}) == 302
    assert not [spot for spot in evidence.coverage.blindness if Witness.MASKS in spot.witnesses]
