"""Lives that a source does not list although their tasks run, and second lives of one name: for every source alike."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from probes.readings import Moment
from tests.unit.probes.readings import FRAME
from tests.unit.toolkit.session.followed import FOR_EVER, Node, owes
from toolkit.model.claims import Claim, ClaimSet, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import Held, Why
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_reading import MissingPart
from toolkit.session.following.lives import SAID_NS, Lives
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.live_source import SourceReading
from toolkit.sources.registry import BY_NAME

SOURCES = [KubeletSource.name, *BY_NAME]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def reading_of(*claims: Claim) -> SourceReading:
    """Return what a source says that lists these."""
    return SourceReading(claims=ClaimSet(claims=claims))


def works(node: Node, name: str, *tids: int) -> None:
    """Let these tasks be in a cgroup."""
    (node.tree / name / "cgroup.threads").write_text("".join(f"{tid}\n" for tid in tids))


@pytest.mark.parametrize("source", SOURCES)
def test_one_that_is_not_listed_and_whose_tasks_run_goes_on(node: Node, source: str) -> None:
    """Whatever is followed: the same subject, the same promise, no line that it ended or began."""
    node.source.name = source
    node.say(node.claim("a", quota_us=50_000), node.claim("b"))
    works(node, "a", 17)
    watched = node.observer.subjects["a"]
    for _ in range(2):
        node.say(node.claim("b"))
        assert node.observer.subjects.get("a") is watched
        assert node.claim("a", quota_us=50_000) in node.follower.claims().claims
    node.say(node.claim("a", "0-1", quota_us=50_000), node.claim("b"))
    assert node.observer.subjects["a"] is watched
    assert str(watched.cpus) == "0-1"
    assert node.lines == []
    works(node, "a")
    node.say(node.claim("b"))
    assert (node.watched, node.lines) == ({"b"}, ["a ended"])


def test_tasks_below_its_cgroup_are_its_own(node: Node) -> None:
    """An init system in a container makes cgroups of its own."""
    node.say(node.claim("a"))
    (node.tree / "a/inner").mkdir()
    works(node, "a/inner", 17)
    node.say()
    assert node.watched == {"a"}


def test_an_end_that_the_kernel_reports_counts(node: Node) -> None:
    """It had tasks when the list was read, and its cgroup is gone since then."""
    node.say(node.claim("a"))
    works(node, "a", 17)
    node.observer.subjects["a"].gone = True
    node.say()
    assert (node.watched, node.lines) == (set(), ["a ended"])


def test_one_whose_promise_was_taken_back_is_promised_nothing(node: Node) -> None:
    """``systemctl set-property UNIT AllowedCPUs=``: listed, running, without any limit."""
    node.say(node.claim("a"), node.claim("b"))
    works(node, "a", 17)
    node.say(node.claim("b"), unpromised=frozenset({"/a"}))
    assert (node.watched, node.lines) == ({"b"}, ["a ended"])


def test_what_its_pod_was_promised_goes_on_with_it(node: Node) -> None:
    """The pod's own cgroup runs no tasks; it ends with the last life in it."""
    pod = Claim(name="p/(pod)", cgroup="/p", kind=SubjectKind.POD, quota_us=100_000)
    other = Claim(name="q/(pod)", cgroup="/q", kind=SubjectKind.POD, quota_us=100_000)
    node.say(node.claim("p/main"), pod, node.claim("q/main"), other)
    works(node, "p/main", 17)
    node.say()
    assert {claim.name for claim in node.follower.claims().claims} == {"p/main", "p/(pod)"}
    works(node, "p/main")
    node.say()
    assert node.follower.claims().claims == ()


