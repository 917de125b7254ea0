"""Nodes whose runtime lays cgroups out otherwise than containerd with runc does, followed: CRI-O's monitors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import CREATED, EXITED, WEB, Node, cpus, made_node
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from toolkit.model.claims import SubjectKind

MONITOR = "web/(helper of app)"


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served."""
    with made_node() as made:
        yield made


def monitor(node: Node, of: str, name: str = "crio-conmon-{}.scope") -> str:
    """Put a monitor into the pod of ``web``, as ``conmon_cgroup = "pod"`` does; return its cgroup."""
    path = f"podu-web/{name.format(of)}"
    write(node.root, f"{KUBEPODS}/{path}/cpuset.cpus", "\n")
    write(node.root, f"{KUBEPODS}/{path}/cgroup.procs", "88\n")
    return f"/kubepods/{path}"


@pytest.mark.parametrize("state", [CREATED, 1, EXITED])
@pytest.mark.parametrize("name", ["crio-conmon-{}.scope", "crio-conmon-{}"])
def test_a_monitor_of_a_listed_container_is_a_helper_without_cpus(node: Node, name: str, state: int) -> None:
    """Both drivers; it is there before its container runs and a moment after that has ended: noise, and measured."""
    cgroup = monitor(node, WEB, name)
    node.runs(WEB, "web", "app", "0-1", state=state)
    reading = node.read()
    (found,) = (one for one in reading.claims.claims if one.kind is SubjectKind.HELPER)

    assert (found.cgroup, found.cpus, found.pod_uid) == (cgroup, None, "u-web")
    assert ("web/app" in cpus(reading)) == (state not in (CREATED, EXITED))
    assert state == EXITED or (found.name, found.pod) == (MONITOR, "web")
    assert not [view for view in reading.layers if view.claim == found.name]


def test_a_cgroup_that_is_called_as_a_monitor_is_none(node: Node) -> None:
    """No such container is in the runtime's list: whoever is in there is a pod's task like any other."""
    monitor(node, "ee" * 32)
    monitor(node, WEB)
    assert cpus(node.read()) == {"db/main": "2-3", "web/app": "0-1", MONITOR: "None"}
    node.ends(WEB)
    assert cpus(node.read()) == {"db/main": "2-3"}
