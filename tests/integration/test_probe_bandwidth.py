"""CPU time by the ledger beside the cgroup's own: also while the window is open, and for claims that come later."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.probe_lab import Planter, TaskClock, cgroup, join, wait_for
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import BandwidthUse, Evidence

pytestmark = pytest.mark.integration

ONLINE = sorted(os.sched_getaffinity(0))


def own_level(evidence: Evidence) -> BandwidthUse:
    """Return the row of the claim's own cgroup."""
    (row,) = [row for row in evidence.bandwidth if row.level == 0]
    return row


def test_both_accounts_are_true_in_snapshots_and_for_claims_added_late(planter: Path, ledger: Ledger) -> None:
    """A hog that ran before its claim was added: what ledger and cgroup tell lies between readings of its own clock.

    The inner pair of readings is taken after the claim was added and before the evidence is asked for, the outer pair
    around both: a slow machine widens the bounds, and nothing else does.
    """
    with (
        cgroup(f"pinproof-late-{os.getpid()}") as path,
        Planter(planter, "stay", ONLINE[0], ONLINE[0], 1, 10**11) as run,
        TaskClock(run.process.pid) as clock,
        observing(ClaimSet(claims=()), ledger=ledger) as observer,
    ):

        def read() -> tuple[int, int]:
            """Return how long it was on a CPU, and what the scheduler charged (without what the host took)."""
            return clock.read_ns(), time.clock_gettime_ns(~run.process.pid << 3 | 2)

        join(path, run.process.pid)
        observer.open_window()
        run.go()
        wait_for(lambda: read()[1] > 200_000_000, "the hog ran before")
        for ask in (observer.snapshot, observer.close_window):
            outer = read()
            observer.add_claim(Claim(name="late", cgroup=path, cpus=CpuSet.of(ONLINE)))
            inner = read()
            wait_for(lambda begun=inner: read()[1] > begun[1] + 400_000_000, "the hog runs on")
            least = [now - then for now, then in zip(read(), inner, strict=True)]
            row = own_level(ask())
            most = [now - then for now, then in zip(read(), outer, strict=True)]
            for told, low, high in zip((row.bpf_usage_ns, row.usage_ns), least, most, strict=True):
                # 1 %: interrupts are in the ledger's time and not in the scheduler's; 10 ms: the longest tick, by which
                # a cgroup's own account may be late.
                slack = high * 0.01 + 10_000_000
                assert told is not None
                assert low - slack <= told <= high + slack
            if ask == observer.snapshot:
                observer.remove_claim("late")
