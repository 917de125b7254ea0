"""Lines of ``pinproof watch`` for people: many threads outside on every CPU are one line each period."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.endless_watch import IN, ONLINE, V1_CPUSETS, Watch, place
from tests.integration.membership_lab import cpuset
from tests.integration.probe_lab import cgroup, join, wait_for
from toolkit.model.cpuset import CpuSet

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs"),
]
THREADS = 40
BUSY = f"""
import threading, time

def work():
    while True:
        end = time.monotonic() + 0.0005
        while time.monotonic() < end:
            pass
        time.sleep(0.05)

for _ in range({THREADS} - 1):
    threading.Thread(target=work, daemon=True).start()
work()
"""
AT_ONCE = re.compile(r"^(\S+) db: .* ran on CPU \d+, outside its set$", re.MULTILINE)
SUMMED = re.compile(r"^(\S+) db: (\d+) threads on CPUs? (\S+), \S+ ms outside its CPUs$", re.MULTILINE)


@pytest.fixture
def crowd() -> Iterator[list[int]]:
    """Threads of one task in the claim's cgroup, on the claim's CPU."""
    with contextlib.ExitStack() as places:
        if V1_CPUSETS:
            places.enter_context(cpuset(place(), CpuSet.of([IN])))
        places.enter_context(cgroup(place()[1:]))
        places.enter_context(cgroup(f"{place()[1:]}-web"))  # the other claim's, empty
        busy = subprocess.Popen([sys.executable, "-c", BUSY], preexec_fn=lambda: os.sched_setaffinity(0, {IN}))
        places.callback(busy.wait)
        places.callback(busy.kill)
        join(place(), busy.pid)
        tasks = Path(f"/proc/{busy.pid}/task")
        wait_for(lambda: len(list(tasks.iterdir())) == THREADS, "all threads run", 20.0)
        yield [int(one.name) for one in tasks.iterdir()]


@pytest.fixture
def watch(crowd: list[int], tmp_path: Path) -> Iterator[Watch]:
    """A watch in windows that outlast the lines."""
    watch = Watch(tmp_path, 60.0, "--lines-every", "2")
    yield watch
    if watch.process.poll() is None:
        # It takes its controls with it; one that is killed leaves them to the next run.
        watch.process.send_signal(signal.SIGTERM)
        try:
            watch.process.wait(120)
        except subprocess.TimeoutExpired:
            watch.process.kill()
            watch.process.wait()
            raise


def test_a_crowd_outside_is_one_line(watch: Watch, crowd: list[int]) -> None:
    """The first thread is named at once, all of them on all their CPUs in one line, and again a period later.

    Before that one line says that it is armed, and for how much: a script that begins its load then misses nothing.
    """
    wait_for(lambda: "armed: " in watch.said(), "the line", 60.0)
    outside = ONLINE[1:]
    for number, thread in enumerate(crowd):
        os.sched_setaffinity(thread, {outside[number % len(outside)]})

    wait_for(lambda: len(SUMMED.findall(watch.said())) >= 2, "two lines that sum up", 60.0)

    summed = SUMMED.findall(watch.said())
    assert len({at for at, _, _ in summed}) == len(summed)
    assert max(int(threads) for _, threads, _ in summed) == THREADS
    assert summed[-1][2] == str(CpuSet.of(outside))
    assert re.findall(r"^\d\d:\d\d:\d\d armed: (.*)$", watch.said(), re.MULTILINE) == ["2 claims, windows of 60 s"]
    at_once = AT_ONCE.findall(watch.said())
    assert 1 <= len(at_once) <= len(summed) + 1
