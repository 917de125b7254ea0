"""A real kubelet with pods at work: its promises are read as it makes them, no healthy window alarms, drift is named.

The kubelet is not part of the machine's packages: ``make kubelet`` builds one, ``PINPROOF_KUBELET`` names another.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.containerd_node import containerd, need_containerd
from tests.integration.live_node import Watch, watching
from tests.integration.real_kubelet import RealKubelet, binary, container, real_kubelet
from toolkit.model.cpuset import CpuSet

pytestmark = [pytest.mark.integration, pytest.mark.slow]
WINDOW_S = 4.0
OWN = {"cpu": "1", "memory": "64Mi"}


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubelet]:
    binary()
    need_containerd()
    if not {0, 1} <= set(CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text().strip())):
        pytest.skip("CPUs 0 and 1 are not online")
    folder = tmp_path_factory.mktemp("k")
    with containerd(folder / "n") as node, real_kubelet(node, folder / "kubelet") as kubelet:
        kubelet.add("web", container("app", True, requests={"cpu": "200m"}, limits={"cpu": "500m", "memory": "64Mi"}))
        kubelet.add("batch", container("job"))
        yield kubelet


def _pinproof(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolkit", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


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
        claims = _claims("--kubelet")
        bundle = tmp_path / "node.tar.gz"
        assert _pinproof("capture", str(bundle)).returncode == 0
        captured = _claims("--capture", str(bundle))
        refused = _pinproof("conformance")
    finally:
        kubelet.remove("db")
    db, web, batch = _of(claims, "db", "main"), _of(claims, "web", "app"), _of(claims, "batch", "job")
    assert (db["cpus"], db["isolation"], db["quota_us"], db["shares"]) == ("1", "container", _own_quota_us(), 1024)
    assert (web["cpus"], web["isolation"], web["quota_us"], web["shares"]) == ("0", "host", 50000, 204)
    assert (batch["cpus"], batch["isolation"], batch["quota_us"], batch["shares"]) == ("0", "host", -1, 2)
    assert captured == claims
    assert refused.returncode == 4
    assert "kubelet" in refused.stderr


def _own_quota_us() -> int:
    """Return what a container with one CPU of its own has: none since v1.33 (DisableCPUQuotaWithExclusiveCPUs)."""
    said = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout
    match = re.fullmatch(r"Kubernetes v(\d+)\.(\d+)\..*\n", said)
    assert match is not None, said
    return -1 if (int(match[1]), int(match[2])) >= (1, 33) else 100_000


def _named(watch: Watch, subject: str) -> bool:
    return any(row[2].endswith(subject) for row in watch.failed("layers-agree"))


def test_a_healthy_node_raises_no_alarm_and_a_drift_is_named(kubelet: RealKubelet, tmp_path: Path) -> None:
    """Pods come and go, a container restarts, the kubelet restarts: nothing fails until a cpuset is written by hand."""
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
        assert watch.failed() == []
        healthy = len(watch.windows())
        file = kubelet.cpuset(kubelet.running("web")["app"])
        right = file.read_text()
        file.write_text("0-1")
        watch.wait_until(partial(_named, watch, "/app"), "the drift is reported")
        file.write_text(right)
    assert all(window > healthy for window, *_ in watch.failed())
    undecided = {row["window"] for row in watch.verdicts() if row["outcome"] == "undecided"}
    why = sorted({f"{row['rule']}: {row['reason']}" for row in watch.verdicts() if row["outcome"] == "undecided"})
    assert len(undecided) <= 1, why
