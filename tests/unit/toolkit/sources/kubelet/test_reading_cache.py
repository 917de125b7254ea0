"""What is kept between two readings of a node: the tree of cgroups, messages, which process is the kubelet."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.seeds import SEED
from tests.unit.toolkit.sources.made_node import process, write
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.model.node_reading import NamedText, NodeReading, RuntimeContainer
from toolkit.sources import cri
from toolkit.sources.cri import Cri, container_entry, status_answer
from toolkit.sources.kubelet.files.cgroups import PodTree, hierarchies
from toolkit.sources.kubelet.files.process import SEARCH_S, KubeletProcess, process_arguments
from toolkit.sources.kubelet.files.sockets import Answers, Known, KnownByName
from toolkit.sources.kubelet.follow import ReadingCache
from toolkit.sources.kubelet.pods import StaticPods, requested

STEPS = 300


def message(name: str, **fields: Any) -> Any:
    return cri._classes()[name](**fields)


def entry(one: str, **fields: Any) -> Any:
    return message("Container", id=one, labels={"io.kubernetes.pod.uid": "u", "io.kubernetes.pod.name": "p"}, **fields)


@pytest.mark.parametrize("hierarchy", ["", "cpuset/", "unified/"])
def test_a_tree_that_is_known_is_the_tree_that_is_there(tmp_path: Path, hierarchy: str) -> None:
    """Cgroups come, go, are replaced by as many others, made anew by the same name, written in as many bytes."""
    dice = random.Random(SEED)
    if hierarchy:
        (tmp_path / "cpuset").mkdir()
    top = tmp_path / hierarchy / "kubepods"
    known = PodTree()
    for _ in range(STEPS):
        place = top / f"pod{dice.randrange(3)}" / str(dice.randrange(3))
        match dice.randrange(5):
            case 0 | 1:
                write(place, dice.choice(["cpuset.cpus", "cgroup.procs", "x"]), dice.choice(["0-1\n", "2-3\n"]))
            case 2:
                shutil.rmtree(place, ignore_errors=True)
            case 3:
                shutil.rmtree(place.parent, ignore_errors=True)
            case 4 if place.is_dir():
                # As many directories as before, of another name.
                other = place.with_name(str(dice.randrange(3, 6)))
                shutil.rmtree(other, ignore_errors=True)
                place.rename(other)
        assert known.cpusets(hierarchies(tmp_path)) == PodTree().cpusets(hierarchies(tmp_path))


def test_a_hierarchy_may_be_a_link(tmp_path: Path) -> None:
    """Of v1, where controllers share one."""
    write(tmp_path, "cpu,cpuset/kubepods/pod1/a/cpuset.cpus", "0\n")
    (tmp_path / "cpuset").symlink_to("cpu,cpuset")
    tree = PodTree()
    for cpus in (b"0\n", b"1\n"):
        write(tmp_path, "cpu,cpuset/kubepods/pod1/a/cpuset.cpus", cpus.decode())
        assert tree.cpusets(hierarchies(tmp_path)) == {"cgroup/cpuset/kubepods/pod1/a/cpuset.cpus": cpus}


def test_a_tree_in_which_nothing_came_or_went_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is where it did: in that directory alone."""
    for pod in range(3):
        for place in (f"kubepods/pod{pod}/a", f"kubepods/pod{pod}", "kubepods"):
            write(tmp_path, f"{place}/cpuset.cpus", "0\n")
    listed: list[str] = []
    scandir = os.scandir

    def seen(path: str) -> Any:
        listed.append(path)
        return scandir(path)

    tree = PodTree()
    tree.cpusets(hierarchies(tmp_path))
    monkeypatch.setattr(os, "scandir", seen)
    tree.cpusets(hierarchies(tmp_path))
    assert listed == []
    write(tmp_path, "kubepods/pod1/b/cpuset.cpus", "1\n")
    assert tree.cpusets(hierarchies(tmp_path))["cgroup/kubepods/pod1/b/cpuset.cpus"] == b"1\n"
    assert listed == [f"{tmp_path}/kubepods/pod1"]


def test_entries_in_another_order_are_the_same() -> None:
    """Go's servers send lists and labels as they lie in a map; what is not decoded is not compared."""
    known = Known(container_entry)
    first = known.of([entry("a"), entry("b")])
    labels = dict(reversed(list(first[0]["labels"].items())))
    unknown = message("Container", id="b", labels=labels).SerializeToString() + b"\x82\xfa\x01\x01x"
    again = known.of([cri._classes()["Container"].FromString(unknown), entry("a")])

    assert again is first
    assert [one["id"] for one in sorted(again, key=lambda one: str(one["id"]))] == ["a", "b"]


