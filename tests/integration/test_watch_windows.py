"""``pinproof watch`` in consecutive windows: what goes wrong in one leaves the others alone, and nothing grows.

The claim is narrower than what its task may use (on a hybrid host the task is not in the claim's v1 cpuset), so the
test moves the task out of its claim and back by its mask.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.endless_watch import IN, ONLINE, OUT, V1_CPUSETS, Watch, document, place, saved_evidence
from tests.integration.membership_lab import cpuset
from tests.integration.probe_lab import BURSTS, cgroup, join, wait_for
from toolkit.model.cpuset import CpuSet
from toolkit.session.engine.session import session
from toolkit.session.engine.window import Window
from toolkit.sources.claims_file import load_claims

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs"),
]
READ_AFTER = range(15, 52, 6)
KEPT_PER_WINDOW = 2_000
"""Bytes that may be left of a window that has ended: pydantic keeps strings in a cache, some 300 bytes of each window
until it is full (16,384 strings), and one evidence of these claims is more than 20,000."""


@pytest.fixture
def task() -> Iterator[subprocess.Popen[bytes]]:
    """A busy task in the cgroup of each claim of :func:`document`, on the claim's CPU; yields that of ``db``."""
    with contextlib.ExitStack() as places:
        tasks = []
        for path in (place(), f"{place()}-web"):
            if V1_CPUSETS:
                places.enter_context(cpuset(path, CpuSet.of([IN])))
            places.enter_context(cgroup(path[1:]))
            busy = subprocess.Popen([sys.executable, "-c", BURSTS])
            places.callback(busy.wait)
            places.callback(busy.kill)
            os.sched_setaffinity(busy.pid, {IN})
            join(path, busy.pid)
            tasks.append(busy)
        yield tasks[0]


@pytest.fixture(params=[2.0])
def watch(task: subprocess.Popen[bytes], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Watch]:
    """A watch in windows of so many seconds: two hold a stop of one and a half."""
    watch = Watch(tmp_path, request.param)
    yield watch
    if watch.process.poll() is None:
        watch.process.send_signal(signal.SIGCONT)
        watch.process.kill()
        watch.process.wait()


def verdict(result: dict[str, Any], rule: str, subject: str) -> dict[str, Any]:
    """Return the one verdict of a rule about a subject."""
    (found,) = [one for one in result["verdicts"] if (one["rule"], one["subject"]) == (rule, subject)]
    return dict(found)


def test_what_goes_wrong_in_a_window_is_said_of_that_window(watch: Watch, task: subprocess.Popen[bytes]) -> None:
    """First a task of one claim escapes, then no scan looks: each taints its own window, of no other claim."""
    watch.wait_for_windows(1)
    os.sched_setaffinity(task.pid, {OUT})
    wait_for(lambda: "outside its set" in watch.said(), "the escape is reported", 10.0)
    os.sched_setaffinity(task.pid, {IN})
    back_in = watch.ended() + 1
    watch.wait_for_windows(back_in)
    watch.process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    watch.process.send_signal(signal.SIGCONT)
    stopped_in = watch.ended() + 1
    watch.wait_for_windows(stopped_in)  # the next one is open: it ends the watch
    code, result, windows = watch.end()
    assert code == 1
    escaped(result, windows, back_in)
    unseen(result, windows, stopped_in)


def clean_canary(watch: Watch) -> int:
    """Return the process of the control that keeps its claim."""
    (found,) = [
        child.pid
        for child in psutil.Process(watch.process.pid).children(recursive=True)
        if "pinproof-canary-clean" in Path(f"/proc/{child.pid}/cgroup").read_text()
    ]
    return found


def ran_to_the_end(watch: Watch, number: int) -> bool:
    """Whether the control that keeps its claim did so in a window. (A reason has room for some doubts, not for all.)"""
    (run,) = watch.runs.iterdir()
    canaries = saved_evidence(run, number)["canaries"]
    return all(one["planted_switches"] >= 0 for one in canaries if not one["positive"])


