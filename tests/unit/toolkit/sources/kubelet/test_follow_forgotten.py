"""A node that is followed and whose state file lost an owner of CPUs: it is no sharer whose pool grows late (F31)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import DB, WEB, Node, cpus, made_node
from tests.unit.toolkit.sources.made_node import allocations_text, write
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import Held, Why

OWNER = {"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "2", "memory": "64Mi"}}
SHARER = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}}
MANIFEST = """apiVersion: v1
kind: Pod
metadata: {name: db, uid: u-db-node1}
spec:
  containers:
  - {name: main, resources: {limits: {cpu: 2, memory: 64Mi}}}
"""


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served; ``db/main`` asks for the CPUs that it owns."""
    with made_node() as made:
        allocates(made, {"u-db": {"main": OWNER}, "u-web": {"app": SHARER}})
        yield made


def allocates(node: Node, pods: dict[str, dict[str, object]]) -> None:
    """Write what the kubelet has allocated."""
    text = allocations_text({uid: {"ContainerResources": found} for uid, found in pods.items()})
    write(node.root, "var/lib/kubelet/allocated_pods_state", text)


def lost(node: Node) -> tuple[Held, ...]:
    return tuple(row for row in node.read().held if row.why is Why.FORGOTTEN)


def test_an_owner_without_an_entry_is_named(node: Node) -> None:
    """With what it has, whatever the pool is; until its entry is back."""
    assert lost(node) == ()
    node.state("0-1,3", other="2")
    assert lost(node) == (Held(claim="db/main", asks=2, cpus=CpuSet.parse("2-3"), why=Why.FORGOTTEN),)
    node.state("0-3", other="")
    assert [one.claim for one in lost(node)] == ["db/main"]
    node.state("0-1", db="2-3")
    assert lost(node) == ()


def test_what_has_the_pool_or_asks_for_no_cpu_of_its_own_is_a_sharer(node: Node) -> None:
    """One that grows late, and one that was never given what it asked for, as before it was the kubelet's."""
    node.runs(DB, "db", "main", "0-1,3")
    node.runs(WEB, "web", "app", "0-1")
    node.state("0-1,3", other="2")
    assert lost(node) == ()
    node.runs(WEB, "web", "app", "0")
    assert lost(node) == ()


@pytest.mark.parametrize("pods", [{}, {"u-web": {"app": SHARER}}])
def test_a_pod_that_the_kubelet_does_not_have_has_ended(node: Node, pods: dict[str, dict[str, object]]) -> None:
    """It may run for as long as its grace period, on what it had: what it asks for is not known."""
    node.read()
    allocates(node, pods)
    node.state("0-1,3", other="2")
    assert lost(node) == ()


def test_of_a_pod_with_a_manifest_alone_it_is_not_certain(node: Node) -> None:
    """A static pod of an older kubelet; one whose manifest was taken away has ended: what it asked for is over."""
    (node.root / "var/lib/kubelet/allocated_pods_state").unlink()
    node.configure("staticPodPath: /etc/manifests\n")
    write(node.root, "etc/manifests/db.yaml", MANIFEST)
    node.ends(DB)
    node.runs(DB, "db-node1", "main", "2-3")
    node.read()
    node.state("0-1,3", other="2")
    assert [(one.claim, one.certain) for one in lost(node)] == [("db-node1/main", False)]
    (node.root / "etc/manifests/db.yaml").unlink()
    assert lost(node) == ()


def test_a_kubelet_that_was_configured_anew_owes_no_cpu(node: Node) -> None:
    """Policy none, the file removed and written anew: containers keep their sets until they restart."""
    node.read()
    node.configure("")
    text = (node.root / "var/lib/kubelet/config.yaml").read_text()
    write(node.root, "var/lib/kubelet/config.yaml", text.replace("static", "none"))
    write(
        node.root, "var/lib/kubelet/cpu_manager_state", '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    )
    reading = node.read()
    assert (reading.held, cpus(reading)["db/main"]) == ((), "None")


def test_a_file_that_lost_all_entries_is_believed_after_a_reconcile(node: Node) -> None:
    """A kubelet that starts writes one for 50 ms: no container is forgotten by it."""
    node.read()
    node.state("0-3")
    assert lost(node) == ()