@pytest.mark.parametrize("fields", [{"state": 1}, {"created_at": 1}, {"metadata": {"attempt": 1}}])
def test_an_entry_that_differs_is_made_anew(fields: dict[str, Any]) -> None:
    """In any field that is decoded."""
    known = Known(container_entry)
    (before,) = known.of([entry("a")])
    (after,) = known.of([entry("a", **fields)])
    assert (before != after, after) == (True, container_entry(entry("a", **fields)))


def test_what_is_listed_no_more_is_forgotten() -> None:
    """However many come and go."""
    known, by_name = Known(container_entry), KnownByName(container_entry)
    for number in range(20):
        known.of([entry(str(number))])
        by_name.of(str(number), entry(str(number)))
        by_name.keep([str(number)])
    assert (len(known._values), len(by_name._values)) == (1, 1)


def test_a_status_that_says_something_else_is_made_anew() -> None:
    """Also in what a runtime says of itself; ``1`` is not ``true``."""
    answers = Answers()
    written = []
    for pid in (1, True, 1):
        answer = message("ContainerStatusResponse", info={"info": json.dumps({"pid": pid})})
        status = answers._statuses.of("a", answer)
        assert status == status_answer(answer)
        node = {"version": {}, "runtimeConfig": None, "containers": {}, "sandboxes": {}, "status": {"a": status}}
        written.append(json.loads(answers.document(node))["status"]["a"]["pid"])
        assert answers.document(node) is answers.document(node)
    assert [repr(pid) for pid in written] == ["1", "True", "1"]


class SlowRuntime:
    """Takes its time for an answer: it writes what it was asked for first. :param said: its answers, one a call."""

    def __init__(self, *said: str) -> None:
        self._said = list(said)
        self.called_ns: list[int] = []
        self.answered_ns: list[int] = []

    def container_messages(self) -> list[Any]:
        return [entry("a")]

    def sandbox_messages(self) -> list[Any]:
        return []

    def status_message(self, container: str) -> Any:
        assert container == "a"
        self.called_ns.append(time.monotonic_ns())
        answer = message("ContainerStatusResponse", info={"info": json.dumps({"runtimeSpec": self._said.pop(0)})})
        self.answered_ns.append(time.monotonic_ns())
        return answer


def test_another_answer_is_so_since_it_was_given_the_same_when_it_was_asked_for() -> None:
    """A runtime that updates a container answers when that is written: its cgroup was another one until then."""
    answers, runtime = Answers(), SlowRuntime("0-3", "0-3", "0-7")
    asked_ns = []
    for _ in range(3):
        answers.listed(cast(Cri, runtime))
        answers.status(cast(Cri, runtime), "a")
        asked_ns.append(answers.asked_ns["a"])

    first, again, other = asked_ns
    assert first > runtime.answered_ns[0]
    assert again <= runtime.called_ns[1]
    assert other > runtime.answered_ns[2]


