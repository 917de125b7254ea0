"""``watch`` names what wrote a control file that drifts: another process, by pid and name, with the value."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.integration.apply_support import container, online, request
from tests.integration.containerd_node import containerd, need_containerd
from tests.integration.cri_node import Node, alone
from tests.integration.live_node import Kubelet, Watch, watching
from tests.integration.probe_lab import wait_for
from toolkit.allocation.checkpoint.memory import write_memory_checkpoint
from toolkit.allocation.memory.state import MemoryState
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import WorkloadKind

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a cpuset that changes needs two CPUs"),
]

DRIFTER = """
import os, sys
open("/proc/self/comm", "w").write("drifter")
os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())
"""
SAVER = """
import os, sys
open("/proc/self/comm", "w").write(sys.argv[1])
os.rename(sys.argv[2], sys.argv[3])
os._exit(0)
"""
NOT_SEEN = "what writes control files is not observed"
WINDOW_S = 1.5


def drift(file: Path, value: str) -> int:
    """Let another process write the file; return its pid."""
    with subprocess.Popen([sys.executable, "-c", DRIFTER, str(file), value]) as writer:
        assert writer.wait() == 0
    return writer.pid


@pytest.fixture
def place() -> Iterator[str]:
    """A container with a cpuset of one CPU."""
    one = container("main", WorkloadKind.PULSE, cpus=CpuSet.of([min(online())]))
    with sandbox(request(one), run_id=f"writer-{os.getpid()}") as live:
        yield live.value.containers[0].cgroup


def results(runs: Path) -> list[dict[str, Any]]:
    """Return what was saved of the windows that have ended."""
    return [json.loads(path.read_text()) for path in sorted(runs.glob("*/window-*/result.json"))]


def need_witness(windows: list[dict[str, Any]]) -> None:
    """Skip where a window says that this kernel takes no program that sees what writes."""
    spots = [spot for one in windows for spot in one["coverage"]["blind_spots"]]
    if any(NOT_SEEN in spot for spot in spots):
        pytest.skip(str(spots))


def applied(result: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict about the control files."""
    (found,) = [one for one in result["verdicts"] if one["rule"] == "applied"]
    return dict(found)


def watch(place: str, folder: Path) -> subprocess.Popen[bytes]:
    """Begin to watch the container."""
    file = folder / "claims.yaml"
    file.write_text(
        "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
        f"  - {{name: be/main, cgroup: {place}, cpus: '{min(online())}', isolation: host}}\n"
    )
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", file, "--trace-syscalls", "--json"]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        return subprocess.Popen(
            [*command, "--window", str(WINDOW_S), "--output", folder / "runs"], stdout=out, stderr=err
        )


def test_watch_names_the_writer(place: str, tmp_path: Path) -> None:
    """In the window of the write with its time, in the next as what was before it; `judge` of it says the same."""
    file = cgroupfs.detect().controller_dir("cpuset") / place[1:] / "cpuset.cpus"
    wide = f"{min(online())}-{min(online()) + 1}"
    process = watch(place, tmp_path)
    try:

        def ended(count: int) -> bool:
            assert process.poll() is None, (tmp_path / "err").read_text()
            return len(results(tmp_path / "runs")) >= count

        wait_for(lambda: ended(1), "a window", 60)
        need_witness(results(tmp_path / "runs"))
        began = datetime.now(UTC)
        pid = drift(file, wide)
        ended_at = datetime.now(UTC)
        before = len(results(tmp_path / "runs"))
        wait_for(lambda: ended(before + 2), "two more windows", 60)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    windows = results(tmp_path / "runs")
    failed = [applied(one) for one in windows if applied(one)["outcome"] == "failed"]
    assert process.returncode == 1
    assert applied(windows[0])["outcome"] == "passed"
    said = re.search(
        rf"; cpuset.cpus of be/main was written by drifter \(pid {pid}\) at (\d\d:\d\d:\d\d\.\d{{3}}) UTC: '{wide}'$",
        failed[0]["reason"],
    )
    assert said is not None, failed[0]["reason"]
    # The wall clock of the writer's whole life, as the writer's parent read it; a millisecond is cut, not rounded.
    assert began - timedelta(milliseconds=1) <= on_day_of(began, said[1]) <= ended_at
    measures = failed[0]["measures"]
    assert (measures["writer_pid"], measures["writer_comm"], measures["written_value"]) == (pid, "drifter", wide)
    assert re.search(
        rf" was written by drifter \(pid {pid}\) at {said[1]} UTC, \d+\.\d s before the window: '{wide}'$",
        failed[1]["reason"],
    )
    assert f"by drifter (pid {pid}) at {said[1]} UTC: '{wide}'" in (tmp_path / "err").read_text()

    (folder,) = [
        one.parent
        for one in (tmp_path / "runs").glob("*/window-*/result.json")
        if f"by drifter (pid {pid}) at {said[1]} UTC: " in one.read_text()
    ]
    again = subprocess.run(
        [sys.executable, "-m", "toolkit", "judge", folder, "--json"], capture_output=True, check=False, timeout=60
    )
    assert again.returncode == 1
    assert applied(json.loads(again.stdout)) == failed[0]


