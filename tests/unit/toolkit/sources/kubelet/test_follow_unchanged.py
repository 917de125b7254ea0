"""A followed node whose files stay open, and of which nothing that says the same is worked out again: what changes is
seen at the next reading.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import CONFIG, DB, WEB, Node, back, cpus, doubly, made_node
from tests.unit.toolkit.sources.made_node import KUBEPODS, process, write
from toolkit.host import kept_files
from toolkit.host.kept_files import KeptFiles
from toolkit.model.node_reading import UNIFIED
from toolkit.sources.json_parts import number
from toolkit.sources.kubelet.evidence import had_own
from toolkit.sources.kubelet.files.cgroups import ControlWords, hierarchies
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.kubelet.held import InForce

OTHER = "dd" * 32
POD, LIFE = f"{KUBEPODS}/podu-web", f"{KUBEPODS}/podu-web/{WEB}"
READINGS = 3
CPU_SET = "cpuset.cpus"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """The node, served, in a tree that passes for a cgroup file system, read until nothing is new."""
    monkeypatch.setattr(kept_files, "_is_cgroup", lambda _folder: True)
    with made_node() as made, KeptFiles() as kept:
        made.asks(WEB, "web", "0-1", quota_us=25_000)
        write(made.root, f"{LIFE}/cpu.max", "25000 100000\n")
        made.source = KubeletSource(made.source._places, kept=kept)
        for _ in range(READINGS):
            made.read()
        assert kept.count > 0
        yield made


def in_force(node: Node, folder: str) -> str | None:
    """Return the CPUs of a cgroup at the last reading; ``None``: it does not exist."""
    assert node.source._facts.last is not None
    tree = (node.source._facts.last[0].parsed.cgroups or {}).get(UNIFIED, {})
    files = tree.get(f"/{folder.removeprefix('sys/fs/cgroup/')}")
    return None if files is None else files.get(CPU_SET)


def renamed_away(node: Node) -> None:
    """A v1 cgroup may be renamed; a reader that has its files open reads them on."""
    (node.root / LIFE).rename(node.root / POD / "elsewhere")


def made_again(node: Node) -> None:
    """By the name of one that is gone; the old one's inode is still used."""
    (node.root / LIFE).rename(node.root / "gone")
    write(node.root, f"{LIFE}/{CPU_SET}", "0-3\n")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda node: write(node.root, f"{LIFE}/{CPU_SET}", "0-3\n"), "0-3"),
        (made_again, "0-3"),
        (renamed_away, None),
        (lambda node: shutil.rmtree(node.root / LIFE), None),
    ],
    ids=["written", "made-again", "renamed", "removed"],
)
def test_what_becomes_of_a_cgroup_is_seen_at_once(
    node: Node, change: Callable[[Node], None], found: str | None
) -> None:
    """Whatever its open files say; the other container is as it was."""
    node.read()
    assert in_force(node, LIFE) == "0-1"
    change(node)
    node.read()
    assert in_force(node, LIFE) == found
    assert in_force(node, f"{KUBEPODS}/podu-db/{DB}") == "2-3"


@pytest.mark.parametrize("state", [None, 0, 2])
def test_what_the_runtime_says_of_a_container_is_seen_at_once(node: Node, state: int | None) -> None:
    """It lists it no more, or in another state; then it runs again."""
    assert "web/app" in cpus(node.read())
    node.ends(WEB)
    if state is not None:
        node.runs(WEB, "web", "app", "0-1", state=state)
    assert "web/app" not in cpus(node.read())
    node.runs(WEB, "web", "app", "0-1")
    assert cpus(node.read())["web/app"] == "0-1"


def test_a_kubelet_that_restarts_is_heard_at_once(node: Node) -> None:
    """Another process, with another configuration."""
    assert str(node.read().claims.reserved_cpus) == "0"
    write(node.root, "etc/other.yaml", CONFIG.replace('"0"', '"1"'))
    shutil.rmtree(node.root / "proc/42")
    process(node.root, 43, "kubelet", "/kubelet.service", ["--config=/etc/other.yaml"])
    assert str(node.read().claims.reserved_cpus) == "1"


