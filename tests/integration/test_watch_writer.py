"""``watch`` names who wrote a control file that drifts: another process, by pid and name, with the value."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apply_support import container, online, request
from tests.integration.containerd_node import containerd, need_containerd
from tests.integration.cri_node import alone
from tests.integration.live_node import Kubelet, watching
from tests.integration.probe_lab import wait_for
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
NOT_SEEN = "who writes control files is not observed"
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
    """Skip where a window says that this kernel takes no program that sees who writes."""
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
        pid = drift(file, wide)
        before = len(results(tmp_path / "runs"))
        wait_for(lambda: ended(before + 2), "two more windows", 60)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    windows = results(tmp_path / "runs")
    failed = [applied(one) for one in windows if applied(one)["outcome"] == "failed"]
    assert process.returncode == 1
    assert applied(windows[0])["outcome"] == "passed"
    said = re.search(r"; cpuset.cpus of be/main was written at (\d+\.\d+) s by (.*)$", failed[0]["reason"])
    assert said is not None, failed[0]["reason"]
    assert 0 <= float(said[1]) <= 5  # a window is longer where judging the one before takes its time
    assert said[2] == f"drifter[{pid}]: '{wide}'"
    measures = failed[0]["measures"]
    assert (measures["writer_pid"], measures["writer_comm"], measures["written_value"]) == (pid, "drifter", wide)
    assert re.search(
        rf"; cpuset.cpus of be/main was written \d+\.\d s before the window by drifter\[{pid}\]: '{wide}'$",
        failed[1]["reason"],
    )
    assert f"drifter[{pid}]: '{wide}'" in (tmp_path / "err").read_text()

    (folder,) = [one.parent for one in (tmp_path / "runs").glob("*/window-*/result.json") if pid_in(one, pid, " at ")]
    again = subprocess.run(
        [sys.executable, "-m", "toolkit", "judge", folder, "--json"], capture_output=True, check=False, timeout=60
    )
    assert again.returncode == 1
    assert applied(json.loads(again.stdout)) == failed[0]


def pid_in(path: Path, pid: int, word: str) -> bool:
    """Say whether a window's result names the writer, with this word."""
    return f"was written{word}" in path.read_text() and f"drifter[{pid}]" in path.read_text()


def test_watch_kubelet_names_the_writer(tmp_path: Path) -> None:
    """A drift on a kubelet's node, which its kubelet does not repair: ``layers-agree`` names who wrote."""
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
    assert re.search(rf"; cpuset.cpus of g1/main was written at \d+\.\d+ s by drifter\[{pid}\]: '0-1'", reason), reason