def test_the_kubelet_is_known_by_its_number_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is read each time; one that is gone, or is another program, is looked for at once."""
    known, proc = KubeletProcess(), tmp_path / "proc"

    def said() -> tuple[str, ...] | None:
        pid = known.pid(proc)
        return None if pid is None else process_arguments(proc, pid)

    assert said() is None
    process(tmp_path, 42, "kubelet", "/kubelet.service", ["--a"])
    assert said() == ("--a",)
    process(tmp_path, 42, "kubelet", "/kubelet.service", ["--b"])
    assert said() == ("--b",)
    process(tmp_path, 50, "kubelet", "/kubelet.service", ["--c"])
    process(tmp_path, 42, "other", "/kubelet.service", [])
    assert said() == ("--c",)
    process(tmp_path, 50, "kubelet", "/kubepods/podu-1/x", [])
    assert said() is None
    process(tmp_path, 50, "kubelet", "/kubelet.service", ["--c"])
    assert said() == ("--c",)

    process(tmp_path, 42, "kubelet", "/kubelet.service", ["--d"])
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + SEARCH_S)
    assert said() == ("--d",)


@pytest.mark.parametrize("words", [["--version"], ["--config=/x", "--version=raw"], ["-h"], ["--help"], None])
def test_a_command_that_asks_a_kubelet_for_its_version_is_none(tmp_path: Path, words: list[str] | None) -> None:
    """It has the kubelet's name, may have a lower number, and may be all there is while the kubelet restarts.

    So may one that has no words: it has ended, or its exec is not done.
    """
    known, proc = KubeletProcess(), tmp_path / "proc"
    process(tmp_path, 9, "kubelet", "/user.slice", words or [])
    if words is None:
        write(tmp_path, "proc/9/cmdline", "")
    assert known.pid(proc) is None
    process(tmp_path, 42, "kubelet", "/kubelet.service", ["--config=/x", "--version=false", "--", "--help"])
    assert known.pid(proc) == 42


def test_what_a_kubelet_was_told_holds_while_none_runs() -> None:
    """A restart changes no promise; one that ends has no words any more."""
    known = KubeletProcess()
    assert known.said(None) is None
    assert known.said(("--a",)) == ("--a",)
    assert known.said(None) == known.said(()) == ("--a",)
    assert known.said(("--b",)) == ("--b",)


def test_a_manifest_that_is_taken_away_is_known_as_long_as_its_pod_is_listed() -> None:
    """Its pod ends some time later, and its promise does not change until then."""
    uid, known = "ab" * 16, StaticPods()
    text = "metadata: {name: web}\nspec: {containers: [{name: app}]}"
    pod = RuntimeContainer(id="1", name="app", pod_uid=uid, pod_name="web-node", state="running")
    there = NodeReading(static_pods=(NamedText(name="web.yaml", text=text),), containers=(pod,))
    first = known.of(there, NodeConfig())
    later = known.of(replace(there, static_pods=()), NodeConfig())
    unasked = known.of(replace(there, static_pods=(), containers=None), NodeConfig())

    assert list(first) == [uid]
    assert first is later is unasked
    assert requested(replace(there, static_pods=(), static_of=later)).pods == requested(there).pods
    assert known.of(replace(there, static_pods=(), containers=()), NodeConfig()) == {}


def static(uid: str, memory: str) -> NodeReading:
    """A node with a manifest of this limit, and a pod of this UID."""
    limit = f"resources: {{limits: {{memory: {memory}}}}}"
    text = f"metadata: {{name: web}}\nspec: {{containers: [{{name: app, {limit}}}]}}"
    pod = RuntimeContainer(id=uid, name="app", pod_uid=uid, pod_name="web-node", state="running")
    return NodeReading(static_pods=(NamedText(name="web.yaml", text=text),), containers=(pod,))


def limits(known: StaticPods, reading: NodeReading) -> dict[str, int]:
    """What the containers of these pods are limited to, in MiB, as one that follows the node knows it."""
    pods = requested(replace(reading, static_of=known.of(reading, NodeConfig()))).pods
    return {uid[:2]: pod.containers[0].limit("memory").value >> 20 for uid, pod in pods.items()}


@pytest.mark.parametrize("same", [True, False], ids=["one-object", "read-anew"])
def test_a_manifest_that_is_edited_is_that_of_the_next_pod(*, same: bool) -> None:
    """The pod that runs goes on with what it was made of, for as long as its containers take to end."""
    known, old, new = StaticPods(), "ab" * 16, "cd" * 16
    before = static(old, "64Mi")
    assert limits(known, before) == {"ab": 64}
    assert limits(known, before if same else static(old, "64Mi")) == {"ab": 64}
    assert limits(known, static(old, "32Mi")) == {"ab": 64}
    both = static(new, "32Mi")
    assert both.containers is not None
    both = replace(both, containers=(*both.containers, *(before.containers or ())))
    assert limits(known, both) == {"ab": 64, "cd": 32}
    assert limits(known, static(new, "32Mi")) == {"cd": 32}


def test_a_manifest_that_was_edited_between_two_lists_is_not_believed_for_good() -> None:
    """It was read before the edit, and the runtime's list after the next pod was made."""
    known, new = StaticPods(), "cd" * 16
    assert limits(known, static(new, "64Mi")) == {"cd": 64}
    assert limits(known, static(new, "32Mi")) == {"cd": 32}


def test_a_description_is_written_when_it_differs() -> None:
    """And only then."""
    kept = ReadingCache()
    first = kept.about({"missing": [{"part": "a", "reason": "b"}]})
    assert kept.about({"missing": [{"part": "a", "reason": "b"}]}) is first
    assert json.loads(kept.about({"missing": []})) == {"missing": []}
