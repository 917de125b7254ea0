"""SIGKILL of the toolkit at random instants: after the clean-up nothing of the run is left.

``PINPROOF_SOAK=1`` makes them fifty; ``PINPROOF_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apply_support import container, online, processes, request, traces, wait_until
from tests.seeds import SEED, SOAK
from toolkit.apply import kill, runs
from toolkit.apply.cgroupfs_runtime import CgroupfsRuntime
from toolkit.apply.oci_runtime import OciRuntime
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs, procfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import SandboxRequest, WorkloadKind

pytestmark = pytest.mark.integration
LAST = CpuSet.of([max(online())])
SHOTS = 50 if SOAK else 20
BUDGET_S = 120.0


def _busy_life(run_id: str, runtime: str) -> None:
    """Do everything that a sandbox can do, once."""
    first = container("a", WorkloadKind.FORK_STORM, cpus=LAST, quota_us=80_000)
    with sandbox(request(first), run_id=run_id, runtime=runtime) as live:
        live.create(container("b", cpus=LAST, memory_max_bytes=1 << 28))
        live.set_cpus("b", online())
        live.set_bandwidth("a", 50_000)
        live.remove("b")


def _in_child(run_id: str, runtime: str) -> int:
    """Start the life in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _busy_life(run_id, runtime)
            code = 0
        finally:
            os._exit(code)
    return child


def test_kill_at_random_instants() -> None:
    """Killed anywhere in its life, with either runtime, a run is undone to the last cgroup, process and mount."""
    choose = random.Random(SEED)
    lengths: dict[str, float] = {}
    for runtime in ("cgroupfs", "runc"):
        began = time.monotonic()
        child = _in_child(f"k-{runtime}", runtime)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lengths[runtime] = time.monotonic() - began
        assert traces(f"k-{runtime}") == []
    began = time.monotonic()
    for number in range(SHOTS):
        # runc's life is longer: it gets a fifth of the shots, so that all fit in the time.
        runtime = "runc" if number % 5 == 0 else "cgroupfs"
        run_id = f"k-{number}"
        instant = choose.uniform(0, lengths[runtime])
        child = _in_child(run_id, runtime)
        descriptor = os.pidfd_open(child)
        end = time.monotonic() + instant
        while time.monotonic() < end:
            time.sleep(min(0.001, max(0.0, end - time.monotonic())))
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
        os.waitpid(child, 0)
        report = runs.cleanup()
        where = f"seed {SEED}, shot {number}, {runtime}, {instant:.4f} s"
        assert not [problem for problem in report.problems if run_id in problem], where
        # A task that had not joined its cgroup yet finds it gone, and ends.
        assert wait_until(lambda name=run_id: traces(name) == []), f"{where}: {traces(run_id)}"  # type: ignore[misc]
    assert [trace for number in range(SHOTS) for trace in _cgroups(f"k-{number}")] == []
    assert time.monotonic() - began < BUDGET_S


def _cgroups(run_id: str) -> Iterator[str]:
    hierarchy = cgroupfs.detect()
    for mount in {path for _, path in hierarchy.legacy} | ({hierarchy.unified} if hierarchy.unified else set()):
        yield from (str(path) for path in mount.glob(f"pinproof-{run_id}*"))


def test_the_next_run_cleans_up_too() -> None:
    """A new sandbox first undoes the run that died, and says so."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        with sandbox(request(container("a", WorkloadKind.SPIN)), run_id="k-dead"):
            os.write(told, b"1")
            signal.pause()
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(told)
    assert traces("k-dead") != []
    with sandbox(SandboxRequest(), run_id="k-next") as live:
        assert "k-dead" in live.cleaned.removed
        assert traces("k-dead") == []


def test_a_storm_that_is_only_in_v1_dies_too() -> None:
    """Without cgroup.kill the tasks are read and killed until none is left."""
    hierarchy = cgroupfs.detect()
    if hierarchy.is_v2("cpu"):
        pytest.skip("this host has no cgroup v1 cpu hierarchy")
    top = hierarchy.controller_dir("cpu") / "pinproof-k-v1"
    top.mkdir()
    child = os.fork()
    if child == 0:
        (top / "cgroup.procs").write_text("0")
        bomb = "import os,time\nend=time.monotonic()+60\nwhile time.monotonic()<end:\n  if os.fork(): os._exit(0)\n"
        os.execv("/usr/bin/python3", ["python3", "-ISc", bomb])
    os.waitpid(child, 0)
    assert wait_until(lambda: (top / "cgroup.procs").read_text() != "")
    kill.remove([top])
    assert not top.exists()


@pytest.mark.parametrize("runtime", ["cgroupfs", "runc"])
def test_all_containers_are_killed_before_one_is_waited_for(monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    """One of the lowest weight would die after the others have ended: they have the CPU time that it needs."""
    kind = CgroupfsRuntime if runtime == "cgroupfs" else OciRuntime
    stop, left = kind.stop, []

    def last(self: CgroupfsRuntime | OciRuntime, *args: Any) -> None:
        wait_until(lambda: processes("k-all") == [])
        left.append(processes("k-all"))
        stop(self, *args)

    monkeypatch.setattr(kind, "stop", last)
    spins = WorkloadKind.SPIN
    with sandbox(request(container("a", spins), container("b", spins)), run_id="k-all", runtime=runtime):
        assert processes("k-all") != []
    assert left == [[], []]


def test_masks_kept_by_a_dead_run_are_put_back() -> None:
    """A run that died between changing controllers and restoring affinities: clean-up restores them (K11)."""
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        everywhere = os.sched_getaffinity(child)
        os.sched_setaffinity(child, {max(everywhere)})
        directory = Path("/run/pinproof/k-masks")
        directory.mkdir(parents=True, mode=0o700)
        Path("/run/pinproof").chmod(0o700)
        rows = [[child, procfs.start_time(child), ",".join(map(str, sorted(everywhere)))], [child, 1, "0"]]
        (directory / "affinities.json").write_text(str(rows).replace("'", '"'))
        record = '{"what": "run", "run_id": "k-masks", "boot_id": "old"}\n{"what": "masks-kept"}\n'
        (directory / "journal.jsonl").write_text(record)
        assert "k-masks" in runs.cleanup().removed
        assert os.sched_getaffinity(child) == everywhere
        assert traces("k-masks") == []
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
