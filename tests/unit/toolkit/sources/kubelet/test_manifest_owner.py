"""A manifest that was edited while its pod runs: its kubelet is stopped or slow, and has made no pod of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolkit.kubernetes.node_config import NodeConfig
from toolkit.model.claims import Claim
from toolkit.model.evidence.following import LIMITS
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.node_reading import UNIFIED, Asked, NamedText, NodeReading, RuntimeContainer
from toolkit.sources.kubelet.pods import StaticPods
from toolkit.sources.kubelet.promises.node import node_claims

CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
UID, MIB = "ab" * 16, 1 << 20
POD = f"/kubepods/burstable/pod{UID}"
ID = "cd" * 32
ASKED = Asked(quota_us=10_000, period_us=100_000, shares=102, memory_bytes=64 * MIB)


def manifest(cpu: str = "100m", memory: str = "64Mi", request: str = "100m") -> tuple[NamedText, ...]:
    """A static pod's file."""
    resources = f"{{requests: {{cpu: {request}}}, limits: {{cpu: {cpu}, memory: {memory}}}}}"
    text = f"metadata: {{name: api}}\nspec: {{containers: [{{name: app, resources: {resources}}}]}}"
    return (NamedText(name="api.yaml", text=text),)


def node(files: tuple[NamedText, ...], asked: Asked | None = ASKED) -> NodeReading:
    """A node on which the pod of ``manifest()`` runs, and these files are there."""
    one = RuntimeContainer(
        id=ID, pod_uid=UID, name="app", pod_name="api-n", state="running", cgroups_path=f"{POD}/{ID}", asked=asked
    )
    config = (NamedText(name="config.yaml", text=CONFIG),)
    tree = {
        UNIFIED: {
            path: {"cpuset.cpus": ""} for path in ("/", "/kubepods", "/kubepods/burstable", POD, one.cgroups_path)
        }
    }
    return NodeReading(config=config, static_pods=files, containers=(one,), cgroups=tree, kubelet_version="v1.30.0")


def claims(reading: NodeReading) -> dict[str, Claim]:
    return {claim.name: claim for claim in node_claims(reading).claims.claims}


def said(reading: NodeReading) -> list[str]:
    return [row.reason for row in node_claims(reading).missing if row.part == LIMITS and "manifest" in row.reason]


def test_a_manifest_that_the_runtime_was_asked_for_promises() -> None:
    """The container, and the pod's own cgroup."""
    reading = node(manifest())
    app, pod = claims(reading)["api-n/app"], claims(reading)["api-n/(pod)"]
    assert (app.quota_us, app.shares, app.memory_bytes) == (10_000, 102, 64 * MIB)
    assert (pod.quota_us, pod.memory_bytes) == (10_000, 64 * MIB)
    assert said(reading) == []


@pytest.mark.parametrize(
    ("files", "promised"),
    [
        (manifest(cpu="200m"), (None, 102, 64 * MIB)),
        (manifest(memory="32Mi"), (10_000, 102, None)),
        (manifest(cpu="200m", request="200m", memory="32Mi"), (None, None, None)),
    ],
    ids=["quota", "memory", "all"],
)
def test_an_edited_manifest_is_not_promised_to_the_pod_that_runs(
    files: tuple[NamedText, ...], promised: tuple[int | None, ...]
) -> None:
    """What differs may be the manifest's next pod's, or drift of the runtime: neither is promised, and that is said."""
    reading = node(files)
    found = claims(reading)
    app = found["api-n/app"]
    assert (app.quota_us, app.shares, app.memory_bytes) == promised
    assert set(found) == {"api-n/app"}, "nothing is promised to the pod's cgroup or those above"
    (line,) = said(reading)
    assert line.startswith("the manifest of api-n asks for other limits than the runtime was asked for")


@pytest.mark.parametrize("asked", [None, Asked(cpus="0-1")], ids=["silent", "without-shares"])
def test_a_runtime_that_does_not_say_contradicts_nothing(asked: Asked | None) -> None:
    """Its word is not there, or not the whole one."""
    assert claims(node(manifest(cpu="200m"), asked))["api-n/app"].quota_us == 20_000


def test_a_limit_of_a_plugin_contradicts_nothing() -> None:
    """The manifest has none; what the runtime has is another's."""
    text = "metadata: {name: api}\nspec: {containers: [{name: app, resources: {requests: {cpu: 100m}}}]}"
    reading = node((NamedText(name="api.yaml", text=text),), replace(ASKED, quota_us=0))
    assert said(reading) == []
    assert claims(reading)["api-n/app"].memory_bytes in (None, NO_LIMIT)


def test_a_manifest_that_was_the_pods_stays_so_whatever_the_runtime_is_told() -> None:
    """Two readings agreed: what differs afterwards is drift, and no edited manifest is known instead."""
    known, config = StaticPods(), NodeConfig()
    before = node(manifest())
    known.of(before, config)
    known.of(node(manifest()), config)
    drifted = node(manifest(), replace(ASKED, memory_bytes=32 * MIB))
    static = known.of(drifted, config)
    assert list(static) == [UID]
    assert claims(replace(drifted, static_of=static))["api-n/app"].memory_bytes == 64 * MIB


def test_what_follows_from_after_the_edit_does_not_learn_it() -> None:
    """However often it is read."""
    known, config = StaticPods(), NodeConfig()
    for _ in range(3):
        assert known.of(node(manifest(memory="32Mi")), config) == {}
