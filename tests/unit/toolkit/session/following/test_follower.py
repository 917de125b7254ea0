"""A source is followed: what it says becomes claims of a real observer; only the kernel's maps are stood in for."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from probes.edge import Edge
from probes.options import MAX_LEVEL
from probes.readings import Moment
from probes.window import Window
from tests.unit.probes.readings import FRAME
from tests.unit.toolkit.session.followed import FOR_EVER, ROOM, Node, owes
from toolkit.model.claims import Claim, ClaimSet, Isolation, SubjectKind
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.held import OWING, Why
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_reading import MissingPart
from toolkit.session.engine.observe import Observation
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.live_source import SourceReading
from toolkit.sources.registry import BY_NAME
from validators.queries import view


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_subject_comes_changes_and_goes(node: Node) -> None:
    """Each is a line; what is promised is what was said last."""
    node.say(node.claim("a"))
    node.say(node.claim("a", "0-1"), node.claim("b"))
    assert (node.watched, str(node.observer.subjects["a"].cpus)) == ({"a", "b"}, "0-1")
    assert {claim.name: str(claim.cpus) for claim in node.follower.claims().claims} == {"a": "0-1", "b": "0"}
    node.say(node.claim("b"))
    assert (node.watched, node.lines[-1]) == ({"b"}, "a ended")
    assert node.spots() == []


@pytest.mark.parametrize("source", [KubeletSource.name, *BY_NAME])
def test_a_change_is_its_sources(node: Node, source: str) -> None:
    """A transition names what gave other CPUs, and moves the promise with it."""
    node.source.name = source
    node.say(node.claim("a"))
    first = Edge(moment=Moment(at_ns=0), found={})
    node.observer.window = window = Window(
        ledger=node.observer.ledger, subjects=node.observer.subjects, number=0, first=first, started_at=""
    )
    node.say(node.claim("a", "0-1"))

    assert [(change.what, change.cause) for change in window.transitions] == [("mask-change", source)]
    assert view.mask_changes("a", window.transitions) == tuple(window.transitions)


def test_cpus_that_came_were_granted_since_the_reading_before(node: Node) -> None:
    """Until they are watched as the claim's: by a reading that was applied, or by one that is not yet."""
    node.say(node.claim("a"), node.claim("b"))
    before_ns = node.follower._applied_ns
    node.say(node.claim("a", "0-1"), node.claim("b", "0"))
    node.source.next.append(SourceReading(claims=ClaimSet(claims=(node.claim("a", "0-1"), node.claim("b", "0,2")))))
    node.follower._reader.first()
    frame = replace(FRAME, first=Moment(at_ns=0), last=Moment(at_ns=time.monotonic_ns()))
    came, late = node.follower.node_evidence(frame).held

    assert (came.claim, str(came.cpus), came.from_ns) == ("a", "1", before_ns)
    assert came.from_ns < came.to_ns < frame.end_ns < late.to_ns < time.monotonic_ns()
    assert (late.claim, str(late.cpus), late.from_ns) == ("b", "2", node.follower._applied_ns)


def test_a_grant_reaches_beyond_the_window_in_which_it_was_given(node: Node) -> None:
    """What runs at a window's end is counted a little longer: until its CPU has gone over to the next window."""
    node.say(node.claim("a"))
    end_ns = time.monotonic_ns()
    node.say(node.claim("a", "0-1"))
    (granted,) = node.follower.node_evidence(replace(FRAME, first=Moment(at_ns=0), last=Moment(at_ns=end_ns))).held

    assert end_ns < granted.to_ns < time.monotonic_ns()


def test_what_came_before_the_first_look_was_granted_since_the_first_reading(node: Node) -> None:
    """A claim has the CPUs of the first reading from its begin on: nothing was given to it before that."""
    source, follower = node.source, node.follower
    source.next += [SourceReading(claims=ClaimSet(claims=(node.claim("a", cpus),))) for cpus in ("0", "0-1")]
    before_ns = time.monotonic_ns()
    node.observer.add_claim(follower.first().claims[0])
    after_ns = time.monotonic_ns()
    follower._reader.first()
    follower.apply_reading(cast(Observation, node))
    (granted,) = follower.node_evidence(replace(FRAME, first=Moment(at_ns=0), last=Moment(at_ns=FOR_EVER))).held

    assert before_ns <= granted.from_ns <= after_ns