@pytest.mark.parametrize("watch", [1.0], indirect=True)
def test_a_control_that_is_moved_spoils_its_window_and_fails_none(watch: Watch) -> None:
    """As kernels before 6.2 do when systemd switches a cpuset controller on: it was outside its set indeed."""
    watch.wait_for_windows(1)
    pid = clean_canary(watch)
    moved_in = watch.ended() + 1
    os.sched_setaffinity(pid, os.sched_getaffinity(0) - os.sched_getaffinity(pid))
    watch.wait_for_windows(watch.ended() + 2)
    _, _, windows = watch.end()
    health = {number: verdict(one, "evidence-health", "node") for number, one in windows.items()}
    assert [one for one in health.values() if one["outcome"] == "failed"] == []
    spoilt = {number for number in windows if not ran_to_the_end(watch, number)}
    assert spoilt, health
    assert all(health[number]["outcome"] == "undecided" for number in spoilt)
    assert spoilt <= {moved_in, moved_in + 1}
    assert health[max(health)]["outcome"] == "passed", health[max(health)]


def escaped(result: dict[str, Any], windows: dict[int, dict[str, Any]], back_in: int) -> None:
    """The window in which a task ran outside is failed and all are; those before and after it are not."""
    held = {number: verdict(one, "cpuset-containment", "db") for number, one in windows.items()}
    outside = {number: sum(row["total_ns"] for row in one["offenders"]) for number, one in held.items()}
    failed = {number for number, one in held.items() if one["outcome"] == "failed"}
    assert failed == {number for number, ns in outside.items() if ns}
    assert failed <= {2, back_in}, outside
    assert failed, outside
    assert verdict(result, "cpuset-containment", "db")["outcome"] == "failed"
    assert verdict(result, "cpuset-containment", "web")["outcome"] != "failed"
    (total,) = [row for row in result["windows"]["claims"] if row["claim"] == "db"]
    assert total["out_of_set_ns"] == sum(outside.values())
    named = {
        row["number"] for row in result["windows"]["worst"] if "cpuset-containment db failed" in str(row["reasons"])
    }
    assert named == failed


def unseen(result: dict[str, Any], windows: dict[int, dict[str, Any]], stopped_in: int) -> None:
    """No scan looked for a second and a half: what only looking could show is undecided there, and nowhere else."""
    gaps = {
        number
        for number, one in windows.items()
        if any(gap["longest_ns"] > 1_000_000_000 for gap in one["coverage"]["scan_gaps"])
    }
    assert gaps == {stopped_in}
    assert verdict(windows[stopped_in], "affinity-mask", "web")["outcome"] == "undecided"
    after = verdict(windows[stopped_in + 1], "affinity-mask", "web")
    assert after["outcome"] == "passed", after
    assert verdict(result, "affinity-mask", "web")["outcome"] == "undecided"


@pytest.mark.beside
@pytest.mark.usefixtures("task")
def test_memory_does_not_grow_with_windows(tmp_path: Path) -> None:
    """What is left of a window that has ended is a few hundred bytes, whatever it held.

    The samplers go on while memory is read: one reading may hold the folder that a thread is just walking through, and
    a table of the interpreter that doubles stays doubled. Neither is a growth with every window, so the growth is the
    median of the slopes between any two readings (Theil and Sen): a third of the readings may be off.
    """
    claims = load_claims(document(tmp_path))
    kept: dict[int, int] = {}
    with session(claims, Window(run_id="windows", duration_s=None)) as opened:
        windows = opened.consecutive(tmp_path / "run", window_s=0.1)
        tracemalloc.start()
        try:
            for judged in windows.windows():
                if judged.number in READ_AFTER:
                    kept[judged.number] = kept_bytes()
                if judged.number == READ_AFTER[-1]:
                    break
        finally:
            tracemalloc.stop()

    pairs = itertools.combinations(kept.items(), 2)
    assert statistics.median((more - less) / (later - first) for (first, less), (later, more) in pairs) < (
        KEPT_PER_WINDOW
    ), kept


def kept_bytes() -> int:
    """Return how many bytes of Python's own are in use."""
    gc.collect()
    # pathlib interns names: the interpreter's table of interned strings doubles whenever it is full.
    hidden = (tracemalloc.Filter(False, pathlib.__file__), tracemalloc.Filter(False, tracemalloc.__file__))
    return sum(row.size for row in tracemalloc.take_snapshot().filter_traces(hidden).statistics("filename"))
