"""Which life of a container, and which namespace's pod, a layer of a capture speaks about."""

from __future__ import annotations

import copy

import pytest

from tests.unit.toolkit.sources.edited import capture, failed, judged, part, rows

EARLIER = "1f" * 32


def test_a_restarted_container_keeps_its_name() -> None:
    """Its earlier life is still listed: the one that lives has the plain name, and what every layer says of it."""
    files = capture("A-2")
    before = rows(files)["g1-node1/main"]
    with part(files, "containers.json") as listed:
        twin = copy.deepcopy(listed[before["id"]])
        twin["cgroupsPath"] = twin["cgroupsPath"].replace(before["id"], EARLIER)
        listed[EARLIER] = twin
    found = rows(files)
    earlier = found[f"g1-node1/main@{EARLIER[:12]}"]
    assert (earlier["gone"], earlier["pod"], earlier["container"]) == (True, "g1-node1", "main")
    assert found["g1-node1/main"] == before
    assert judged(files) == judged(capture("A-2"))
    assert "pod-resources_cpus" in judged(files)["layers-agree", "g1-node1/main"].measures


def test_an_exited_twin_is_not_the_container() -> None:
    """CRI lists it with its state; its cgroup is gone."""
    files = capture("D-3")
    before = rows(files)["g1-node1/main"]
    with part(files, "node.json") as node:
        entry = next(one for one in node["containers"]["containers"] if one["id"] == before["id"])
        node["containers"]["containers"].insert(0, entry | {"id": EARLIER, "state": "CONTAINER_EXITED"})
        status = copy.deepcopy(node["status"][before["id"]])
        status["cgroupsPath"] = before["cgroup"].replace(before["id"], EARLIER)
        node["status"][EARLIER] = status
    found = rows(files)
    assert found["g1-node1/main"] == before
    assert found[f"g1-node1/main@{EARLIER[:12]}"]["container"] == "main"
    assert judged(files) == judged(capture("D-3"))


def test_a_pod_made_anew_is_the_pod() -> None:
    """A static pod's next life has another UID; the earlier one's container is still there."""
    files = capture("D-3")
    before = rows(files)["g1-node1/main"]
    with part(files, "node.json") as node:
        entry = next(one for one in node["containers"]["containers"] if one["id"] == before["id"])
        labels = entry["labels"] | {"io.kubernetes.pod.uid": "earlier"}
        other = entry | {"id": EARLIER, "state": "CONTAINER_EXITED", "labels": labels}
        node["containers"]["containers"].append(other)
        status = copy.deepcopy(node["status"][before["id"]])
        node["status"][EARLIER] = status | {"cgroupsPath": f"/kubepods/podearlier/{EARLIER}"}
    found = rows(files)
    assert found["g1-node1/main"] == before
    assert found[f"g1-node1/main@{EARLIER[:12]}"]["pod"] == "g1-node1"
    assert found["g1-node1/(pod)"]["pod"] == "g1-node1"


@pytest.mark.parametrize("first", [True, False])
def test_pods_of_one_name_in_two_namespaces(*, first: bool) -> None:
    """The pod-resources API names a pod by its namespace, too: another one's CPUs are not this one's."""
    files = capture("A-2")
    with part(files, "podresources.json") as answers:
        pods = answers["List"]["podResources"]
        mine = next(pod for pod in pods if pod["name"] == "g1-node1")
        other = copy.deepcopy(mine) | {"namespace": "elsewhere"}
        other["containers"][0]["cpuIds"] = ["0"]
        pods.insert(0 if first else len(pods), other)
    assert failed(files) == {}
    verdict = judged(files)["layers-agree", "g1-node1/main"]
    assert (verdict.outcome, verdict.measures["pod-resources_cpus"]) == ("passed", "1")


def test_memory_of_the_nodes_is_read() -> None:
    """A capture may hold the whole meminfo of a node in one line: the state file is compared with its total."""
    files = capture("B1-4")
    assert judged(files)["checkpoint", "memory_manager_state"].outcome == "passed"
    files["sysfs.txt"] = files["sysfs.txt"].replace(b"1951240 kB", b"1951236 kB")
    verdict = judged(files)["checkpoint", "memory_manager_state"]
    assert verdict.outcome == "failed"
    assert "node 0 has 1998065664 bytes" in verdict.reason
