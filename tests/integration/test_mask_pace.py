"""How often the masks of a claim's threads are read: as often as the options ask for, but for at most 1 % of a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from probes.loaded import observing
from probes.masks.witness import MaskWatch
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from tests.integration.probe_lab import cgroup, join, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet

pytestmark = pytest.mark.integration
ONLINE = CpuSet.of(os.sched_getaffinity(0))
THREADS = 2000
SLEEPERS = """
import sys, threading
threading.stack_size(64 << 10)
forever = threading.Event()
input()
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=forever.wait, daemon=True).start()
forever.wait()
"""


@pytest.fixture
def claims() -> Iterator[ClaimSet]:
    """A claim with many threads that sleep."""
    with cgroup(f"pinproof-pace-{os.getpid()}") as path:
        command = [sys.executable, "-c", SLEEPERS, str(THREADS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
            join(path, process.pid)
            assert process.stdin is not None
            print(file=process.stdin, flush=True)
            listed = cgroupfs.identity_dir(cgroupfs.detect(), path) / "cgroup.threads"
            wait_for(lambda: len(listed.read_text().split()) == THREADS, f"{THREADS} threads")
            yield ClaimSet(claims=(Claim(name="many", cgroup=path, cpus=ONLINE),))
            process.kill()


def test_a_large_claim_is_read_more_seldom(claims: ClaimSet, ledger: Ledger) -> None:
    """99 times the CPU time of a scan lie between two: with a pause of 200 ms alone it would be ten scans or so.

    How many that are depends on how fast the machine scans: what was used until the last scan began, by the kernel's
    account of the scanner's thread, is at most 1 % of the time until then.
    """
    used_ns: dict[int, int] = {}
    with observing(claims, ledger=ledger) as observer:
        (scanner,) = (thread for thread in threading.enumerate() if thread.name == "pinproof-proc")
        clock = ~(scanner.native_id or 0) << 3 | 6  # CLOCK_THREAD_CPUTIME_ID of another thread of ours
        before_ns = time.clock_gettime_ns(clock)
        observer.open_window()
        masks = observer._window().watch(MaskWatch).masks
        wait_for(lambda: masks.scans >= 1, "the first scan")
        end = time.monotonic() + 2.0
        while time.monotonic() < end:  # what is measured is how little happens
            used_ns.setdefault(masks.scans, time.clock_gettime_ns(clock) - before_ns)
            time.sleep(0.005)
        evidence = observer.close_window()
    (gap,) = evidence.coverage.scan_gaps
    assert evidence.coverage.proc_scans >= 1
    # Nothing is used between two scans: what stands after the last but one had been used when the last began.
    assert used_ns.get(max(used_ns) - 1, 0) <= 0.01 * evidence.duration_ns, used_ns
    assert gap.longest_ns <= gap.allowed_ns
    assert len({mask.tid for mask in evidence.thread_masks}) == THREADS


@pytest.mark.beside
def test_each_window_has_a_scan(claims: ClaimSet) -> None:
    """Windows that are much shorter than the pause: masks of each are known."""
    with observing(claims, options=ObserveOptions(scan_ms=600_000)) as observer:
        observer.open_window()
        for _ in range(3):
            evidence = observer.finish(observer.turn_window())
            assert evidence.coverage.proc_scans >= 1
            assert len({mask.tid for mask in evidence.thread_masks}) == THREADS
        observer.close_window()


@pytest.mark.beside
def test_a_window_does_not_end_long_after_its_last_scan(ledger: Ledger) -> None:
    """A mask that became too wide in the pause is read before the window ends."""
    here = CpuSet.of([ONLINE.first()])
    with (
        cgroup(f"pinproof-late-{os.getpid()}") as path,
        subprocess.Popen(["sleep", "60"]) as process,
        observing(ClaimSet(claims=(Claim(name="one", cgroup=path, cpus=here),)), ledger=ledger) as observer,
    ):
        try:
            os.sched_setaffinity(process.pid, here)
            join(path, process.pid)
            observer.open_window()
            masks = observer._window().watch(MaskWatch).masks
            wait_for(lambda: masks.scans >= 1, "the first scan")
            masks.scanned_ns -= 10**9  # as if the pause had been long; where it is short, nothing has to be made up
            os.sched_setaffinity(process.pid, ONLINE)
            evidence = observer.close_window()
        finally:
            process.kill()
    assert {mask.cpus_allowed for mask in evidence.thread_masks} >= {ONLINE}
