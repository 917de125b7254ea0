"""A source is followed: what it says becomes claims of a real observer; only the kernel's maps are stood in for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from probes.observer import Observer
from probes.options import MAX_LEVEL, ObserveOptions
from probes.switches.ledger import Ledger
from toolkit.errors import InputError
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.blind_spots import EVERY_WITNESS
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import MissingPart
from toolkit.session.following import Follower
from toolkit.session.observe import Observation
from toolkit.sources.live_source import SourceReading

ROOM = 3
FOR_EVER = 1 << 62


class Source:
    """A :class:`toolkit.sources.live_source.LiveSource` whose readings are written down beforehand."""

    name, every_s = "tool", 3600.0

    def __init__(self) -> None:
        self.next: deque[SourceReading] = deque()

    def read(self) -> SourceReading:
        return self.next.popleft()

    def signs(self) -> Sequence[Path]:
        return ()


class Kernel:
    """Takes everything that an observer publishes."""

    options = ObserveOptions(max_claims=ROOM)
    members_lost = 0
    threads = None

    def __init__(self) -> None:
        self._idents = 0

    def new_ident(self) -> int:
        self._idents += 1
        return self._idents

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_keys: None


class Node:
    """A source, its follower, and what an observation over a tree of cgroups in a folder would be to it."""

    def __init__(self, tree: Path) -> None:
        self.tree, self.source, self.lines = tree, Source(), list[str]()
        self.follower = Follower(self.source, self.lines.append)
        self.observer = Observer(ClaimSet(claims=()), ledger=cast(Ledger, Kernel()), witnesses=())
        self.observer.hierarchy = Hierarchy(root=tree, mode=Mode.V2, unified=tree)
        self.begun = False

    def promise(self, claim: Claim) -> None:
        """A window would write it down."""

    def say(self, *claims: Claim, **more: Any) -> None:
        """Let the source say this, and the follower apply it."""
        root = more.pop("pods_root", None)
        self.source.next.append(SourceReading(claims=ClaimSet(claims=claims, pods_root=root), **more))
        if not self.begun:
            self.begun = True
            for claim in self.follower.first().claims:
                with suppress(InputError):  # as an observation begins that is lenient
                    self.observer.add_claim(claim)
        else:
            self.follower._latest = self.source.read()
        self.follower.look(cast(Observation, self))

    def claim(self, name: str, cpus: str = "0", **more: Any) -> Claim:
        """Make a cgroup, and return a claim about it."""
        (self.tree / name).mkdir(exist_ok=True, parents=True)
        return Claim(name=name, cgroup=f"/{name}", cpus=CpuSet.parse(cpus), **more)

    @property
    def watched(self) -> set[str]:
        return set(self.observer.subjects)

    def spots(self) -> list[str]:
        """Return the blind spots that concern what comes; each must be every witness's and have a beginning."""
        found = self.observer.blindness.within(FOR_EVER, FOR_EVER)
        assert all(set(spot.witnesses) == set(EVERY_WITNESS) and spot.start_at_ns is not None for spot in found)
        return [spot.text for spot in found]


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


def test_one_that_restarts_in_another_cgroup_is_the_same_subject(node: Node) -> None:
    """It is added anew under its name, and no line says that it ended."""
    node.say(node.claim("a"))
    node.say(replace(node.claim("a2"), name="a"))
    assert node.observer.subjects["a"].claim.cgroup == "/a2"
    assert "a ended" not in node.lines


def test_what_a_source_does_not_list_while_it_cannot_be_asked_goes_on(node: Node) -> None:
    """Only a cgroup that is gone ends a claim then."""
    node.say(node.claim("a"), node.claim("b"))
    node.observer.subjects["b"].gone = True
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
    node.say(node.claim("a", "0-1"), giving_back={"a": CpuSet.parse("1")}, give_back_s=5.0)
    (first,) = node.follower._said._back
    node.say(node.claim("a", "0-1"), giving_back={"a": CpuSet.parse("1")}, give_back_s=5.0)
    assert node.follower._said._back == [first]
    node.say()
    (done,) = node.follower._said._back
    assert done.until_ns is not None
    assert node.watched == set()


def test_a_reading_that_fails_is_written_down_and_the_next_one_counts(node: Node) -> None:
    """The thread that reads goes on; a window learns how often it was asked in vain."""
    answers: deque[Callable[[], SourceReading]] = deque()

    def read() -> SourceReading:
        answer = answers.popleft() if answers else lambda: SourceReading(claims=ClaimSet(claims=()))
        return answer()

    def fails() -> SourceReading:
        raise InputError("tool", "hangs", "an answer")

    node.say(node.claim("a"))
    node.source.read = read  # type: ignore[method-assign]
    node.source.every_s = 0.01
    answers += [fails, fails]
    with node.follower:
        word = node.follower._said.word
        start, deadline = time.monotonic_ns(), time.monotonic() + 20
        while True:
            following = word(start - 10**9, time.monotonic_ns() - start + 10**9).following
            assert following is not None
            if following.readings > 1 and following.unanswered == 2:
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "tool: tool: hangs; expected an answer" in following.missing
