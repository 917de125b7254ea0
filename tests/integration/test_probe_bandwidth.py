"""CPU time by the ledger beside the cgroup's own: also while the window is open, and for claims that come later."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.probe_lab import Planter, cgroup, compile_planter, join, wait_for
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import BandwidthUse, Evidence

pytestmark = pytest.mark.integration

ONLINE = sorted(os.sched_getaffinity(0))


def own_level(evidence: Evidence) -> BandwidthUse:
    """Return the row of the claim's own cgroup."""
    (row,) = [row for row in evidence.bandwidth if row.level == 0]
    return row


def test_both_accounts_agree_in_snapshots_and_for_claims_added_late(tmp_path: Path) -> None:
    """A hog that ran before its claim was added: ledger and cgroup tell the same since then, live and at the end."""
    program = compile_planter(tmp_path)
    with (
        cgroup(f"pinproof-late-{os.getpid()}") as path,
        Planter(program, "stay", ONLINE[0], ONLINE[0], 1, 10**11) as run,
        Observer(ClaimSet(claims=())) as observer,
    ):
        join(path, run.process.pid)
        observer.open_window()
        run.go()
        clock = ~run.process.pid << 3 | 2
        wait_for(lambda: time.clock_gettime_ns(clock) > 200_000_000, "the hog ran before")
        observer.add_claim(Claim(name="late", cgroup=path, cpus=CpuSet.of(ONLINE)))
        added = time.clock_gettime_ns(clock)
        wait_for(lambda: time.clock_gettime_ns(clock) > added + 400_000_000, "the hog runs on")
        live = own_level(observer.snapshot())
        observer.remove_claim("late")
        observer.add_claim(Claim(name="late", cgroup=path, cpus=CpuSet.of(ONLINE)))
        added = time.clock_gettime_ns(clock)
        wait_for(lambda: time.clock_gettime_ns(clock) > added + 400_000_000, "the hog runs on")
        end = own_level(observer.close_window())
    for row in (live, end):
        assert row.bpf_usage_ns is not None
        assert row.usage_ns is not None
        assert row.usage_ns >= 380_000_000
        assert abs(row.bpf_usage_ns - row.usage_ns) <= 0.05 * row.usage_ns + 10_000_000
