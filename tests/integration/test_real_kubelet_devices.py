"""A real kubelet with device plugins of these tests: what it gives is claimed and judged, and what it will decide
about pods that come and go is planned before it does.

``PINPROOF_STEPS`` makes the random story another length, ``PINPROOF_SEED`` repeats one.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.containerd_node import CONTAINERD
from tests.integration.device_plugin import device_plugin
from tests.integration.real_kubelet import PLUGINS, RealKubelet, container, need_node, real_kubelet, version
from tests.pace import PACE
from tests.seeds import SEED
from toolkit.model.cpuset import CpuSet

pytestmark = [pytest.mark.integration, pytest.mark.slow]
NEAR, PLAIN, FAR = (f"pinproof.local/{name}" for name in ("near", "plain", "far"))
NODES = tuple(int(path.name.removeprefix("node")) for path in Path("/sys/devices/system/node").glob("node[0-9]*"))
OWN = {"cpu": "1", "memory": "64Mi"}
STEPS = int(os.environ.get("PINPROOF_STEPS", "12"))
MOST = 5


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubelet]:
    need_node(CONTAINERD)
    folder = tmp_path_factory.mktemp("k")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings: dict[str, object] = {"topologyManagerPolicy": "single-numa-node", "readOnlyPort": port}
    near = dict.fromkeys(("n0", "n1"), max(NODES))
    plugins = {NEAR: near, PLAIN: {"p0": None}, FAR: {"f0": max(NODES) + 1}}
    with (
        CONTAINERD.start(folder / "n") as node,
        real_kubelet(node, folder / "kubelet", **settings) as one,
        contextlib.ExitStack() as running,
    ):
        one.add("web", container("app", requests={"cpu": "100m"}))  # A kubelet that starts clears the plugins' folder.
        for resource in (NEAR, PLAIN, *([FAR] if states_where_free_devices_are() else [])):
            running.enter_context(device_plugin(resource, plugins[resource]))
            one.wait_until(partial(_registered, resource), f"devices of {resource}")
        yield one


def _registered(resource: str) -> bool:
    """Whether the kubelet's own file has devices of a plugin."""
    file = PLUGINS / "kubelet_internal_checkpoint"
    said = json.loads(file.read_text()) if file.exists() else {}
    return bool(said.get("Data", {}).get("RegisteredDevices", {}).get(resource))


def states_where_free_devices_are() -> bool:
    """Whether the kubelet answers GetAllocatableResources: without it nothing says where a device sits that is free."""
    return version() >= (1, 23)


def pinproof(*words: object) -> Any:
    """Run a verb of which the answer is JSON."""
    command = [sys.executable, "-m", "toolkit", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120 * PACE)
    assert done.returncode in (0, 1, 3), done.stderr
    return json.loads(done.stdout)


def planned(*words: object) -> dict[str, dict[str, Any]]:
    """What the kubelet will decide, by name of the pod."""
    return {pod["name"]: pod for pod in pinproof("plan", "--kubelet", *words)[0]["plan"]["pods"]}


def listed(kubelet: RealKubelet, name: str) -> dict[str, Any]:
    """What the kubelet's own list says of a static pod; empty: nothing yet."""
    settings = kubelet.config.read_text()
    port = next(line.split(":")[1].strip() for line in settings.splitlines() if line.startswith("readOnlyPort"))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/pods", timeout=30) as answer:
        pods = json.load(answer)["items"] or ()
    return next((pod for pod in pods if pod["metadata"]["name"].startswith(f"{name}-")), {})


def decided(kubelet: RealKubelet, name: str) -> tuple[bool, str, str]:
    """Wait until the kubelet has decided about a static pod: whether it runs, its CPUs, or why it does not."""

    def known() -> bool:
        return bool(kubelet.running(name)) or listed(kubelet, name).get("status", {}).get("phase") == "Failed"

    kubelet.wait_until(known, f"pod {name} is decided")
    status = listed(kubelet, name).get("status", {})
    if status.get("phase") == "Failed":
        return False, "", str(status.get("message"))
    uid = listed(kubelet, name)["metadata"]["uid"]
    return True, kubelet.state().get("entries", {}).get(uid, {}).get("main", ""), ""


def gone(kubelet: RealKubelet, name: str) -> None:
    """Take a static pod away and wait until the kubelet has forgotten it."""
    kubelet.remove(name)
    kubelet.wait_until(lambda: not listed(kubelet, name), f"pod {name} is forgotten")


def with_devices(limits: Mapping[str, str], **devices: str) -> dict[str, str]:
    """Limits, with devices of these tests' plugins."""
    return {**limits, **{f"pinproof.local/{name}": count for name, count in devices.items()}}


