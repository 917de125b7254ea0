"""The thread that reads a source: it goes on whatever happens, and reads at once when it is asked."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from probes.readings import Frame, Moment
from tests.unit.probes.readings import FRAME
from tests.unit.toolkit.session.followed import Node
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence.following import Following
from toolkit.session.engine.observe import Observation
from toolkit.sources.live_source import SourceReading


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("tool", "hangs", "an answer"), "tool: tool: hangs; expected an answer"),
        (KeyError("a\x1b[2J"), "tool: could not be read: KeyError: 'a\\x1b[2J'"),
        (RecursionError("x" * 1000), f"tool: could not be read: RecursionError: {'x' * 200}"),
    ],
    ids=["foreseen", "unforeseen", "long"],
)
def test_a_reading_that_fails_is_written_down_and_the_next_one_counts(node: Node, error: Exception, said: str) -> None:
    """The thread that reads goes on, whatever was raised; a window learns how often it was asked in vain, and why."""
    answers: deque[Callable[[], SourceReading]] = deque()

    def read() -> SourceReading:
        answer = answers.popleft() if answers else lambda: SourceReading(claims=ClaimSet(claims=()))
        return answer()

    def fails() -> SourceReading:
        raise error

    node.say(node.claim("a"))
    node.source.read = read  # type: ignore[method-assign]
    node.source.every_s = 0.01
    answers += [fails, fails]
    with node.follower:
        stated_in = node.follower._history.node_evidence
        start, deadline = time.monotonic_ns(), time.monotonic() + 120
        while True:
            following = stated_in(start - 10**9, time.monotonic_ns() - start + 10**9).following
            assert following is not None
            if following.readings > 1 and following.unanswered == 2:
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert said in following.missing


def test_places_that_cannot_be_named_end_no_reading(node: Node) -> None:
    """Where to look for changes fails, too: that is said, and the source is read when it is time."""

    def signs() -> Sequence[Path]:
        raise TypeError("no path")

    node.say(node.claim("a"))
    node.source.read = lambda: SourceReading(claims=ClaimSet(claims=()))  # type: ignore[method-assign]
    node.source.signs, node.source.every_s = signs, 0.01  # type: ignore[method-assign]
    start = time.monotonic_ns()
    with node.follower:
        until(lambda: word_since(node, start).readings > 1)
    assert "tool: could not be read: TypeError: no path" in word_since(node, start).missing


def until(done: Callable[[], bool]) -> None:
    """Wait until something is the case."""
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def window(start_ns: int, end_ns: int) -> Frame:
    """What a follower asks of a window: when it was."""
    return replace(FRAME, first=Moment(at_ns=start_ns), last=Moment(at_ns=end_ns))


def word_since(node: Node, start_ns: int) -> Following:
    following = node.follower.node_evidence(window(start_ns, time.monotonic_ns())).following
    assert following is not None
    return following


def test_a_source_that_is_asked_is_read_in_a_moment(node: Node) -> None:
    """Long before it is time: a reading that began after the question, whose claims are the window's later ones; what
    the window knows has the time of the reading before. No source is asked once the watch is over.
    """
    start = time.monotonic_ns()
    node.say(node.claim("a"))
    known = time.monotonic_ns()
    new = node.claim("b")
    node.source.next.append(SourceReading(claims=ClaimSet(claims=(node.claim("a"), new))))
    with node.follower:
        asked = time.monotonic_ns()
        until(node.follower.ask())
        stated = node.follower.node_evidence(window(start, asked))
        assert stated.following is not None
        assert stated.following.last_reading_ns is not None
        assert 0 <= stated.following.last_reading_ns <= known - start
        assert stated.later == (new,)
        node.follower.apply_reading(cast(Observation, node))
        after = node.follower.node_evidence(window(start, time.monotonic_ns()))
        assert after.following is not None
        assert after.following.last_reading_ns is not None
        assert (after.following.last_reading_ns >= asked - start, after.later) == (True, ())
    assert node.follower.ask()()


def test_a_question_costs_one_reading(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the answer looks while it is read: that asks for no other one."""
    node.say(node.claim("a"))
    reads: list[int] = []
    go_on = threading.Event()

    def read() -> SourceReading:
        reads.append(len(reads))
        assert go_on.wait(120)
        return SourceReading(claims=ClaimSet(claims=(node.claim("a"),)))

    monkeypatch.setattr(node.source, "read", read)
    with node.follower:
        heard = node.follower.ask()
        until(lambda: heard() or bool(reads))
        assert not any(heard() for _ in range(3))
        go_on.set()
        until(heard)
        until(node.follower.ask())
    assert len(reads) == 2


def test_a_question_that_fails_is_over_too(node: Node) -> None:
    """A window waits for an attempt, not for an answer."""
    node.say(node.claim("a"))
    with node.follower:
        until(node.follower.ask())  # no reading is left: IndexError
    assert node.follower.node_evidence(window(0, time.monotonic_ns())).later == ()


def test_what_cannot_be_watched_is_no_later_claim(node: Node) -> None:
    """The window knew it, and said why it is not watched."""
    four = [node.claim(name) for name in "abcd"]
    node.say(*four)
    node.source.next.append(SourceReading(claims=ClaimSet(claims=tuple(four))))
    with node.follower:
        until(node.follower.ask())
        assert node.follower.node_evidence(window(0, time.monotonic_ns())).later == ()
