"""A watch as a trace, and an escape's moments in it against the escaper's own account."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.endless_watch import IN, ONLINE, OUT, V1_CPUSETS, Watch, place
from tests.integration.membership_lab import cpuset
from tests.integration.probe_lab import cgroup, join, wait_for
from tests.traces import BEGIN, END, INSTANT, Event, read_back
from toolkit.model.cpuset import CpuSet

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs"),
]
NEAR_NS = 1_000_000
"""How far a moment of the trace may be from the escaper's own account."""
SHORT_NS, LONG_NS = 500_000, 20_000_000
ESCAPER = """
import json, os, sys, time
IN, OUT, SHORT_NS, LONG_NS = map(int, sys.argv[1:5])
os.sched_setaffinity(0, {IN})
sys.stdin.readline()
out = []
for length_ns in (SHORT_NS, SHORT_NS, LONG_NS, SHORT_NS, SHORT_NS):
    leaves = time.monotonic_ns()
    os.sched_setaffinity(0, {OUT})
    there = time.monotonic_ns()
    while time.monotonic_ns() < there + length_ns:
        pass
    returns = time.monotonic_ns()
    os.sched_setaffinity(0, {IN})
    out.append((leaves, there, returns, time.monotonic_ns()))
    time.sleep(0.01)
with open(sys.argv[5] + ".part", "w") as file:
    json.dump(out, file)
os.rename(sys.argv[5] + ".part", sys.argv[5])
sys.stdin.readline()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """What the escaper wrote of a stay outside: before and after each way (CLOCK_MONOTONIC)."""

    leaves: int
    there: int
    returns: int
    home: int


def near(at_ns: int, begin_ns: int, end_ns: int) -> bool:
    """Say whether a moment is within a millisecond of an account that knows it to lie between these."""
    return begin_ns - NEAR_NS <= at_ns <= end_ns + NEAR_NS


def escaped(account: Path) -> tuple[list[Event], list[Stay]]:
    """Watch an escaper in the second window; return what is in the trace, and its account."""
    folder = account.parent
    with contextlib.ExitStack() as places:
        for path in (place(), f"{place()}-web"):
            if V1_CPUSETS:
                places.enter_context(cpuset(path, CpuSet.of([IN])))
            places.enter_context(cgroup(path[1:]))
        words = [sys.executable, "-c", ESCAPER, *map(str, (IN, OUT, SHORT_NS, LONG_NS, account))]
        task = places.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, text=True))
        places.callback(task.kill)
        os.sched_setaffinity(task.pid, {IN})
        join(place(), task.pid)
        watch = Watch(folder, 1.5, "--timeline")
        places.callback(watch.process.wait)
        places.callback(watch.process.kill)
        watch.wait_for_windows(1)
        assert task.stdin is not None
        task.stdin.write("go\n")
        task.stdin.flush()
        wait_for(account.exists, "the escaper's account")
        watch.wait_for_windows(2)
        watch.end()
    (run,) = watch.runs.iterdir()
    command = [sys.executable, "-m", "toolkit", "report", str(run), "--perfetto", str(folder / "trace")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    stays = [Stay(leaves=a, there=b, returns=c, home=d) for a, b, c, d in json.loads(account.read_text())]
    return read_back((folder / "trace").read_bytes()), stays


def test_an_escape_is_in_the_trace_at_its_moments(tmp_path: Path) -> None:
    """Within a millisecond: its first, its longest and its last, in the one of several windows in which it happened."""
    seen, stays = escaped(tmp_path / "account")
    windows = [(one.at_ns, one.name) for one in seen if one.track == "windows" and one.kind == BEGIN]
    outside = [one for one in seen if one.track == "db/violations"]
    first, last = (
        next(one.at_ns for one in outside if one.kind == INSTANT and one.name.startswith(f"{which}: "))
        for which in ("first", "last")
    )
    began, ended = (next(one.at_ns for one in outside if one.kind == kind) for kind in (BEGIN, END))

    assert len(windows) >= 2
    assert [at for at, (_, name) in enumerate(windows) if ": failed" in name] == [1], windows
    assert windows[1][0] <= first <= last
    assert near(first, stays[0].leaves, stays[0].there), (first, stays[0])
    assert near(last, stays[-1].returns, stays[-1].home), (last, stays[-1])
    # Beside others it takes its turns there: the longest is the whole stay, or one of them.
    assert stays[2].leaves - NEAR_NS <= began < ended <= stays[2].home + NEAR_NS, (began, ended, stays[2])
