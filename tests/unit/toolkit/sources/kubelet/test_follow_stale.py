"""A node that is followed: nothing that was kept of a reading outlives what it was made of."""

from __future__ import annotations

import os
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.seeds import SEED
from tests.unit.toolkit.sources.kubelet.followed_node import CONFIG, CREATED, DB, EXITED, WEB, Node, back, claim, cpus
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet import follow
from toolkit.sources.kubelet.follow import TURNS, KubeletSource
from toolkit.sources.kubelet.held import followed_of
from toolkit.sources.kubelet.promises.node import node_claims

STATE, CONFIG_FILE = "var/lib/kubelet/cpu_manager_state", "var/lib/kubelet/config.yaml"
STEPS = 150


def rewritten(file: Path, text: str, *, by_rename: bool) -> None:
    """Write a file so that its size and its times are those of before."""
    before = file.stat()
    text = text.ljust(before.st_size)
    assert len(text.encode()) == before.st_size
    target = file.with_name("new") if by_rename else file
    target.write_text(text)
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    if by_rename:
        target.rename(file)
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("by_rename", [False, True])
def test_a_state_file_of_the_same_size_and_time_is_read(node: Node, *, by_rename: bool) -> None:
    """A kubelet writes a new file and renames it; another writer may write in place."""
    file = node.root / STATE
    node.state("1", db="2-3")
    shrunk = file.read_text()
    node.state("0-1", db="2-3")
    file.write_text(file.read_text().ljust(len(shrunk) + 9))
    assert cpus(node.read())["web/app"] == "0-1"

    rewritten(file, shrunk, by_rename=by_rename)
    reading = node.read()

    assert back(reading) == {"web/app": "0"}
    assert str(reading.state_files[0].cpu.default if reading.state_files[0].cpu else None) == "1"


@pytest.mark.parametrize("by_rename", [False, True])
def test_a_configuration_of_the_same_size_and_time_is_read(node: Node, *, by_rename: bool) -> None:
    """Another reserved CPU, in as many bytes."""
    assert str(node.read().claims.reserved_cpus) == "0"
    rewritten(node.root / CONFIG_FILE, CONFIG.replace('"0"', '"1"'), by_rename=by_rename)
    assert str(node.read().claims.reserved_cpus) == "1"


def test_a_container_that_restarts_is_its_next_life(node: Node) -> None:
    """The same pod and name, another id and cgroup, other values."""
    again = "dd" * 32
    for _ in range(3):
        assert claim(node.read(), "web/app").cgroup.endswith(WEB)
    node.ends(WEB)
    shutil.rmtree(node.root / f"{KUBEPODS}/podu-web/{WEB}")
    node.runs(again, "web", "app", "0-1")
    node.asks(again, "web", "0-1", quota_us=25_000)
    reading = node.read()

    assert claim(reading, "web/app").cgroup == f"/kubepods/podu-web/{again}"
    assert claim(reading, "web/app").quota_us == 25_000
    assert again in node.asked


@pytest.mark.parametrize("state", [CREATED, EXITED])
def test_a_container_in_another_state_is_asked_for_at_once(node: Node, state: int) -> None:
    """What was said of it beside another entry of the list may be over, in turn or not."""
    for _ in range(2):
        node.read()
    node.runs(DB, "db", "main", "2-3", state=state)
    assert "db/main" not in cpus(node.read())
    assert DB in node.asked
    node.runs(DB, "db", "main", "2-3")
    assert cpus(node.read())["db/main"] == "2-3"
    assert DB in node.asked


def test_a_control_file_is_read_each_time(node: Node) -> None:
    """In as many bytes, at the same time: a cgroup that drifts is asked for."""
    file = node.root / f"{KUBEPODS}/podu-db/{DB}/cpuset.cpus"
    for _ in range(2):
        node.read()
    rewritten(file, "0-3\n", by_rename=False)
    for _ in range(3):
        node.read()
    assert DB in node.asked


def test_what_was_asked_for_last_is_known_within_its_turns(node: Node) -> None:
    """Nothing else on the node has changed."""
    for _ in range(2):
        node.read()
    node.asks(WEB, "web", "0-1", quota_us=30_000)
    for _ in range(TURNS):
        reading = node.read()
    assert claim(reading, "web/app").quota_us == 30_000


def test_a_pool_without_entries_is_believed_when_its_time_has_come(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on the node has changed but the clock; how long that takes is configured anew meanwhile."""

    def pool() -> str:
        (one,) = node.read().state_files
        return one.cpu.default if one.cpu else ""

    node.read()
    node.state("0-3")
    assert pool() == "0-1"
    node.configure("cpuManagerReconcilePeriod: 60s\n")
    assert pool() == "0-1"
    now_ns = time.monotonic_ns()
    for later_s, believed in ((30, False), (70, True)):
        monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns + later_s * 10**9)  # noqa: B023 called at once
        assert pool() == ("0-3" if believed else "0-1")
        assert cpus(node.read())["db/main"] == ("0-3" if believed else "2-3")


def test_the_signs_are_where_the_containers_are(node: Node) -> None:
    """Of a container that begins, too."""
    node.read()
    before = node.source.signs()
    node.read()
    assert node.source.signs() is before
    node.runs("dd" * 32, "new", "main", "0-1")
    node.read()
    assert node.root / f"{KUBEPODS}/podu-new/{'dd' * 32}/cpuset.cpus" in node.source.signs()


def changed(node: Node, dice: random.Random) -> None:
    """Change one thing on the node, or nothing."""
    one, pod = dice.choice([(DB, "db"), (WEB, "web"), ("dd" * 32, "web"), ("ee" * 32, "new")])
    cpus = dice.choice(["0", "1", "0-1", "2-3"])
    match dice.randrange(8):
        case 0:
            node.state(dice.choice(["0", "1", "0-1"]), **({"db": "2-3"} if dice.random() < 0.5 else {}))
        case 1 | 2:
            node.runs(one, pod, "main", cpus, cgroup=dice.choice([None, "0-3"]), state=dice.randrange(3))
        case 3 if one in node._listed:
            node.ends(one)
        case 4:
            shutil.rmtree(node.root / f"{KUBEPODS}/podu-{pod}/{one}", ignore_errors=True)
        case 5:
            node.configure(dice.choice(["", 'cgroupRoot: "/"\n', "cpuManagerReconcilePeriod: 5s\n"]))
        case 6 if one in node._said:
            node.asks(one, pod, cpus, quota_us=dice.choice([-1, 20_000]))
        case 7:
            link = node.root / f"var/log/containers/{pod}_default_main-{one}.log"
            write(node.root, "var/log/containers/other", "")
            link.unlink() if link.is_symlink() else link.symlink_to("/nowhere")


def said(source: KubeletSource) -> NodeReading:
    """Read it, and return what the files and answers say; what was made of them is what is made of them anew."""
    source.read()
    assert source._facts.last is not None
    facts, kept = source._facts.last
    again = followed_of(kept.reading, node_claims(kept.reading))
    assert (kept.found, kept.held, kept.gone, kept.making) == (again.found, again.held, again.gone, again.making)
    assert kept.layers(1, {}, silent=False) == again.layers(1, {}, silent=False)
    return replace(facts.parsed, read_at_s={})


def test_a_reading_with_a_cache_is_one_without(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes, changes and goes, in any order. (Which need not be asked is another test's.)"""
    monkeypatch.setattr(follow, "TURNS", 1)
    dice = random.Random(SEED)
    for _ in range(STEPS):
        changed(node, dice)
        assert said(node.source) == said(KubeletSource(node.source._places))
