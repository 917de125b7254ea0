"""``pinproof watch --kubelet`` on a real runtime: pods come, restart, shrink the pool; a planted drift is named."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cri_node import Runtime, alone
from tests.integration.cri_runtimes import RUNTIMES, need
from tests.integration.live_node import Kubelet, watching
from toolkit.model.cpuset import CpuSet

pytestmark = [pytest.mark.integration, pytest.mark.beside]

G1, BE, JOB = (
    "0a1b2c3d-0000-4000-8000-000000000011",
    "0a1b2c3d-0000-4000-8000-000000000012",
    "0a1b2c3d-0000-4000-8000-000000000013",
)
WINDOW_S = 4.0
QUOTA_US = 20_000
HEALTH = "evidence-health"
ONE = CpuSet.of((1,))


@pytest.fixture(scope="module", params=RUNTIMES, ids=str)
def kubelet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    runtime: Runtime = request.param
    online = need(runtime)
    folder = tmp_path_factory.mktemp("w")
    with alone(), runtime.start(folder / "n") as node:
        yield Kubelet(node, folder / "kubelet", online)


def test_a_node_at_work_and_a_drift(kubelet: Kubelet, tmp_path: Path) -> None:
    """Healthy: a pod with its own CPU comes, the pool shrinks at the next reconcile, a container restarts. Then drift.

    Expected is what was done to the node, in the order in which a kubelet does it.
    """
    node = kubelet.node
    kubelet.start()
    kubelet.run_shared(BE, "be")
    with watching(kubelet, tmp_path / "w", WINDOW_S, "--read-every=0.5") as watch:
        kubelet.own(G1, ONE)
        sandbox = node.pod(G1, "g1")
        first = kubelet.run_own(sandbox, G1)
        watch.wait_for("g1/main began")
        kubelet.reconcile()
        watch.pass_windows(2)
        node.stop_container(first)
        second = kubelet.run_own(sandbox, G1, attempt=1)
        watch.pass_windows(2)
        assert watch.failed() == [], "a healthy node"

        def last() -> dict[str, Any]:
            return [v for v in watch.verdicts() if (v["rule"], v["subject"]) == ("layers-agree", "g1/main")][-1]

        # Not at once where others use the CPUs, and the watch itself waits for one.
        watch.wait_until(lambda: last()["outcome"] == "passed", "a window in which the layers agree")
        assert watch.failed() == [], "a healthy node"
        assert "checkpoint, cri, cgroup" in last()["reason"]

        healthy = len(watch.windows())
        kubelet.node.cpuset(second).write_text("0-1")
        watch.wait_until(lambda: bool(watch.failed("layers-agree")), "the drift is reported")
        kubelet.node.cpuset(second).write_text("1")
    found = watch.failed("layers-agree")
    assert {(subject, outcome) for _, _, subject, outcome, _ in found} == {("g1/main", "failed")}
    assert all(window > healthy for window, *_ in found)
    assert "cri and cgroup differ from" in found[0][4]
    assert "1 asked for against 0-1" in found[0][4]

    claims = json.loads((watch.windows()[-1].parent / "claims.json").read_text())
    cgroups = {row["name"]: row["cgroup"] for row in claims["claims"]}
    assert cgroups["g1/main"].endswith(node.cgroup_names(second)), "the same subject in its new cgroup"


def test_lives_that_end_leave_no_doubt_and_hide_nothing(kubelet: Kubelet, tmp_path: Path) -> None:
    """A container with a quota is killed and begins anew: both lives are judged. One that had more than its quota, and
    is killed, has failed.
    """
    kubelet.start()
    sandbox = kubelet.node.pod(JOB, "job", "/burstable")
    first = kubelet.run_limited(sandbox, QUOTA_US)
    with watching(kubelet, tmp_path / "w", WINDOW_S, "--read-every=0.5") as watch:

        def said(what: str) -> list[dict[str, Any]]:
            rows = [v for v in watch.verdicts() if (v["rule"], v["subject"]) == ("quota-throttling", "job/main")]
            return [row for row in rows if what in row["reason"]]

        lives = [first]

        def restarts() -> None:
            kubelet.node.crash(lives[-1])
            lives.append(kubelet.run_limited(sandbox, QUOTA_US, attempt=len(lives)))

        def kept() -> bool:
            restarts()
            watch.pass_windows(1)
            return bool(said("1 life before kept it"))

        watch.wait_until(kept, "a window in which a life ended and another began")
        doubts = [row["reason"] for row in watch.verdicts() if row["rule"] == HEALTH and row["outcome"] == "undecided"]
        assert not [text for text in doubts if "job/main" in text], doubts
        assert {row["outcome"] for row in said("1 life before kept it")} == {"passed"}
        assert watch.failed() == []

        def broken() -> bool:
            quota = kubelet.node.control(lives[-1], "cpu.max", "cpu.cfs_quota_us")
            quota.write_text("max" if quota.name == "cpu.max" else "-1")
            time.sleep(1.0)
            restarts()
            watch.pass_windows(1)
            return bool(said("in its life until"))

        watch.wait_until(broken, "a window in which a life ended that had too much")
    assert {row["outcome"] for row in said("in its life until")} == {"failed"}
