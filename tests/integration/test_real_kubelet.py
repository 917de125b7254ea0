"""A real kubelet with pods at work: its promises are read as it makes them, no healthy window alarms, drift is named.

The kubelet is not part of the machine's packages: ``make kubelet`` builds one, ``PINPROOF_KUBELET`` names another.
Guests of the lab run these tests, too, with several NUMA nodes and cgroup v2 (``tests/lab/test_lab_real_kubelet.py``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cri_node import Runtime
from tests.integration.cri_runtimes import RUNTIMES
from tests.integration.live_node import Watch, watching
from tests.integration.real_kubelet import RealKubelet, container, drifts, need_node, real_kubelet, version
from tests.pace import PACE
from toolkit.model.cpuset import CpuSet

pytestmark = [pytest.mark.integration, pytest.mark.slow]
WINDOW_S = 4.0 * PACE
ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text().strip())
NODES = {
    int(path.parent.name.removeprefix("node")): CpuSet.parse(path.read_text().strip())
    for path in Path("/sys/devices/system/node").glob("node[0-9]*/cpulist")
}
MEMORY_SINCE = (1, 22)
"""The first version whose Memory Manager needs no gate."""
OWN_CPUS = 2 if len(ONLINE) >= 4 else 1
OWN = {"cpu": str(OWN_CPUS), "memory": "64Mi"}


@pytest.fixture(scope="module", params=RUNTIMES, ids=str)
def kubelet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubelet]:
    runtime: Runtime = request.param
    need_node(runtime)
    folder = tmp_path_factory.mktemp("k")
    # Where there is one node, too: it is the policy under which the kubelet promises something about nodes.
    settings: dict[str, object] = {"topologyManagerPolicy": "single-numa-node"}
    if version() >= MEMORY_SINCE:
        reserved = {"numaNode": 0, "limits": {"memory": "100Mi"}}  # systemReserved and the hard eviction threshold
        settings |= {"memoryManagerPolicy": "Static", "reservedMemory": [reserved]}
        settings |= {"systemReserved": {"cpu": "500m", "memory": "99Mi"}}
    with runtime.start(folder / "n") as node, real_kubelet(node, folder / "kubelet", **settings) as kubelet:
        kubelet.add("web", container("app", True, requests={"cpu": "200m"}, limits={"cpu": "500m", "memory": "64Mi"}))
        kubelet.add("batch", container("job"))
        yield kubelet


def _pinproof(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolkit", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120 * PACE)


def _claims(*words: str) -> dict[str, dict[str, Any]]:
    done = _pinproof("claims", *words, "--json")
    assert done.returncode == 0, done.stderr
    return {claim["name"]: claim for claim in json.loads(done.stdout)["claims"]}


def _of(claims: dict[str, dict[str, Any]], pod: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in claims.values() if one["pod"].startswith(f"{pod}-") and one["container"] == name]
    return found


def test_claims_are_what_the_kubelet_promises(kubelet: RealKubelet, tmp_path: Path) -> None:
    """The pods' own requests say it, and the kubelet's version: it keeps the quota of a container with CPUs of its own.

    Where the kubelet's files and the runtime's socket are is not told: the running kubelet's command line says it.
    """
    kubelet.add("db", container("main", limits=OWN))
    try:
        own, pool = _assigned(kubelet)
        # The kubelet takes CPUs from the pool's containers later, at a reconcile: not between two readings.
        shared = [kubelet.node.cpuset(kubelet.running(pod)[name]) for pod, name in (("web", "app"), ("batch", "job"))]
        kubelet.wait_until(lambda: {CpuSet.parse(file.read_text().strip()) for file in shared} == {pool}, "the pool")
        claims = _claims("--kubelet")
        bundle = tmp_path / "node.tar.gz"
        assert _pinproof("capture", str(bundle)).returncode == 0
        captured = _claims("--capture", str(bundle))
        refused = _pinproof("conformance")
    finally:
        kubelet.remove("db")
    db, web, batch = _of(claims, "db", "main"), _of(claims, "web", "app"), _of(claims, "batch", "job")
    said = (str(own), "container", _own_quota_us(), 1024 * OWN_CPUS)
    assert (db["cpus"], db["isolation"], db["quota_us"], db["shares"]) == said
    assert "numa" in db["alignments"]
    assert db["mems"] == (str(_node_of(own)) if version() >= MEMORY_SINCE else None)
    assert (web["cpus"], web["isolation"], web["quota_us"], web["shares"]) == (str(pool), "host", 50000, 204)
    assert (batch["cpus"], batch["isolation"], batch["quota_us"], batch["shares"]) == (str(pool), "host", -1, 2)
    assert _without_threads(captured) == _without_threads(claims)
    assert refused.returncode == 4
    assert "kubelet" in refused.stderr


def _without_threads(claims: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Leave out what changes between two readings: a probe's process is there for a moment each second."""
    passing = ("live_threads", "thread_masks")
    return {name: {k: v for k, v in claim.items() if k not in passing} for name, claim in claims.items()}


