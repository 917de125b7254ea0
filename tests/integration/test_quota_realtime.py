"""Tasks that no CFS quota holds, in a cgroup that has one: judged by the promised rate, and named."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.probe_lab import accepted, wait_for
from tests.json_lines import result_in
from toolkit.apply import cgroups, kill
from toolkit.host import cgroupfs
from toolkit.model.sandbox import CgroupRequest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="real-time tasks and watching need root")
QUOTA_US, PERIOD_US = 20_000, 100_000
ABOVE, WITHIN = "/realtime-test-above", "/realtime-test-within"
LOAD = """
import sys, time
duty = float(sys.argv[1])
while True:
    begin = time.monotonic()
    while time.monotonic() - begin < 0.1 * duty:
        pass
    time.sleep(0.1 * (1 - duty))
"""


@contextlib.contextmanager
def quota_cgroup(name: str) -> Iterator[cgroupfs.Hierarchy]:
    """A cgroup with 20 ms / 100 ms, where real-time tasks may run (CONFIG_RT_GROUP_SCHED)."""
    hierarchy = cgroupfs.detect()
    mounts = [mount for mount in cgroups.member_mounts(hierarchy, memory=False) if mount.name != "cpuset"]
    places = [mount / name[1:] for mount in mounts]
    try:
        for place in places:
            place.mkdir()
        if not hierarchy.controller_dir("cpu").joinpath(name[1:], "cpu.stat").exists():
            pytest.skip("the v2 root has no cpu controller turned on")
        cgroups.set_limits(hierarchy, name, CgroupRequest(path="", quota_us=QUOTA_US, period_us=PERIOD_US))
        budget = hierarchy.controller_dir("cpu") / name[1:] / "cpu.rt_runtime_us"
        if budget.exists():
            # What a removed cgroup had is free again only when the kernel has buried it.
            wait_for(lambda: accepted(budget, "450000"), "a share of real-time")
        yield hierarchy
    finally:
        kill.remove(places)


@contextlib.contextmanager
def load(hierarchy: cgroupfs.Hierarchy, name: str, policy: str, duty: float) -> Iterator[int]:
    """A task of a policy that is busy for a part of each tenth of a second."""
    deadline = ["--sched-runtime", "45000000", "--sched-deadline", "100000000", "--sched-period", "100000000"]
    task = subprocess.Popen([sys.executable, "-c", LOAD, str(duty)])
    try:
        for mount in cgroups.member_mounts(hierarchy, memory=False):
            if (mount / name[1:]).is_dir():
                (mount / name[1:] / "cgroup.procs").write_text(str(task.pid))
        if policy != "other":
            options = [*deadline, "0"] if policy == "deadline" else ["1"]
            subprocess.run(["chrt", f"--{policy}", "-p", *options, str(task.pid)], check=True)
        wait_for(lambda: (os.sched_getscheduler(task.pid) & 0xFF != 0) is (policy != "other"), f"policy {policy}")
        yield task.pid
    finally:
        task.kill()
        task.wait()


def watched(tmp_path: Path, *names: str, seconds: float = 3.0) -> dict[str, dict[str, Any]]:
    """The verdicts of ``pinproof watch`` about the quotas, by cgroup."""
    claims = tmp_path / "claims.yaml"
    rows = (
        f"- {{name: {name[1:]}, cgroup: {name}, quota: {{quotaUs: {QUOTA_US}, periodUs: {PERIOD_US}}}}}\n"
        for name in names
    )
    claims.write_text("apiVersion: pinproof/v1\nkind: Claims\nclaims:\n" + "".join(rows))
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--duration", str(seconds), "--json"]
    done = subprocess.run([*command, "--output", str(tmp_path)], capture_output=True, text=True, check=False)
    verdicts = result_in(done.stdout)["verdicts"]
    found = {f"/{verdict['subject']}": verdict for verdict in verdicts if verdict["rule"] == "quota-throttling"}
    assert set(found) == set(names)
    return found


def edges_us() -> int:
    """Return what a quota may give beyond its rate in one window (Documentation/scheduler/sched-bwc.rst).

    A period's at either end, and on each CPU a slice in hand, a tick of overrun and a tick until it is counted; a tick
    is 10 ms at most.
    """
    slice_us = int(Path("/proc/sys/kernel/sched_cfs_bandwidth_slice_us").read_text())
    return 2 * QUOTA_US + len(os.sched_getaffinity(0)) * (slice_us + 2 * 10_000)


@pytest.mark.beside  # a real-time task has its CPU, whatever else wants one
@pytest.mark.parametrize("policy", ["fifo", "rr", "deadline"])
def test_above_the_rate_it_fails_and_within_it_passes(policy: str, tmp_path: Path) -> None:
    """20 ms / 100 ms allow about 0.2 CPUs: 35 % of a CPU fail, and the task is named with its policy.

    A tenth of a CPU breaks no promise, though the quota's timer never fired for it.
    """
    with (
        quota_cgroup(ABOVE) as hierarchy,
        quota_cgroup(WITHIN),
        load(hierarchy, ABOVE, policy, 0.35) as greedy,
        load(hierarchy, WITHIN, policy, 0.1) as modest,
    ):
        verdicts = watched(tmp_path, ABOVE, WITHIN)

    above, within = verdicts[ABOVE], verdicts[WITHIN]
    assert above["outcome"] == "failed", above
    assert 0.2 <= above["measures"]["bound_high_cpus"] <= 0.2 + edges_us() * 1000 / above["measures"]["window_ns"]
    assert f"({greedy}, {policy})" in above["reason"]
    assert "whole periods in" in above["reason"]
    assert within["outcome"] == "passed", within
    assert f"({modest}, {policy})" in within["reason"]


def test_beside_a_throttled_task_what_the_quota_gave_is_not_known(tmp_path: Path) -> None:
    """A throttled CFS task at 20 % would pass alone; with a FIFO task's time in the sum it is not known."""
    with (
        quota_cgroup(ABOVE) as hierarchy,
        load(hierarchy, ABOVE, "fifo", 0.001),
        load(hierarchy, ABOVE, "other", 1.0),
    ):
        verdict = watched(tmp_path, ABOVE, seconds=1.5)[ABOVE]

    assert verdict["outcome"] == "undecided", verdict
    assert "how much of it was drawn from the quota is not known" in verdict["reason"]