def test_a_device_is_claimed_and_judged(kubelet: RealKubelet, tmp_path: Path) -> None:
    """From the plugin's registration to the verdict: live claims, and a capture of the same node."""
    kubelet.add("dev", container("main", limits=with_devices(OWN, near="1", plain="1")))
    try:
        claims = pinproof("claims", "--kubelet")["claims"]
        assert pinproof("capture", tmp_path / "node.tar.gz")["files"]
        verdicts = pinproof("judge", "--capture", tmp_path / "node.tar.gz")["verdicts"]
    finally:
        gone(kubelet, "dev")
    assert ("kubelet_internal_checkpoint", "passed") in {(one["subject"], one["outcome"]) for one in verdicts}
    (claim,) = (one for one in claims if one["pod"].startswith("dev-") and one["container"] == "main")
    near, plain = sorted(claim["assigned_devices"], key=lambda one: str(one["id"]))
    old = version() < (1, 23)  # It states node 0 of a device that has none.
    assert (plain["id"], plain["numa_nodes"], plain["aligned"]) == ("p0", [0] if old else [], None)
    assert near["id"] in ("n0", "n1")
    aligned = None if old and max(NODES) == 0 else "container"
    assert (near["resource"], near["numa_nodes"], near["aligned"]) == (NEAR, [max(NODES)], aligned)
    (verdict,) = (one for one in verdicts if one["rule"] == "device-numa")
    assert (verdict["subject"], verdict["outcome"]) == (claim["name"], "passed" if aligned else "skipped")
    assert (verdict["measures"]["devices_count"], verdict["measures"]["far_devices_count"]) == (2, 0)


def test_devices_that_are_taken_are_known_before_the_kubelet_refuses(kubelet: RealKubelet) -> None:
    """``plan --kubelet`` begins with what pods have; a device far from every node of the machine fits no pod."""
    kubelet.add("dev", container("main", limits=with_devices({"cpu": "100m"}, near="1")))
    try:
        away = [("away", {"far": "1"})] if states_where_free_devices_are() else []
        for name, devices in (("two", {"near": "2"}), *away, ("one", {"near": "1"})):
            pod = container("main", requests={"cpu": "50m"}, limits=with_devices({}, **devices))
            before = planned("--pods", kubelet.written(name, pod))[name]
            kubelet.give(name, pod)
            admitted, _, message = decided(kubelet, name)
            gone(kubelet, name)
            assert (before["admitted"], before["message"] in message) == (admitted, True)
            assert admitted is (name == "one")
    finally:
        gone(kubelet, "dev")


def test_random_steps_come_true(kubelet: RealKubelet) -> None:
    """Each pod that comes or goes is planned before: whether it is admitted, its CPUs, and the pool that is left."""
    dice, there, wrong = random.Random(SEED), dict[str, str](), list[str]()
    for step in range(STEPS):
        if there and (len(there) >= MOST or dice.random() < 0.45):
            name = dice.choice(sorted(there))
            expected = str(CpuSet.parse(kubelet.state()["defaultCpuSet"]) | CpuSet.parse(there.pop(name)))
            gone(kubelet, name)
            kubelet.wait_until(lambda want=expected: kubelet.state()["defaultCpuSet"] == want, f"the pool {expected}")
            continue
        name, pod = f"s{step}", _anything(dice)
        before = planned("--pods", kubelet.written(name, pod))[name]
        kubelet.give(name, pod)
        admitted, cpus, message = decided(kubelet, name)
        said = before["admitted"], before["containers"][0].get("assigned") or "" if before["admitted"] else ""
        if said != (admitted, cpus):
            wrong.append(f"step {step}: {pod['resources']}: planned {before}, got {(admitted, cpus, message)}")
        if admitted:
            there[name] = cpus
        else:
            gone(kubelet, name)
    for name in there:
        gone(kubelet, name)
    print(f"{STEPS - len(wrong)} of {STEPS} steps came true (seed {SEED})")
    assert not wrong, "\n".join(wrong)


def _anything(dice: random.Random) -> dict[str, Any]:
    """A container that may own a CPU, ask for more than there are, and want devices."""
    limits = dice.choice([OWN, OWN, {"cpu": "2", "memory": "64Mi"}, {"cpu": "150m"}, {}])
    far = [{"far": "1"}] if states_where_free_devices_are() else []
    devices = dice.choice([{}, {}, {"near": "1"}, {"near": "2"}, {"plain": "1"}, *far])
    return container("main", limits=with_devices(limits, **devices))
