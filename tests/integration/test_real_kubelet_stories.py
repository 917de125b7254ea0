"""What happens to pods on every node, under a real kubelet: none of it is an alarm, however long it takes.

Each pod is given CPUs of its own. The kubelet is not part of the machine's packages: ``make kubelet`` builds one,
``PINPROOF_KUBELET`` names another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cri_node import Runtime
from tests.integration.cri_runtimes import RUNTIMES
from tests.integration.live_node import Watch, watching
from tests.integration.real_kubelet import PERIOD_S, RealKubelet, container, need_node, real_kubelet, version
from tests.pace import PACE

pytestmark = [pytest.mark.integration, pytest.mark.slow]
WINDOW_S = 4.0 * PACE
LEAK_WINDOWS = 1 + math.ceil((2 * PERIOD_S + 5) / WINDOW_S)
"""For so long an entry without an owner may stand."""
ENDS, ABSENT, STAYS = ["/sleeper", "probe"], ["/absent"], ["/sleeper", "stay"]
"""Programs: one that ends at once, one that is not there, one that SIGTERM does not end."""


@pytest.fixture(scope="module", params=RUNTIMES, ids=str)
def kubelet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubelet]:
    runtime: Runtime = request.param
    need_node(runtime)
    folder = tmp_path_factory.mktemp("k")
    with runtime.start(folder / "n") as node, real_kubelet(node, folder / "kubelet") as kubelet:
        kubelet.add("web", container("app", True, requests={"cpu": "200m"}, limits={"cpu": "500m", "memory": "64Mi"}))
        yield kubelet


def _own(name: str = "main", **more: object) -> dict[str, Any]:
    return {**container(name, limits={"cpu": "1", "memory": "64Mi"}), **more}


def _side(**more: object) -> dict[str, Any]:
    """A container whose pod is guaranteed what it asks for, none of it a whole CPU."""
    return {**container("side", limits={"cpu": "100m", "memory": "64Mi"}), **more}


def _failing(probe: str) -> dict[str, object]:
    return {probe: {"exec": {"command": ABSENT}, "periodSeconds": 1, "failureThreshold": 1}}


STORIES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "ends again and again": ([_own(command=ENDS)], {}),
    "has no image": ([_own(image="pinproof.local/absent:1")], {}),
    "has no program": ([_own(command=ABSENT)], {}),
    "begins with an init container": ([_own()], {"initContainers": [_own("init", command=ENDS)]}),
    "whose init container fails": ([_own()], {"initContainers": [_own("init", command=ABSENT)]}),
    "is never ready": ([_own(**_failing("readinessProbe"))], {}),
    "is killed by its liveness probe": ([_own(**_failing("livenessProbe"))], {}),
    "has one pid namespace": ([_own(), _side()], {"shareProcessNamespace": True}),
    "has the host's pids": ([_own()], {"hostPID": True}),
    "has a sidecar": ([_own()], {"initContainers": [_side(restartPolicy="Always")]}),
    "does not end for 15 s": ([_own(command=STAYS)], {"terminationGracePeriodSeconds": round(15 * PACE)}),
}
SINCE = {"has a sidecar": (1, 29)}
"""The first version that knows what it needs."""


@pytest.mark.parametrize("story", STORIES)
def test_what_happens_to_pods_is_no_alarm(story: str, kubelet: RealKubelet, tmp_path: Path) -> None:
    """It has its CPUs from its admission until a reconcile after its end, with or without a container that runs."""
    if version() < SINCE.get(story, (1, 0)):
        pytest.skip(f"kubelet {version()}: needs {SINCE[story]}")
    containers, spec = STORIES[story]
    # A kubelet frees the CPUs of a static pod that is taken away while it runs: for that long each window is a doubt.
    _passes(kubelet, tmp_path, containers, spec, doubts=4 if containers[0]["command"] == STAYS else 1)


def test_a_pod_waits_for_its_volume(kubelet: RealKubelet, tmp_path: Path) -> None:
    """It is admitted and has its entry; no sandbox is made before its volumes are mounted."""
    absent = {"name": "data", "hostPath": {"path": str(tmp_path / "absent"), "type": "Directory"}}
    waits = _own(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    said = _passes(kubelet, tmp_path, [waits], {"volumes": [absent]})

    assert any("1 of a pod that waits for its sandbox" in reason for reason in said), said


def test_a_static_pod_waits_for_the_end_of_the_one_before(kubelet: RealKubelet, tmp_path: Path) -> None:
    """Its manifest was edited: it is admitted at once, and the kubelet looks again after 10 s whether it can begin."""
    kubelet.add("p", _side())
    said = _passes(kubelet, tmp_path, [_own()], {})

    if version() >= (1, 22):  # Older ones run both at the same time.
        assert any("1 of a pod that waits for its sandbox" in reason for reason in said), said


def _node_restarts(kubelet: RealKubelet) -> None:
    """Each container of the node is killed at the same time, as by a power cut that leaves the kubelet's files."""
    kubelet.stop()
    for one in kubelet.node.containers():
        if one["state"] == "CONTAINER_RUNNING":
            kubelet.node.stop_container(str(one["id"]))
    kubelet.start()