@pytest.mark.parametrize("source", SOURCES)
def test_one_that_is_not_listed_for_long_is_named(tmp_path: Path, source: str) -> None:
    """Not at once: one that ends has tasks for a moment after it was listed last."""
    node = Node(tmp_path)
    a = node.claim("a")
    works(node, "a", 17)
    lives = Lives(source, node.observer.hierarchy)
    first = lives.of(reading_of(a), 0)
    assert first.unlisted == frozenset()
    early, late = lives.of(reading_of(), 1), lives.of(reading_of(), 1 + SAID_NS)
    assert (early.unlisted, early.missing) == (frozenset({"a"}), ())
    assert [part.part for part in late.missing] == ["a"]
    assert late.missing[0].reason == f"{source} does not list it, and /a has tasks: what it was promised last goes on"


def test_a_second_life_of_one_name_has_a_number_as_long_as_it_lives(node: Node) -> None:
    """Also while the first is not listed any more and its tasks run; the names that its source gives change."""
    first, second = node.claim("a"), replace(node.claim("a2"), name="a")
    node.say(first)
    works(node, "a", 17)
    node.say(second)
    assert {name: one.claim.cgroup for name, one in node.observer.subjects.items()} == {"a": "/a", "a#2": "/a2"}
    node.say(replace(first, name="a@old"), second)
    assert {name: one.claim.cgroup for name, one in node.observer.subjects.items()} == {"a": "/a", "a#2": "/a2"}
    works(node, "a")
    node.say(second)
    assert node.watched == {"a#2"}


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_said_of_a_second_life_is_said_by_its_name(node: Node, source: str) -> None:
    """Layers, debts with their time, and what the source does not know: else it has no verdict and no grace."""
    node.source.name = source
    node.say(node.claim("a"))
    works(node, "a", 17)
    second, cpus = replace(node.claim("a2", "0-1"), name="a"), CpuSet.parse("1")
    at_ns = time.monotonic_ns()
    layer = LayerView(claim="a", layer=Layer.RUNTIME, at_ns=at_ns, cpus=CpuSet.parse("0-1"))
    node.say(
        second,
        replace(node.claim("a"), name="a@old"),
        layers=(layer, replace(layer, claim="a@old", cpus=CpuSet.parse("0"))),
        give_back_s=60.0,
        held=(owes("a", "1", since_ns=at_ns), Held(claim="a", cpus=cpus, why=Why.FORGOTTEN, asks=1)),
        missing=(MissingPart(part="a", reason="its memory is not judged"),),
    )
    frame = replace(FRAME, first=Moment(at_ns=0), last=Moment(at_ns=FOR_EVER))
    stated = node.follower.node_evidence(frame)
    assert {(view.claim, str(view.cpus)) for view in stated.layers} == {("a#2", "0-1"), ("a", "0")}
    forgotten, back = stated.held
    assert (back.claim, back.from_ns, back.due_ns) == ("a#2", at_ns, at_ns + 60 * 10**9)
    assert (forgotten.claim, forgotten.why) == ("a#2", Why.FORGOTTEN)
    assert stated.following is not None
    assert stated.following.missing == ("a#2: its memory is not judged",)


def test_a_life_that_comes_before_the_first_is_applied_keeps_its_name(node: Node) -> None:
    """Names are those of readings, also of those that were not applied."""
    node.say(node.claim("a"))
    works(node, "a", 17)
    second = replace(node.claim("a2"), name="a")
    node.source.next.append(reading_of(second))
    node.follower._reader.first()
    works(node, "a")
    node.say(second)
    assert {name: one.claim.cgroup for name, one in node.observer.subjects.items()} == {"a#2": "/a2"}


def test_one_of_its_own_cpus_goes_on_beside_the_next_owner(node: Node) -> None:
    """A source that gave them away while its tasks run: both are watched."""
    own = {"isolation": Isolation.CONTAINER}
    node.say(node.claim("a", "1", **own))
    works(node, "a", 17)
    node.say(node.claim("b", "1", **own))
    assert {name: str(one.cpus) for name, one in node.observer.subjects.items()} == {"a": "1", "b": "1"}