@pytest.mark.parametrize("asked_again", [True, False])
def test_what_the_runtime_was_not_asked_for_was_granted_since_it_was_asked(node: Node, *, asked_again: bool) -> None:
    """At the second reading its word was of the first: layers had agreed until then, and nothing asked."""
    follower = node.follower

    def say(cpus: str, asked_ns: int) -> None:
        view = LayerView(claim="a", layer=Layer.RUNTIME, at_ns=asked_ns, cpus=CpuSet.parse(cpus))
        node.say(node.claim("a", cpus), layers=(view,))

    first_ns = time.monotonic_ns()
    say("0", first_ns)
    applied_ns = follower._applied_ns
    say("0", time.monotonic_ns() + 10**9 if asked_again else first_ns)
    again_ns = follower._applied_ns
    say("0-1", time.monotonic_ns())
    (granted,) = follower.node_evidence(replace(FRAME, first=Moment(at_ns=0), last=Moment(at_ns=FOR_EVER))).held

    assert first_ns < applied_ns < again_ns
    assert granted.from_ns == (again_ns if asked_again else applied_ns)


def test_a_cpu_is_known_to_be_a_claims_by_a_reading_after_it_was_used(node: Node) -> None:
    """Not by the one before: that the claim has it now says nothing of then."""
    node.say(node.claim("a"))
    node.say(node.claim("a", "0-1"))
    applied_ns = node.follower._applied_ns

    assert [node.follower.knows("a", cpu, applied_ns - 1) for cpu in (0, 1, 2)] == [True, True, False]
    assert node.follower.knows("a", 1, applied_ns) is None


def test_one_that_restarts_in_another_cgroup_is_the_same_subject(node: Node) -> None:
    """It is added anew under its name, and no line says that it ended."""
    node.say(node.claim("a"))
    node.say(replace(node.claim("a2"), name="a"))
    assert node.observer.subjects["a"].claim.cgroup == "/a2"
    assert "a ended" not in node.lines


def test_a_pod_in_which_nothing_is_watched_is_promised_nothing(node: Node) -> None:
    """Its files are read as those above a claim: not where its containers are gone, or none could be watched."""
    pod = Claim(name="p/(pod)", cgroup="/p", kind=SubjectKind.POD)
    node.say(node.claim("a"), node.claim("p/main"), pod)
    assert pod in node.follower.claims().claims
    node.observer.subjects["p/main"].gone = True
    node.say(node.claim("a"), pod)
    assert [claim.name for claim in node.follower.claims().claims] == ["a"]


def test_what_a_source_does_not_list_while_it_cannot_be_asked_goes_on(node: Node) -> None:
    """Only a cgroup that is gone ends a claim then, by the kernel's report or by the tree itself."""
    node.say(node.claim("a"), node.claim("b"), node.claim("c"))
    node.observer.subjects["b"].gone = True
    (node.tree / "c").rmdir()
    node.say(complete=False)
    assert node.watched == {"a"}


@pytest.mark.parametrize("new", [{"isolation": Isolation.CONTAINER}, {"cpus": None}])
def test_a_cgroup_that_vanishes_while_its_claim_changes_ends(node: Node, new: dict[str, Any]) -> None:
    """What must be added anew cannot be: the claim ends, and nothing else happens to the watch."""
    node.say(node.claim("a"), node.claim("b"))
    changed = replace(node.claim("a"), **new)
    (node.tree / "a").rmdir()
    node.say(changed, node.claim("b"))
    assert (node.watched, node.lines[-1], node.spots()) == ({"b"}, "a ended", [])
    assert [claim.name for claim in node.follower.claims().claims] == ["b"]
    node.say(node.claim("a"), node.claim("b"))
    assert node.watched == {"a", "b"}


