"""Containers that the runtime is making, and pods that are made again under their name, on a node that is followed."""

from __future__ import annotations

import shutil
import time

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import (
    BOX,
    CREATED,
    DB,
    EXITED,
    WEB,
    Node,
    claim,
    cpus,
)
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from tests.unit.toolkit.sources.socket_server import container, labels, status
from toolkit.sources.kubelet import follow
from toolkit.sources.kubelet.follow import TURNS
from validators.queries import view


def test_a_container_that_the_runtime_has_created_is_named_as_one(node: Node) -> None:
    """Its runtime may sit in its cgroup already: where that is, and no claim; once it runs it is a claim and is being
    made no longer. One that has ended is neither.
    """
    new, old = "ee" * 32, "ff" * 32
    node.state("0-1", db="2", new="3")
    node.runs(new, "new", "main", "3", state=CREATED)
    node.runs(old, "old", "main", "0-1", state=EXITED)
    made = node.read()
    node.runs(new, "new", "main", "3")
    runs = node.read()

    assert ([row.cgroup for row in made.held], "new/main" in cpus(made)) == ([f"/kubepods/podu-new/{new}"], False)
    assert (runs.held, cpus(runs)["new/main"]) == ((), "3")


def test_a_container_that_runs_and_has_no_cgroup_is_left_out_and_named(node: Node) -> None:
    """From the second reading on, for as long as the runtime says that it runs: one that ends has none for a moment."""
    folder = node.root / KUBEPODS / "podu-db" / DB
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    once, twice = node.read(), node.read()
    node.ends(DB)
    over = node.read()

    assert [[part.part for part in reading.left_out] for reading in (once, twice, over)] == [[], ["db/main"], []]
    assert f"/kubepods/podu-db/{DB}" in twice.left_out[0].reason
    assert "db/main" not in cpus(twice)


@pytest.mark.parametrize(("for_ns", "named"), [(follow.ENDING_NS - 1, []), (follow.ENDING_NS, ["db/main"])])
def test_a_container_whose_cgroup_was_there_has_ended(
    node: Node, monkeypatch: pytest.MonkeyPatch, for_ns: int, named: list[str]
) -> None:
    """A cgroup with processes cannot be removed. The runtime may list it for some time, not for ever."""
    now_ns = [time.monotonic_ns()]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns[0])
    node.read()
    shutil.rmtree(node.root / KUBEPODS / "podu-db" / DB)
    readings = [node.read(), node.read()]
    now_ns[0] += for_ns
    readings.append(node.read())

    assert [[part.part for part in reading.left_out] for reading in readings] == [[], [], named]
    node.ends(DB)
    assert node.read().left_out == ()


@pytest.mark.parametrize("path", ["/k8s.io/{}", "/kubepods/podu-web/vm/{}", ""])
def test_a_container_outside_of_pods_is_left_out_and_named(node: Node, path: str) -> None:
    """As one without a cgroup is; it costs no line of what could not be read."""
    node._said[WEB] = status(WEB, path.format(WEB), "0-1")
    shutil.rmtree(node.root / KUBEPODS / "podu-web")
    write(node.root, f"sys/fs/cgroup/k8s.io/{WEB}/cpuset.cpus", "0-3\n")
    once, twice = node.read(), node.read()

    assert [[part.part for part in reading.left_out] for reading in (once, twice)] == [[], ["web/app"]]
    assert "web/app" not in cpus(twice)
    assert not [part for reading in (once, twice) for part in reading.missing if "/" in part.part]


def test_a_pod_that_is_made_again_is_another_pod(node: Node) -> None:
    """Two at once under one name: each claim has the UID of its pod."""
    one = "ee" * 32
    node._listed[one] = container(one, BOX, "main", labels("u-again", "db", "main"))
    node._said[one] = status(one, f"/kubepods/podu-again/{one}", "0-1")
    write(node.root, f"{KUBEPODS}/podu-again/{one}/cpuset.cpus", "0-1\n")
    both = [one for one in node.read().claims.claims if one.pod == "db"]

    assert sorted(one.pod_uid for one in both) == ["u-again", "u-db"]
    assert not view.same_pod(*both)


def test_what_says_the_same_again_is_not_read_anew(node: Node) -> None:
    """The claims are the same objects until a file or an answer differs."""
    first, again = node.read(), node.read()
    assert claim(first, "db/main") == claim(again, "db/main")
    assert node.source._facts.last is not None
    known = node.source._facts.last[1].found
    for _ in range(TURNS):
        node.read()
    assert node.source._facts.last[1].found is known
    node.state("0-1", db="2-3", new="3")
    node.read()
    assert node.source._facts.last[1].found is not known
