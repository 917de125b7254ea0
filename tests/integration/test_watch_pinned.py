"""``pinproof watch --kubelet`` where the kubelet has policy ``none`` and an NRI policy pins: its word, real cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cri_node import alone, removed_again
from tests.integration.cri_runtimes import RUNTIMES, need
from tests.integration.live_node import Kubelet, watching
from tests.unit.toolkit.sources.pinners import cache, cached
from toolkit import presence
from toolkit.sources.nri import PLACE

pytestmark = [pytest.mark.integration, pytest.mark.beside]

UID = "0a1b2c3d-0000-4000-8000-000000000021"


def test_a_policy_that_pins_and_a_cgroup_that_leaves_its_word(tmp_path: Path) -> None:
    """Healthy: the balloon's CPU, in the cache first and then in the cgroup. Then something else writes the cgroup."""
    runtime, file = RUNTIMES[0], Path(PLACE)
    online = need(runtime)
    if presence.exists(file.parent):
        pytest.skip(f"{file.parent} exists: a policy of this machine's own runs, or ran")
    with alone(), removed_again(file.parent), runtime.start(tmp_path / "n") as node:
        kubelet = Kubelet(node, tmp_path / "kubelet", online)
        kubelet.start()
        kubelet.state.write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
        text = (kubelet.folder / "config.yaml").read_text()
        (kubelet.folder / "config.yaml").write_text(text.replace("static", "none"))
        container = node.container(node.pod(UID, "db", "/burstable"), "main", cpu_period=100000, cpu_shares=102)
        file.parent.mkdir()
        file.write_bytes(cache({container: cached("1", shares=102)}))
        node.cpuset(container).write_text("1")
        with watching(kubelet, tmp_path / "w", 3.0, "--read-every=0.5") as watch:
            watch.pass_windows(2)
            agreed = [row for row in watch.verdicts() if (row["rule"], row["subject"]) == ("layers-agree", "db/main")]
            assert watch.failed() == [], "a healthy node"
            assert "plugin, cgroup" in agreed[-1]["reason"]
            healthy = len(watch.windows())
            node.cpuset(container).write_text("0-1")
            watch.wait_until(lambda: bool(watch.failed("layers-agree")), "the drift is reported")
    window, _, subject, _, reason = watch.failed("layers-agree")[0]
    assert (window > healthy, subject) == (True, "db/main")
    assert "NRI balloons and cgroup differ" in reason
    assert "CPUs 1, said for " in reason