def test_one_that_vanished_before_it_was_watched_is_no_news(node: Node) -> None:
    """The source names it, the cgroup is gone: neither a claim nor a blind spot."""
    gone = Claim(name="gone", cgroup="/gone", cpus=CpuSet.parse("0"))
    node.say(node.claim("a"), gone)
    node.say(node.claim("a"), gone)
    assert (node.watched, node.spots()) == ({"a"}, [])
    assert not any("gone" in line for line in node.lines)


def test_one_beyond_the_room_is_a_blind_spot_until_there_is_room(node: Node) -> None:
    """Every witness is doubted from then on; it is said once; when another ends it is watched, and nothing is blind."""
    four = [node.claim(name) for name in "abcd"]
    node.say(*four)
    node.say(*four)
    assert (node.watched, len(node.lines)) == ({"a", "b", "c"}, 1)
    (said,) = [line for line in node.lines if line.startswith("d is not watched")]
    assert f"more than {ROOM}" in said
    (spot,) = node.spots()
    assert spot.startswith("1 subject not watched: d: more than")
    node.say(*four[1:])
    assert (node.watched, node.spots()) == ({"b", "c", "d"}, [])
    assert len(node.observer.blindness.within(0, FOR_EVER)) == 1, "the windows until then keep it"


@pytest.mark.parametrize("path", ["/".join("abcdefghijklmnopqrstuvwxyz"[: MAX_LEVEL + 1]), ""], ids=["deep", "root"])
def test_a_cgroup_that_cannot_be_watched_is_said(node: Node, path: str) -> None:
    """Too deep for the programs, or the root: from the first look on a line and a blind spot."""
    (node.tree / path).mkdir(parents=True, exist_ok=True)
    node.say(node.claim("a"), Claim(name="x", cgroup=f"/{path}", cpus=CpuSet.parse("0")))
    assert node.watched == {"a"}
    assert [line.partition(":")[0] for line in node.lines] == ["x is not watched"]
    assert len(node.spots()) == 1


def test_what_a_source_leaves_out_is_a_blind_spot(node: Node) -> None:
    """It runs and has no claim."""
    left_out = (MissingPart(part="x", reason="there are too many"),)
    node.say(node.claim("a"), left_out=left_out)
    assert node.spots() == ["1 subject not watched: x: there are too many"]
    node.say(node.claim("a"))
    assert node.spots() == []


def test_where_all_pods_are_is_published_when_it_is_known(node: Node) -> None:
    """A node that begins without it; a reading that does not say it takes nothing back; another takes its place."""
    node.say(node.claim("a"))
    assert node.observer.pods is None
    for root, known in (("/kubepods", "/kubepods"), (None, "/kubepods"), ("/kubepods.slice", "/kubepods.slice")):
        node.say(node.claim("a"), pods_root=root)
        assert node.observer.pods is not None
        assert (node.observer.pods.path, node.follower.claims().pods_root) == (known, known)
    assert [line for line in node.lines if line.startswith("pods")] == [
        "pods are in /kubepods",
        "pods are in /kubepods.slice",
    ]


def test_cpus_that_must_be_given_back_bind_as_a_transition(node: Node) -> None:
    """Once, until they have been given back; of one that ends nothing is owed any more."""
    node.say(node.claim("a", "0-1"), held=(owes("a", "1"),), give_back_s=5.0)
    (first,) = node.follower._history._held.rows
    node.say(node.claim("a", "0-1"), held=(owes("a", "1"),), give_back_s=5.0)
    assert node.follower._history._held.rows == (first,)
    node.say()
    (done,) = node.follower._history._held.rows
    assert not done.is_open
    assert node.watched == set()


