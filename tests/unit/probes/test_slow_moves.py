"""A move whose writer gets no CPU: what a task ran between the kernel's begin and its word."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from probes.switches.records import PODS_IDENT, MoveEvent, Piece
from probes.switches.trails import Trails
from tests.unit.probes.trail_parts import LATER, LONG_AGO, PATIENCE, move, parts, piece, trails_of

SECOND = 10**9


def slow(at_ns: int, begun_ns: int, to: int, before: int) -> MoveEvent:
    """A move of which the kernel says when it began: its writer got no CPU in between."""
    return replace(move(at_ns, to, before), begun_ns=begun_ns)


def marked(trails: Trails, one: Piece) -> list[tuple[int, int, bool]]:
    stays = trails.cut(one, LATER)
    assert stays is not None
    return [(stay.ident, stay.to_ns, stay.joining) for stay in stays]


def test_a_slow_joining_forgives_what_was_after_its_begin() -> None:
    """However long the writer had no CPU: what binds in the claim need not be in force before the kernel says so."""
    trails = trails_of(slow(100 + 10 * PATIENCE, 20, 1, 0))

    assert marked(trails, piece(0, 100, 1)) == [(0, 20, False), (1, 100, True)]
    assert marked(trails, piece(100, 200, 1)) == [(1, 200, True)]
    end = 100 + 10 * PATIENCE
    assert marked(trails, piece(800, 900, 1)) == [(1, end, True), (1, 900, False)]


def test_a_joining_forgives_nothing_before_its_begin() -> None:
    """It was in the claim before anything began to move it, whatever came right after."""
    assert parts(trails_of(slow(110, 105, 1, 0)), piece(0, 100, 1)) == [(1, 0, 100)]


def test_a_slow_leaving_has_left_when_it_began() -> None:
    """What binds the claim's tasks may be gone for it long before the word."""
    trails = trails_of(move(LONG_AGO, 1, 0), slow(500, 60, 0, 1))

    assert marked(trails, piece(0, 100, 0, (1, LONG_AGO))) == [(1, 60, False), (0, 100, True)]


def test_from_one_pod_to_another_it_is_a_pod_s_all_the_time() -> None:
    """Time on an exclusive CPU is not forgiven for a move between two that must not be there."""
    trails = trails_of(move(LONG_AGO, PODS_IDENT, 0), slow(90, 10, PODS_IDENT, PODS_IDENT))

    assert marked(trails, piece(0, 100, PODS_IDENT)) == [(PODS_IDENT, 90, False), (PODS_IDENT, 100, False)]


def test_a_move_that_is_under_way_is_waited_for() -> None:
    """Beyond the patience; when it has ended without a word for this task, it was there all the time."""
    begun: list[int] = [50]
    trails = Trails(PATIENCE, lambda: tuple(begun))
    one = piece(0, 100, 1)

    def heard(times: int = 1) -> object:
        return [parts(trails, one, heard_ns=time.monotonic_ns() + SECOND) for _ in range(times)][-1]

    assert heard(5) is None
    begun[:] = [101]  # another one, later than the interval: it explains nothing
    assert heard(3) == [(1, 0, 100)]


def test_what_ended_while_nothing_listened_is_heard_first() -> None:
    """A move that is not under way any more has sent its word: the look must be older than what was heard."""
    trails = Trails(PATIENCE, tuple)
    one, heard_ns = piece(0, 100, 1), 100 + PATIENCE + 1

    assert [parts(trails, one, heard_ns=heard_ns) for _ in range(3)] == [None, None, None]
    trails.add(slow(300, 20, 1, 0))
    assert parts(trails, one, heard_ns=heard_ns) == [(0, 0, 20), (1, 20, 100)]


@given(st.lists(st.tuples(st.integers(-50, 150), st.integers(1, 30)), max_size=8), st.integers(0, 3))
def test_the_parts_are_the_interval_however_slow_the_moves(moves: list[tuple[int, int]], first: int) -> None:
    """No time is lost and none counted twice; a part in the middle of a move is marked, and is where it leads."""
    ends = dict(sorted(moves))
    times = [*itertools.accumulate(ends, lambda end, at: max(at, end + ends[at]))]
    idents = [first, *((first + 1 + index) % 4 for index in range(len(times)))]
    begins = [at - ends[key] for at, key in zip(times, ends, strict=True)]
    assume(0 not in begins)  # that is: not known
    events = [
        slow(at, begin, idents[n + 1], idents[n]) for n, (at, begin) in enumerate(zip(times, begins, strict=True))
    ]
    one = piece(0, 100, idents[sum(begin < 100 for begin in begins)])
    stays = trails_of(*events).cut(one, LATER)

    assert stays is not None
    assert (stays[0].from_ns, stays[-1].to_ns) == (0, 100)
    for last, stay in itertools.pairwise(stays):
        assert last.to_ns == stay.from_ns
    for stay in stays:
        under_way = [n for n, (begin, at) in enumerate(zip(begins, times, strict=True)) if begin <= stay.from_ns < at]
        assert stay.joining == bool(under_way)
        assert stay.ident == idents[sum(begin <= stay.from_ns for begin in begins)]
