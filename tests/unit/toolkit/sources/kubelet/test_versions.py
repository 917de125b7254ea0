"""Which kubelet runs where nothing says it: what it has written shows how old it is at least, the rest is undecided."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.sources.kubelet.followed_node import API, OWNER, Node, allocates, claim, made_node
from tests.unit.toolkit.sources.kubelet.metrics_server import metrics_server
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from tests.unit.toolkit.sources.socket_server import POD_RESOURCES, field, served, status
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.releases import OWNERS_WITHOUT_QUOTA, POD_BUDGETS
from toolkit.model.layers import ApiCpus, Layer
from toolkit.model.node_reading import MissingPart, NodeReading
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.kubelet.promises.pod import Versions
from toolkit.sources.kubelet.reading import read_live
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places

UID = "u-api-node1"
UNSEEN = NodeReading(missing=(MissingPart(part="version", reason="not seen"),))
LIMITED = {"limits": {"cpu": "250m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}
BURSTS = {"limits": {"memory": "32Mi"}, "requests": {"cpu": "50m"}}


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, whose kubelet's process is not seen, as from inside a pod."""
    with made_node() as made:
        shutil.rmtree(made.root / "proc/42")
        made.configure("staticPodPath: /etc/manifests\n")
        write(made.root, f"{KUBEPODS}/podu-api-node1/cpuset.cpus", "\n")
        yield made


def pod(node: Node, *, init: bool = False, **more: object) -> None:
    """Write the manifest of ``api-node1``, and run its container."""
    first = {"initContainers": [{"name": "setup", "resources": BURSTS}]} if init else {}
    spec = {**first, "containers": [{"name": "app", "resources": LIMITED}], **more}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api", "uid": UID}, "spec": spec}
    write(node.root, "etc/manifests/api.yaml", json.dumps(document))
    node.runs(API, "api-node1", "app", "0-1")


def of_version(node: Node, version: str) -> None:
    """Let the kubelet's metrics say its version."""
    write(node.root, "metrics.txt", f'kubernetes_build_info{{git_version="{version}"}} 1\n')
    places = Places(root=node.root, cri=f"unix://{node.root}/c.sock", metrics=str(node.root / "metrics.txt"))
    node.source = KubeletSource(places)


def test_a_kubelet_that_is_not_seen_is_of_no_known_version(node: Node) -> None:
    """It may be one that leaves owners their quota; it is said, and once the version is known no more."""
    pod(node)
    reading = node.read()
    (said,) = [row.reason for row in reading.missing if row.part == "version"]
    assert said.startswith("the version of a kubelet whose process is not seen could not be asked for")
    of_version(node, "v1.36.2")
    readings = [node.read() for _ in range(2)]
    assert not [row for one in readings for row in one.missing if row.part == "version"]


BUILT = 'kubernetes_build_info{git_version="v1.30.4"} 1\n'
"""What the metrics of a kubelet say of it."""


def version_missing(found: NodeReading | SourceReading) -> list[str]:
    return [row.reason for row in found.missing if row.part == "version" and "could not be asked" in row.reason]


def test_what_can_be_asked_for_the_version_is_asked() -> None:
    """A kubelet in a container: its program is not this mount namespace's, its read-only port answers. Once."""
    with made_node() as made, metrics_server(BUILT) as server:
        made.configure(f"readOnlyPort: {server.server_address[1]}\n")
        (made.root / "proc/42/ns").mkdir(exist_ok=True)
        (made.root / "proc/42/ns/net").symlink_to("/proc/self/ns/net")
        readings = [made.read() for _ in range(3)]
        assert server.asked == 1
    assert not any(map(version_missing, readings))
    assert readings[-1].claims.claims  # it is a node that is read as ever


def test_the_version_may_be_told(node: Node) -> None:
    """Where nothing answers: the text that says so names both ways; what is no version is refused."""
    pod(node)
    places = Places(root=node.root, cri=f"unix://{node.root}/c.sock")
    (said,) = version_missing(read_live(places))
    assert "--kubelet-version VERSION, or --kubelet-metrics URL" in said

    told = read_live(replace(places, version="v1.30.4"))
    assert (told.kubelet_version, version_missing(told)) == ("v1.30.4", [])
    ended = pinproof("claims", "--kubelet", "--root", node.root, "--kubelet-version", "new")
    assert (ended.exit_code, "--kubelet-version" in ended.stderr) == (2, True)