def _state_is_deleted(kubelet: RealKubelet) -> None:
    kubelet.stop()
    (kubelet.folder / "cpu_manager_state").unlink()
    kubelet.start()


def _kubelet_is_away(kubelet: RealKubelet, watch: Watch) -> None:
    kubelet.stop()
    watch.pass_windows(LEAK_WINDOWS)
    kubelet.start()


def _runtime_is_away(kubelet: RealKubelet, watch: Watch) -> None:
    kubelet.node.stop()
    watch.pass_windows(LEAK_WINDOWS)
    kubelet.node.restart()


def _configuration_is_edited(kubelet: RealKubelet, watch: Watch) -> None:
    """As before a restart that is to come; then it is put back."""
    right = kubelet.config.read_text()
    kubelet.configure(cpuManagerPolicy="none", reservedSystemCPUs="0-1", systemReserved=None)
    watch.pass_windows(LEAK_WINDOWS)
    kubelet.config.write_text(right)


EVENTS: dict[str, Callable[[RealKubelet, Watch], None]] = {
    "the kubelet is away": _kubelet_is_away,
    "the runtime is away": _runtime_is_away,
    "its configuration is edited": _configuration_is_edited,
    "the state file is deleted": lambda kubelet, _: _state_is_deleted(kubelet),
    "all containers end at once": lambda kubelet, _: _node_restarts(kubelet),
}


@pytest.mark.parametrize("event", EVENTS)
def test_what_happens_to_a_node_is_no_alarm(event: str, kubelet: RealKubelet, tmp_path: Path) -> None:
    """A window in which no answer comes is undecided; none fails, and in the end all is passed again."""
    with watching(kubelet, tmp_path / "w", WINDOW_S) as watch:
        kubelet.add("p", _own())
        watch.pass_windows(1)
        EVENTS[event](kubelet, watch)
        kubelet.wait_until(lambda: "entries" in kubelet.state(), "its CPUs are assigned")
        kubelet.wait_until(lambda: bool(kubelet.running("p") and kubelet.running("web")), "the pods run")
        watch.pass_windows(LEAK_WINDOWS)
        kubelet.remove("p")
        kubelet.wait_until(lambda: "entries" not in kubelet.state(), "it has given its CPUs back")
    assert watch.failed() == []
    last = max(row["window"] for row in watch.verdicts()) - 2  # the pod goes in the last ones
    said = {row["outcome"] for row in watch.verdicts() if row["window"] == last}
    assert said <= {"passed", "skipped"} or PACE > 1, said


def _passes(
    kubelet: RealKubelet, folder: Path, containers: list[dict[str, Any]], spec: dict[str, Any], doubts: int = 1
) -> list[str]:
    """Let a pod come, be, and go, under a watch of which no window may fail; returns what ``checkpoint`` said.

    :param doubts: how many windows may be undecided.
    """
    with watching(kubelet, folder / "w", WINDOW_S) as watch:
        kubelet.give("p", *containers, **spec)
        kubelet.wait_until(lambda: "entries" in kubelet.state(), "it has its CPUs")
        watch.pass_windows(LEAK_WINDOWS)
        kubelet.take("p")
        kubelet.wait_until(lambda: "entries" not in kubelet.state(), "it has given its CPUs back")
        kubelet.wait_until(lambda: not kubelet.running("p"), "it has ended")
        watch.pass_windows(1)
    assert watch.failed() == []
    rows = [row for row in watch.verdicts() if row["subject"] == "cpu_manager_state"]
    assert {row["outcome"] for row in rows} == {"passed"}, rows
    undecided = [row for row in watch.verdicts() if row["outcome"] == "undecided"]
    why = sorted({f"{row['rule']}: {row['reason']}" for row in undecided})
    assert len({row["window"] for row in undecided}) <= doubts or PACE > 1, why
    return [str(row["reason"]) for row in rows]
