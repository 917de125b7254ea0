"""A node at work is not loaded: refused with exit code 4, and where its user insists only the other CPUs are used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.planting import cpuset_mount, legacy_cpuset
from tests.integration.probe_lab import wait_for
from tests.programs import PROJECT
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet

pytestmark = pytest.mark.integration

SCENARIO = """\
apiVersion: pinproof/v1
kind: Scenario
name: one
title: One container of a tenth of a CPU, without any cpuset of its own
shows: where it may run
kubelet: {cpuManagerPolicy: none}
pods:
  - apiVersion: v1
    kind: Pod
    metadata: {name: a}
    spec: {containers: [{name: main, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}]}
workloads:
  a/main: [{kind: spin, threads: 1}]
"""


@pytest.fixture
def owned() -> Iterator[int]:
    """The CPU that a process of the node's is pinned to, by a cgroup."""
    if cpuset_mount() is None:
        pytest.skip("cpusets are in the v2 hierarchy: the lab's guests have them")
    online = read_topology().online
    if len(online) < 2:
        pytest.skip("one CPU: nothing would be left")
    cpu = max(online)
    with legacy_cpuset(f"guarded-{os.getpid()}", cpu) as procs:
        work = subprocess.Popen(["sleep", "600"])
        Path(procs).write_text(str(work.pid))
        try:
            yield cpu
        finally:
            work.kill()
            work.wait()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A program of its own: what the test process started itself would count as its own."""
    command = [sys.executable, "-m", "toolkit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("verb", [("conformance",), ("run", "one.yaml"), ("inject", "cpuset-write")], ids=str)
def test_a_node_at_work_is_refused(
    owned: int, verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line that says what was found; nothing was started or written."""
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.chdir(tmp_path)
    Path("one.yaml").write_text(SCENARIO)
    refused = run(*verb)

    assert refused.returncode == 4
    (line,) = refused.stderr.splitlines()
    assert f"guarded-{os.getpid()} are pinned to CPUs {owned}" in line
    assert "--on-live-node" in line
    assert [path.name for path in tmp_path.iterdir()] == ["one.yaml"]


def test_a_user_who_insists_gets_the_cpus_without_owner(owned: int, tmp_path: Path) -> None:
    """Its tasks run on the others, although the container was promised no set."""
    scenario, runs = tmp_path / "one.yaml", tmp_path / "runs"
    scenario.write_text(SCENARIO)
    done = run("run", scenario, "--on-live-node", "--duration", 1, "--output", runs)

    (evidence,) = runs.glob("*/evidence.json")
    use = [row for row in json.loads(evidence.read_text())["cpu_use"] if row["claim"] == "a/main" and row["run_ns"]]
    assert {row["cpu"] for row in use} == set(read_topology().online) - {owned}, done.stdout + done.stderr


KUBELET = "import time; open('/proc/self/comm', 'w').write('kubelet'); time.sleep(600)"


@pytest.fixture
def promised(tmp_path: Path) -> Iterator[int]:
    """The CPU that a kubelet's state file gives to a container; the kubelet is a process of that name."""
    online = read_topology().online
    if len(online) < 2:
        pytest.skip("one CPU: nothing would be left")
    cpu = max(online)
    entries = {"u-1": {"main": CpuSet.of([cpu])}}
    state = CpuState(policy_name="static", default=online - CpuSet.of([cpu]), entries=entries)
    (tmp_path / "kubelet").mkdir()
    (tmp_path / "kubelet" / "cpu_manager_state").write_text(write_cpu_checkpoint(state, pod_level=False))
    command = [sys.executable, "-c", KUBELET, f"--root-dir={tmp_path / 'kubelet'}"]
    work = subprocess.Popen(command)
    try:
        comm = Path(f"/proc/{work.pid}/comm")
        wait_for(lambda: comm.read_text() == "kubelet\n", "the kubelet has its name", 10.0)
        yield cpu
    finally:
        work.kill()
        work.wait()


def test_a_kubelets_node_is_work_before_any_pod_runs(promised: int, tmp_path: Path) -> None:
    """Refused in one line; a user who insists loads what its state file gives to no container."""
    scenario, runs = tmp_path / "one.yaml", tmp_path / "runs"
    scenario.write_text(SCENARIO)
    refused = run("run", scenario, "--output", runs)
    done = run("run", scenario, "--on-live-node", "--duration", 1, "--output", runs)

    assert refused.returncode == 4
    (line,) = refused.stderr.splitlines()
    assert "this node is at work: a kubelet runs" in line
    (evidence,) = runs.glob("*/evidence.json")
    use = [row for row in json.loads(evidence.read_text())["cpu_use"] if row["claim"] == "a/main" and row["run_ns"]]
    assert promised not in {row["cpu"] for row in use}, done.stdout + done.stderr
    assert use