def on_day_of(near: datetime, clock: str) -> datetime:
    """Return the moment that a clock showed, of the days around another one that which is nearest to it."""
    days = [(near + timedelta(days=number)).date() for number in (-1, 0, 1)]
    times = [datetime.combine(day, time.fromisoformat(clock), tzinfo=UTC) for day in days]
    return min(times, key=lambda one: abs(one - near))


def test_watch_kubelet_names_the_writer(tmp_path: Path) -> None:
    """A drift on a kubelet's node, which its kubelet does not repair: ``layers-agree`` names the writer."""
    need_containerd()
    if not {0, 1} <= set(online()):
        pytest.skip("CPUs 0 and 1 are not online")
    uid = "0a1b2c3d-0000-4000-8000-000000000021"
    with alone(), containerd(tmp_path / "n") as node:
        kubelet = Kubelet(node, tmp_path / "kubelet", online())
        kubelet.start()
        kubelet.own(uid, CpuSet.of((1,)))
        main = kubelet.run_own(node.pod(uid, "g1"), uid)
        with watching(kubelet, tmp_path / "w", 4.0, "--read-every=0.5", "--trace-syscalls") as watch:
            watch.pass_windows(1)
            need_witness(results(watch.folder / "runs"))
            pid = drift(kubelet.node.cpuset(main), "0-1")
            watch.wait_until(lambda: bool(watch.failed("layers-agree")), "the drift is reported")
            kubelet.node.cpuset(main).write_text("1")
        reason = watch.failed("layers-agree")[0][4]
    assert "1 asked for against 0-1" in reason
    assert re.search(
        rf"; cpuset.cpus of g1/main was written by drifter \(pid {pid}\) at [0-9:.]+ UTC: '0-1'", reason
    ), reason


def test_watch_names_what_changed_a_state_file(tmp_path: Path) -> None:
    """One that was renamed into its place by a process that has ended at once, and one that was written in its place.

    The kubelet's own saves before and after are not what is named, although the last one repeats what is wrong.
    """
    no_runtime = cast("Node", SimpleNamespace(socket=tmp_path / "none"))
    kubelet = Kubelet(no_runtime, tmp_path / "kubelet", online())
    kubelet.start()
    memory = kubelet.folder / "memory_manager_state"
    memory.write_text(write_memory_checkpoint("None", MemoryState(), pod_level=False))
    with watching(kubelet, tmp_path / "w", 1.0) as watch:
        watch.wait_for("armed")
        saved_by("kubelet", kubelet.state, kubelet.state.read_text())
        began = datetime.now(UTC)
        spoilt = kubelet.state.read_text().replace('"checksum":', '"checksum":1')
        mover, editor = saved_by("mover", kubelet.state, spoilt), drift(memory, "[")
        ended_at = datetime.now(UTC) + timedelta(milliseconds=20)
        watch.wait_until(lambda: len(why_failed(watch)) == 2, "both files are reported")
        saved_by("kubelet", kubelet.state, spoilt)
        watch.pass_windows(1)
    reasons = why_failed(watch)
    for file, did in (
        ("cpu_manager_state", f"replaced by mover (pid {mover})"),
        ("memory_manager_state", f"written by drifter (pid {editor})"),
    ):
        assert f"; {file} was {did} at " in reasons[file][0], reasons
        said = re.search(r" at (\d\d:\d\d:\d\d\.\d{3}) UTC", reasons[file][0])
        assert said is not None
        assert began - timedelta(milliseconds=1) <= on_day_of(began, said[1]) <= ended_at
        assert f"; {file} was {did} at {said[1]} UTC, " in reasons[file][-1], reasons


def why_failed(watch: Watch) -> dict[str, list[str]]:
    """Return the reasons of ``checkpoint`` by state file, in order of time."""
    found: dict[str, list[str]] = {}
    for row in watch.failed("checkpoint"):
        found.setdefault(row[2], []).append(row[4])
    return found


def saved_by(comm: str, file: Path, text: str) -> int:
    """Let a process of this name save a file as a kubelet does, and end; return its number.

    A reading may meet it before it has ended: what is called kubelet says which configuration it has.
    """
    (new := file.parent / f".{file.name}").write_text(text)
    told = f"--config={file.parent / 'config.yaml'}"
    with subprocess.Popen([sys.executable, "-c", SAVER, comm, new, file, told]) as saver:
        assert saver.wait() == 0
    return saver.pid
