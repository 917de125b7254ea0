"""Nodes whose runtime lays cgroups out otherwise than containerd with runc does, followed: CRI-O's monitors, crun's
cgroup in the scope.
"""

from __future__ import annotations

import shutil

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import CREATED, EXITED, WEB, Node, claim, cpus
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from tests.unit.toolkit.sources.socket_server import status
from toolkit.model.claims import SubjectKind

MONITOR = "web/(helper of app)"


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
    """No such container is in the runtime's list: what is in there is a pod's task like any other."""
    monitor(node, "ee" * 32)
    monitor(node, WEB)
    assert cpus(node.read()) == {"db/main": "2-3", "web/app": "0-1", MONITOR: "None"}
    node.ends(WEB)
    assert cpus(node.read()) == {"db/main": "2-3"}


SCOPE = f"kubepods.slice/kubepods-podu_web.slice/crio-{WEB}.scope"


def scope(node: Node, own: dict[str, str], inner: dict[str, str]) -> str:
    """Let systemd's driver and crun have made ``web``; return the cgroup of its claim. Files by their names."""
    shutil.rmtree(node.root / KUBEPODS / "podu-web", ignore_errors=True)
    shutil.rmtree(node.root / "sys/fs/cgroup" / SCOPE, ignore_errors=True)
    node._said[WEB] = status(WEB, f"kubepods-podu_web.slice:crio:{WEB}", "0-1")
    for folder, files in ((SCOPE, own), (f"{SCOPE}/container", inner)):
        for name, text in ({"cpuset.cpus": "", "cpu.max": "max 100000", "cgroup.procs": ""} | files).items():
            write(node.root, f"sys/fs/cgroup/{folder}/{name}", f"{text}\n")
    return claim(node.read(), "web/app").cgroup


@pytest.mark.parametrize(
    ("own", "inner", "where"),
    [
        ({}, {"cpuset.cpus": "0-1"}, f"/{SCOPE}/container"),
        ({}, {"cpu.max": "50000 100000"}, f"/{SCOPE}/container"),
        ({"cpuset.cpus": "0-1"}, {"cpuset.cpus": "0-1"}, f"/{SCOPE}"),
        ({"cpu.max": "50000 100000"}, {"cpuset.cpus": "0-1"}, f"/{SCOPE}"),
        ({"cgroup.procs": "77"}, {"cpuset.cpus": "0"}, f"/{SCOPE}"),
        ({}, {}, f"/{SCOPE}"),
    ],
    ids=["old crun", "its quota", "both", "the container's own", "tasks outside", "no limits"],
)
def test_a_claim_is_about_the_cgroup_that_the_runtime_limited(
    node: Node, own: dict[str, str], inner: dict[str, str], where: str
) -> None:
    """crun's ``container`` where the scope has no limits and no tasks; a cgroup that the workload made is none."""
    assert scope(node, own, inner) == where


def test_the_layers_of_a_container_of_crun_agree(node: Node) -> None:
    """Its CPUs are where its runtime wrote them; a change there is noticed at once."""
    scope(node, {}, {"cpuset.cpus": "0-1"})
    assert node.source._facts.last is not None
    followed = node.source._facts.last[1]
    assert WEB in {one for _, one in followed.agree}
    assert node.root / "sys/fs/cgroup" / SCOPE / "container/cpuset.cpus" in node.source.signs()
    scope(node, {}, {"cpuset.cpus": "0"})
    assert node.source._facts.last is not None
    followed = node.source._facts.last[1]
    assert WEB not in {one for _, one in followed.agree}