def _assigned(kubelet: RealKubelet) -> tuple[CpuSet, CpuSet]:
    """Return db's CPUs and the pool by the kubelet's own state file; they are what was asked for, on one node."""
    state = kubelet.state()
    ((cpus,),) = [list(containers.values()) for containers in state["entries"].values()]
    own, pool = CpuSet.parse(cpus), CpuSet.parse(state["defaultCpuSet"])
    assert len(own) == OWN_CPUS
    assert own == ONLINE - pool
    assert _node_of(own) in NODES
    return own, pool


def _names_memory(watch: Watch, node: str) -> bool:
    """Whether it says that ``late``, which has the memory of another node by the kubelet's word, may use this one."""
    rows = [row for row in watch.failed("mems-containment") if row[2].startswith("late-")]
    return any(f" {node}" in row[4] for row in rows)


def _node_of(cpus: CpuSet) -> int:
    """Return the node that has all of them."""
    (node,) = [number for number, own in NODES.items() if not cpus - own]
    return node


def _own_quota_us() -> int:
    """Return what a container with CPUs of its own has: none since v1.33 (DisableCPUQuotaWithExclusiveCPUs)."""
    return -1 if version() >= (1, 33) else 100_000 * OWN_CPUS


def test_a_healthy_node_raises_no_alarm_and_a_drift_is_named(kubelet: RealKubelet, tmp_path: Path) -> None:
    """Pods come and go, a container restarts, the kubelet restarts: nothing fails until a cpuset is written by hand.

    It is the CPUs of one, and where there are several nodes the memory nodes of another.
    """
    with watching(kubelet, tmp_path / "w", WINDOW_S) as watch:
        kubelet.add("db", container("main", limits=OWN))
        watch.pass_windows(2)
        first = kubelet.running("db")
        kubelet.node.stop_container(first["main"])
        kubelet.wait_until(lambda: kubelet.running("db") not in ({}, first), "another life of db")
        watch.pass_windows(1)
        kubelet.stop()
        kubelet.start()
        kubelet.remove("db")
        watch.pass_windows(2)
        kubelet.add("late", container("main", limits=OWN))
        watch.pass_windows(2)
        healthy = len(watch.windows())
        file = kubelet.node.cpuset(kubelet.running("web")["app"])
        right = file.read_text()
        watch.wait_until(partial(drifts, file, str(ONLINE), watch, healthy), "the drift is reported")
        file.write_text(right)
        if len(NODES) > 1 and version() >= MEMORY_SINCE:
            mems = kubelet.node.cpuset(kubelet.running("late")["main"]).with_name("cpuset.mems")
            other = next(str(node) for node in NODES if str(node) != mems.read_text().strip())
            mems.write_text(other)
            watch.wait_until(lambda: _names_memory(watch, other), "the drift of memory nodes is reported")
    assert [row for row in watch.failed() if row[0] <= healthy] == []
    undecided = {row["window"] for row in watch.verdicts() if row["outcome"] == "undecided"}
    why = sorted({f"{row['rule']}: {row['reason']}" for row in watch.verdicts() if row["outcome"] == "undecided"})
    # An emulated machine lets the watch itself wait for seconds: that says nothing about the watch.
    assert len(undecided) <= 1 or PACE > 1, why
