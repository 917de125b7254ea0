"""The kernel charges a task with the way out of idle; the ledger says how long that was: both accounts agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.membership_lab import Mover, procs
from tests.integration.probe_lab import cgroup
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from validators import view
from validators.agreement import cpu_time_tolerance_ns

ONLINE = sorted(os.sched_getaffinity(0))
CPU = ONLINE[-1]
NAPS = 5_000

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="a CPU must become idle"),
]


def test_the_way_out_of_idle_is_measured(mover: Path) -> None:
    """With thousands of short naps the cgroup counts a third more than the task ran: most of that is explained.

    What is not: the least distance of the two clocks, 1 to 2 us of some 10 us, is in every measured way.
    """
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(own) - {CPU})
    try:
        with cgroup(f"pinproof-idle-{os.getpid()}") as path, Observer(ClaimSet(claims=())) as observer:
            observer.add_claim(Claim(name="db", cgroup=path, cpus=CpuSet.of([CPU])))
            words = f"pin {CPU} put {procs(path)} 0 ready times {NAPS} {{ nap 100 burn 20 }} tell"
            with Mover(mover, words) as run:
                observer.open_window()
                run.go()
                run.account()
                evidence = observer.close_window()
                run.end()
    finally:
        os.sched_setaffinity(0, own)
    rows = [row for row in evidence.cpu_use if row.claim == "db"]
    wakes, wake_ns = sum(row.idle_wakes for row in rows), sum(row.wake_ns for row in rows)
    counted = view.level([row for row in evidence.bandwidth if row.claim == "db"], 0)
    assert counted is not None
    assert counted.usage_ns is not None
    assert counted.bpf_usage_ns is not None
    more = counted.usage_ns - counted.bpf_usage_ns
    assert wakes > NAPS // 2
    assert wake_ns > 0
    # Both ends of the window, in which a task's last tick is not in the cgroup's account, are in the tolerance.
    ends = cpu_time_tolerance_ns(evidence, rows, 0) - 1_000 * sum(row.switches for row in rows)
    assert more / 2 - ends < wake_ns < more + ends, (more, wake_ns, wakes, ends)
