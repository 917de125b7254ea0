"""What a followed node's pods are promised: the same as by one whole reading, from what the kubelet has allocated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import (
    API,
    HELPER,
    MANIFEST,
    OWNER,
    SHARER,
    STATES,
    WEB,
    Node,
    allocates,
    claim,
    made_node,
    resizes,
)
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.claims import Alignment, Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet import machine
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_live
from toolkit.sources.places import Places

OPTIONS = """cpuManagerPolicyOptions: {full-pcpus-only: "true"}
topologyManagerPolicy: single-numa-node
staticPodPath: /etc/manifests
"""


@pytest.fixture
def node() -> Iterator[Node]:
    """The node of two cores with two threads each, with options, served."""
    with made_node() as made:
        for cpu in range(4):
            core = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
            texts = {
                "core_id": cpu // 2,
                "physical_package_id": 0,
                "thread_siblings_list": core,
                "core_cpus_list": core,
            }
            for name, text in texts.items():
                write(made.root, f"sys/devices/system/cpu/cpu{cpu}/topology/{name}", f"{text}\n")
        for name in ("cpu/present", "cpu/possible", "node/node0/cpulist"):
            write(made.root, f"sys/devices/system/{name}", "0-3\n")
        made.configure(OPTIONS)
        allocates(made, {"u-db": {"main": OWNER}, "u-web": {"app": SHARER}})
        write(made.root, "etc/manifests/api.yaml", MANIFEST)
        made.runs(API, "api-node1", "app", "0-1")
        for above in ("", "/podu-api-node1"):
            write(made.root, f"{KUBEPODS}{above}/cpuset.cpus", "\n")
        yield made


def promise(one: Claim) -> list[Any]:
    values = [one.quota_us, one.period_us, one.shares, one.memory_bytes, one.hugepages]
    return [one.kind, one.cgroup, one.isolation, *values, one.alignments]


def test_a_followed_node_promises_what_a_whole_reading_does(node: Node) -> None:
    """Alignments, shares and quotas of the requests, and the claims of pods and QoS classes."""
    whole = node_claims(read_live(Places(root=node.root, cri=f"unix://{node.root}/c.sock"))).claims
    reading = node.read()

    assert {one.name: promise(one) for one in reading.claims.claims} == {one.name: promise(one) for one in whole.claims}
    assert claim(reading, "db/main").alignments == (Alignment.SMT, Alignment.NUMA)
    assert [claim(reading, "web/app").quota_us, claim(reading, "web/app").shares] == [50_000, 204]
    assert claim(reading, "api-node1/(pod)").quota_us == 25_000
    assert {claim(reading, name).memory_bytes for name in ("db/main", "web/app", "api-node1/(pod)")} == {64 << 20}
    assert {"kubepods/(qos)"} == {one.name for one in reading.claims.claims if one.name.endswith("(qos)")}
    assert not any(one.contended for one in reading.claims.claims)
    assert not [row for row in reading.missing if row.part in ("alignments", "parents")]


def test_what_cannot_be_promised_is_named(node: Node) -> None:
    """A kubelet that writes no allocations says nothing of requests."""
    (node.root / f"{STATES}/allocated_pods_state").unlink()
    (node.root / "etc/manifests/api.yaml").unlink()
    missing = {row.part: row.reason for row in node.read().missing}
    assert "requests of 1 containers" in missing["alignments"]
    assert "parents" in missing

    allocates(node, {"u-db": {"main": OWNER}})
    assert not {"alignments", "parents"} & {row.part for row in node.read().missing}


def test_the_machine_is_read_again_when_its_cpus_change(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at each reading."""
    read = []
    monkeypatch.setattr(machine, "captured_topology", lambda text: read.append(text) or "none")
    machine._machine.cache_clear()
    for cpus in ("0-1", "0-1", "0"):
        node.runs(WEB, "web", "app", cpus)
        node.read()
    assert len(set(read)) == 1
    write(node.root, "sys/devices/system/cpu/online", "0-2\n")
    node.read()
    machine._machine.cache_clear()
    assert len(set(read)) == 2