def test_another_mount_namespace_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is why its program cannot be run: what to do is no guess."""
    monkeypatch.setattr("toolkit.sources.kubelet.files.live.is_apart", lambda _pid, _proc: True)
    with made_node() as made:
        (said,) = version_missing(made.read())
    assert said.startswith(
        "the version of the running kubelet could not be asked for, because its program is in another mount namespace: "
    )


@pytest.mark.parametrize("allocated", [False, True])
def test_a_pod_that_the_kubelet_has_allocated_shows_that_it_writes_allocations(node: Node, *, allocated: bool) -> None:
    """Since v1.33: such a one leaves no owner its quota. A file of an older time says nothing of this pod."""
    node.runs("aa" * 32, "db", "main", "2-3")
    node._said["aa" * 32] = status("aa" * 32, f"/kubepods/podu-db/{'aa' * 32}", "2-3", quota=200_000)
    allocates(node, {"u-db" if allocated else "u-other": {"main": OWNER}})
    found = claim(node.read(), "db/main")
    assert (found.quota_us, found.kept_quota_us) == (-1, None if allocated else 200_000)


@pytest.mark.parametrize(
    ("version", "quota_us"),
    [("", None), ("v1.20.2", 25_000), ("v1.25.16", 25_000), ("v1.27.1", None), ("v1.29.0", -1), ("v1.36.2", -1)],
)
def test_an_init_container_without_a_limit(node: Node, version: str, quota_us: int | None) -> None:
    """Up to v1.25 its pod is limited all the same, from v1.29 on it is not; shares are the same in all of them."""
    pod(node, init=True)
    if version:
        of_version(node, version)
    found = claim(node.read(), "api-node1/(pod)")
    assert (found.quota_us, found.shares, found.memory_bytes) == (quota_us, 102, 64 << 20)


@pytest.mark.parametrize(
    ("version", "gates", "quota_us"),
    [
        ("", "", None),
        ("", "featureGates: {PodLevelResources: true}\n", 75_000),
        ("v1.33.1", "", 25_000),
        ("v1.34.0", "", 75_000),
    ],
)
def test_a_pods_own_resources_may_be_ignored(node: Node, version: str, gates: str, quota_us: int | None) -> None:
    """By a kubelet before v1.34, unless its configuration says so."""
    node.configure(f"staticPodPath: /etc/manifests\n{gates}")
    budget = {"cpu": "750m", "memory": "64Mi"}
    pod(node, resources={"limits": budget, "requests": budget})
    if version:
        of_version(node, version)
    found = claim(node.read(), "api-node1/(pod)")
    assert (found.quota_us, found.memory_bytes) == (quota_us, 64 << 20)


def test_what_shows_how_old_a_kubelet_is_at_least() -> None:
    """Gates that an older one would refuse, and what it has allocated; a version that is said needs no such thing."""
    none, new = FeatureGates(), FeatureGates({"PodLevelResourceManagers": False})
    assert Versions(UNSEEN, none).unknown(OWNERS_WITHOUT_QUOTA, UID)
    assert not Versions(UNSEEN, new).unknown(POD_BUDGETS, UID)
    assert not Versions(NodeReading(kubelet_version="v1.20.2"), none).unknown(OWNERS_WITHOUT_QUOTA, UID)
    assert Versions(NodeReading(), none).unknown(OWNERS_WITHOUT_QUOTA, UID), "a capture that does not say it"
    shown = NodeReading(metrics='kubelet_cpu_manager_allocation_per_numa{numa_node="0"} 2\n')
    assert not Versions(shown, none).unknown(OWNERS_WITHOUT_QUOTA, UID)
    assert Versions(NodeReading(kubelet_version="nonsense"), none).unknown(OWNERS_WITHOUT_QUOTA, UID)


@pytest.mark.parametrize(
    ("version", "meant"),
    [("v1.20.2", ApiCpus.POOL), ("v1.23.0", ApiCpus.OWN), ("v1.38.1", ApiCpus.OWN), ("", ApiCpus.EITHER)],
)
def test_how_a_followed_kubelet_means_the_cpus_of_pod_resources(node: Node, version: str, meant: ApiCpus) -> None:
    """A watch asks the same table as ``judge --capture``: before v1.23 a container that owns none has the pool's."""
    if version:
        of_version(node, version)
    row = field(1, "web") + field(2, "default") + field(3, field(1, "app") + field(3, bytes([0, 1])))
    socket = node.root / "var/lib/kubelet/pod-resources/kubelet.sock"
    socket.parent.mkdir(parents=True)
    with served(socket, POD_RESOURCES, List=field(1, row)):
        views = [view for view in node.read().layers if view.layer is Layer.POD_RESOURCES]

    assert [(view.claim, str(view.cpus), view.api_cpus) for view in views] == [("web/app", "0-1", meant)]
