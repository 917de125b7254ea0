"""A kubelet's node that is followed and whose runtime does not answer: no grpcio, no socket, another API."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import BOX, DB, WEB, Node, back, claim, cpus
from tests.unit.toolkit.sources.made_node import KUBEPODS, process, write
from toolkit.model.claims import SubjectKind
from toolkit.sources.kubelet import evidence


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The node; nothing serves its socket, the kubelet's log names its containers."""
    made = Node(tmp_path)
    logs = tmp_path / "var/log/containers"
    logs.mkdir(parents=True)
    for one, pod, name in ((DB, "db", "main"), (WEB, "web", "app")):
        (logs / f"{pod}_default_{name}-{one}.log").symlink_to("/nowhere")
    return made


def stranger(node: Node, one: str, comm: str, pod: str = "web") -> None:
    """Put a cgroup with one task into a pod. :param comm: the task's name; empty: it cannot be read."""
    write(node.root, f"{KUBEPODS}/podu-{pod}/{one}/cpuset.cpus", "\n")
    write(node.root, f"{KUBEPODS}/podu-{pod}/{one}/cgroup.procs", "88\n")
    if comm:
        process(node.root, 88, comm, f"/kubepods/podu-{pod}/{one}", [])


def test_a_pod_sandbox_is_known_by_its_tasks(node: Node) -> None:
    """Its mask is all CPUs: it was promised none. The log's containers have those that the state file gives them."""
    stranger(node, BOX, "pause")
    reading = node.read()
    box = next(one for one in reading.claims.claims if one.cgroup.endswith(BOX))

    assert (box.kind, box.cpus) == (SubjectKind.SANDBOX, None)
    assert (str(claim(reading, "db/main").cpus), str(claim(reading, "web/app").cpus)) == ("2-3", "0-1")
    assert not reading.complete
    assert not [part for part in reading.missing if part.part == "names"]


@pytest.mark.parametrize(("comm", "pod", "held"), [("", "web", None), ("db", "db", None), ("app", "web", "0-1")])
def test_a_container_without_a_name_is_promised_what_is_sure(node: Node, comm: str, pod: str, held: str | None) -> None:
    """It may be a sandbox, if its tasks cannot be read; or an owner, in a pod that owns CPUs. That is said."""
    stranger(node, BOX, comm, pod)
    reading = node.read()
    found = next(one for one in reading.claims.claims if one.cgroup.endswith(BOX))

    assert (None if found.cpus is None else str(found.cpus)) == held
    assert bool([part for part in reading.missing if part.part == "names"]) == (held is None)


def test_a_pool_that_changes_is_brought_up_to_date_within_a_reconcile(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has lost it may have until then, and no longer; what it has won it has at once."""
    now_ns = [time.monotonic_ns()]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns[0])
    node.read()
    node.state("0", db="2-3", new="1")
    late = node.read()
    now_ns[0] += int((10 + evidence.SLACK_S) * 1e9) + 1
    over = node.read()
    node.state("0-1", db="2-3")
    grown, again = node.read(), node.read()
    node.state("0", db="2-3", new="1")
    anew = node.read()

    assert (cpus(late)["web/app"], back(late)) == ("0-1", {"web/app": "1"})
    assert (cpus(over)["web/app"], back(over)) == ("0", {})
    assert [(cpus(one)["web/app"], back(one)) for one in (grown, again)] == [("0-1", {})] * 2
    assert (cpus(anew)["web/app"], back(anew)) == ("0-1", {"web/app": "1"})