@pytest.mark.parametrize("pod_set", [True, False])
def test_an_owner_below_the_quota_of_a_pod_with_a_budget(node: Node, *, pod_set: bool) -> None:
    """A lone sharer is one by its request; in the node's pool too it is limited by the budget, and the owner is not."""
    node.configure("featureGates: {PodLevelResourceManagers: true}\n")
    uid, budget = "u-db", {"cpu": "3", "memory": "256Mi"}
    allocates(node, {uid: {"main": OWNER, "helper": {}}}, u_db={"limits": budget, "requests": budget})
    entries = {"main": CpuSet.parse("2-3")} | ({"helper": CpuSet.parse("1")} if pod_set else {})
    pods = {uid: CpuSet.parse("1-3")} if pod_set else {}
    state = CpuState("static", CpuSet.parse("0" if pod_set else "0-1"), {uid: entries}, pods)
    write(node.root, "var/lib/kubelet/cpu_manager_state", write_cpu_checkpoint(state, pod_level=True))
    node.runs(HELPER, "db", "helper", "1" if pod_set else "0-1")
    reading = node.read()

    owner, sharer = claim(reading, "db/main"), claim(reading, "db/helper")
    assert [owner.isolation, owner.quota_us, owner.pod_quota_us] == [Isolation.CONTAINER, -1, 300_000]
    assert [sharer.isolation, sharer.quota_us] == [Isolation.POD if pod_set else Isolation.HOST, 300_000]


def test_a_resize_under_way_promises_neither_quota(node: Node) -> None:
    """From the moment at which it is allocated until the kubelet says that it is in force."""
    more = {"limits": {"cpu": "700m", "memory": "64Mi"}, "requests": SHARER["requests"]}
    quotas = []
    for now, then in ((SHARER, SHARER), (SHARER, more), (more, more)):
        resizes(node, now, then)
        found = claim(node.read(), "web/app")
        quotas.append(found.quota_us)
        assert found.shares == 204
    assert quotas == [50_000, None, 70_000]


def test_the_version_is_remembered_between_two_readings_of_the_metrics(node: Node) -> None:
    """A kubelet of v1.32 gives an owner the quota that he asks for: at readings without its metrics, too."""
    write(node.root, "metrics.txt", 'kubernetes_build_info{git_version="v1.32.2"} 1\n')
    places = Places(root=node.root, cri=f"unix://{node.root}/c.sock", metrics=str(node.root / "metrics.txt"))
    node.source = KubeletSource(places)
    assert [claim(node.read(), "db/main").quota_us for _ in range(2)] == [200_000, 200_000]


@pytest.mark.parametrize(
    ("asked", "config", "version", "kept"),
    [
        (200_000, "", "", 200_000),
        (100_000, "", "", None),
        (-1, "", "", None),
        (200_000, "featureGates: {DisableCPUQuotaWithExclusiveCPUs: true}\n", "", None),
        (200_000, "cpuCFSQuota: false\n", "", None),
        (200_000, "", "v1.36.2", None),
    ],
    ids=["its limit's", "another", "none", "the gate is set", "no quotas", "the version is known"],
)
def test_a_kubelet_of_unknown_version_may_leave_owners_their_quota(
    node: Node, asked: int, config: str, version: str, kept: int | None
) -> None:
    """Where the runtime was asked for what the limit gives; their pods the sum. Promised is none all the same."""
    node.configure(f"staticPodPath: /etc/manifests\n{config}")
    containers = f"containers:\n  - {{name: main, resources: {json.dumps(OWNER)}}}\n"
    write(node.root, "etc/manifests/api.yaml", MANIFEST.split("containers:")[0] + containers)
    node.state("0-1", **{"api-node1": "2-3"})
    node.runs(API, "api-node1", "main", "2-3")
    node.asks(API, "api-node1", quota_us=asked)
    if version:
        write(node.root, "metrics.txt", f'kubernetes_build_info{{git_version="{version}"}} 1\n')
        places = Places(root=node.root, cri=f"unix://{node.root}/c.sock", metrics=str(node.root / "metrics.txt"))
        node.source = KubeletSource(places)
    reading = node.read()

    for name in ("api-node1/main", "api-node1/(pod)"):
        found = claim(reading, name)
        assert (found.quota_us, found.kept_quota_us) == (-1, kept)
    assert claim(reading, "web/app").kept_quota_us is None