def test_what_comes_into_a_cgroup_is_seen_at_once(node: Node) -> None:
    """A pod's next container, and a cgroup that a container makes in its own one."""
    node.runs(OTHER, "web", "second", "0-1")
    write(node.root, f"{POD}/{WEB}/inner/{CPU_SET}", "1\n")
    reading = node.read()
    assert cpus(reading)["web/second"] == "0-1"
    assert in_force(node, f"{LIFE}/inner") == "1"


@pytest.mark.parametrize("text", ["75000 100000\n", "25000 50000\n", "max 100000\n"])
def test_a_quota_that_is_written_is_asked_for_at_once(node: Node, text: str) -> None:
    """And is spared again when it is what it was."""
    write(node.root, f"{LIFE}/cpu.max", text)
    node.read()
    assert WEB in node.asked
    write(node.root, f"{LIFE}/cpu.max", "25000 100000\n")
    asked = [(node.read(), WEB in node.asked)[1] for _ in range(READINGS)]
    assert asked.count(True) <= 1


def test_former_owners_are_worked_out_where_something_is_said_anew(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a task still runs on CPUs that another owns by now is looked at each time."""
    worked_out, looked = list[str](), list[str]()
    has_tasks = ControlWords.has_tasks

    def counted(promise: Any, found: Any) -> Any:
        worked_out.append(promise.subject.id)
        return had_own(promise, found)

    def seen(words: ControlWords, cgroup: str) -> bool:
        looked.append(cgroup)
        return has_tasks(words, cgroup)

    monkeypatch.setattr("toolkit.sources.kubelet.held.had_own", counted)
    monkeypatch.setattr(ControlWords, "has_tasks", seen)
    node.read()
    assert worked_out == []

    node.state("0-1", new="2-3")
    node.runs(OTHER, "new", "main", "2-3")
    procs = node.root / f"{KUBEPODS}/podu-db/{DB}/cgroup.procs"
    procs.write_text("")
    assert doubly(node.read()) == set()
    assert worked_out
    worked_out.clear()
    looked.clear()
    assert doubly(node.read()) == set()
    assert (worked_out, len(looked)) == ([], 1)
    procs.write_text("77\n")
    assert doubly(node.read()) == {"db/main"}
    assert worked_out == []


def test_what_is_held_is_worked_out_while_a_container_owes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is in it then, although nothing is said anew; it is not where each has what the state file says."""
    held = list[str]()
    life = InForce.life

    def counted(known: InForce, one: Any, *others: Any, **more: Any) -> Any:
        held.append(one.claim.name)
        return life(known, one, *others, **more)

    monkeypatch.setattr(InForce, "life", counted)
    first = node.read()
    assert (held, cpus(first)) == ([], {"db/main": "2-3", "web/app": "0-1"})

    node.state("1", db="2-3")
    node.read()
    assert back(node.read()) == {"web/app": "0"}
    assert held == ["db/main", "web/app"] * 2
    now_ns = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns + 60 * 10**9)
    late = node.read()
    assert (back(late), cpus(late)["web/app"]) == ({}, "1")

    node.runs(WEB, "web", "app", "1")
    for _ in range(2):
        assert cpus(node.read())["web/app"] == "1"
    held.clear()
    node.read()
    assert held == []


def test_texts_of_limits_that_were_read_before_are_not_read_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as they and what was asked for are the same."""
    numbers = list[str]()

    def counted(value: Any) -> int | None:
        numbers.append(value)
        return number(value)

    monkeypatch.setattr("toolkit.sources.kubelet.files.cgroups.number", counted)
    node.read()
    assert numbers == []
    write(node.root, f"{LIFE}/cpu.max", "31000 100000\n")
    node.read()
    assert numbers == ["31000", "100000"]


def test_a_tree_in_which_nothing_came_or_went_is_the_same_object(node: Node) -> None:
    """Nothing is made of it again."""
    cache, tops = node.source._cache, hierarchies(Path(node.root) / "sys/fs/cgroup")
    first, tree = cache.cpusets(tops), dict(cache.tree._trees)
    assert cache.cpusets(tops) is first
    assert list(cache.tree._trees.values()) == list(tree.values())
    write(node.root, f"{LIFE}/{CPU_SET}", "0\n")
    assert cache.cpusets(tops) != first
    assert list(cache.tree._trees.values()) == list(tree.values())
    (node.root / POD / "new").mkdir()
    cache.cpusets(tops)
    assert list(cache.tree._trees.values()) != list(tree.values())