def test_a_debt_that_is_cancelled_leaves_the_set_whole(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet takes CPUs for a pod that it refuses, and gives them back before any reconcile: nothing has changed."""
    published: list[tuple[str, str]] = []

    def publish(_subject: object, cpus: CpuSet, grace: CpuSet = EMPTY, _until_ns: int = 0) -> None:
        published.append((str(cpus), str(grace)))

    monkeypatch.setattr(node.observer, "publish", publish)
    node.say(node.claim("a", "0-1"))
    published.clear()
    node.say(node.claim("a", "0-1"), held=(owes("a", "1"),), give_back_s=5.0)
    node.say(node.claim("a", "0-1"))
    node.say(node.claim("a", "0-1"))
    assert published == [("0", "1"), ("0-1", "")]


def test_what_is_owed_by_another_kind_of_promise_is_told_anew(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim of the pool is exclusive now: it is watched anew, and CPU 1 is not its own without a bound."""
    node.say(node.claim("a", "0-1"), held=(owes("a", "1"),), give_back_s=60.0)
    published: list[str] = []
    monkeypatch.setattr(node.observer, "give_back", lambda _name, cpus, _until_ns: published.append(str(cpus)))
    node.say(node.claim("a", "0-1", isolation=Isolation.CONTAINER), held=(owes("a", "1"),), give_back_s=60.0)
    assert published == ["1"]
    node.say(node.claim("a", "0-1", isolation=Isolation.CONTAINER), held=(owes("a", "1"),), give_back_s=60.0)
    assert published == ["1"]


def test_cpus_that_another_owns_by_now_have_no_time(node: Node) -> None:
    """Whatever time there was before: from then on, and since then as long as they are not given back."""
    node.say(node.claim("a", "0-1"), held=(owes("a", "1"),), give_back_s=60.0)
    (late,) = node.follower._history._held.open(*OWING)
    node.say(node.claim("a", "0-1"), held=(owes("a", "1", Why.TAKEN),), give_back_s=60.0)
    (twice,) = node.follower._history._held.open(*OWING)
    node.say(node.claim("a", "0-2"), held=(owes("a", "1-2", Why.TAKEN),), give_back_s=60.0)
    (more,) = node.follower._history._held.open(*OWING)

    assert [node.follower.knows("a", cpu, 0) for cpu in (0, 1)] == [True, False]
    assert late.due_ns == late.from_ns + 60 * 10**9
    assert late.from_ns < twice.from_ns == twice.due_ns
    assert (more.from_ns, more.due_ns) == (twice.from_ns, twice.due_ns)


def test_a_source_that_could_not_ask_knows_the_shared_pool(node: Node) -> None:
    """Its CPUs, which a file says; of all else it says less, and what was said before holds."""
    mine = Claim(name="own", cgroup="/own", cpus=CpuSet.parse("2"), isolation=Isolation.CONTAINER, quota_us=-1)
    (node.tree / "own").mkdir()
    node.say(node.claim("a", quota_us=1_000), mine)
    node.say(node.claim("a", "0-1"), replace(mine, cpus=CpuSet.parse("3")), complete=False)
    now = {claim.name: claim for claim in node.follower.claims().claims}

    assert (str(now["a"].cpus), now["a"].quota_us, str(now["own"].cpus)) == ("0-1", 1_000, "2")
    assert str(node.observer.subjects["a"].cpus) == "0-1"
    (granted,) = node.follower.node_evidence(replace(FRAME, first=Moment(at_ns=0), last=Moment(at_ns=FOR_EVER))).held
    assert (granted.claim, str(granted.cpus)) == ("a", "1")


def test_what_is_promised_anew_is_what_is_watched(node: Node) -> None:
    """How short slots are and where a task may be by mistake hang on it: a quota, memory nodes, a part."""
    node.say(node.claim("a"))
    node.say(node.claim("a", "0-1", quota_us=50_000, mems=CpuSet.parse("0")))
    (subject,) = node.observer.subjects.values()
    assert subject.claim == node.claim("a", "0-1", quota_us=50_000, mems=CpuSet.parse("0"))
    assert subject.now == subject.claim
