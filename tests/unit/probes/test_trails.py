"""An interval, cut where its task was moved: every moment counts for where the task was then."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.switches import trails as module
from probes.switches.records import (
    EVENT_COMPLETE,
    EVENT_ENDED,
    PIECE_INCOMPLETE,
    PIECE_OVERLOOKED,
    PIECE_UNANNOUNCED,
    MoveEvent,
    Piece,
)
from probes.switches.trails import KEEP_NS, MAX_MOVES, Trails
from tests.unit.probes.trail_parts import LATER, LONG_AGO, PATIENCE, move, parts, piece, trails_of


def joining(at_ns: int, to: int) -> MoveEvent:
    return replace(move(at_ns, to, 0), incomplete=1)


def completed(at_ns: int, to: int, joined_ns: int) -> MoveEvent:
    return MoveEvent(EVENT_COMPLETE, 1, at_ns, 0, joined_ns, 0, 10, 10, 0, to, to, 0)


def test_a_stay_inside_an_interval_is_exactly_as_long_as_it_was() -> None:
    """Moved in at 20 and out at 60, by whomever, while it ran from 0 to 100."""
    trails = trails_of(move(20, 1, 0), move(60, 0, 1))

    assert parts(trails, piece(0, 100, 0, (0, 60))) == [(0, 0, 20), (1, 20, 60), (0, 60, 100)]


def test_a_hop_between_two_claims_is_cut_where_it_was() -> None:
    """Each claim has its own time."""
    trails = trails_of(move(LONG_AGO, 1, 0), move(40, 2, 1))

    assert parts(trails, piece(0, 100, 2, (2, 40))) == [(1, 0, 40), (2, 40, 100)]


def test_a_move_at_the_moment_when_an_interval_begins_belongs_to_it() -> None:
    """Switched in by the move itself: nothing of the interval was before it."""
    trails = trails_of(move(LONG_AGO, 1, 0), move(0, 2, 1))

    assert parts(trails, piece(0, 100, 2, (2, 0))) == [(2, 0, 100)]
    trails.add(move(50, 3, 2))
    assert parts(trails, piece(0, 100, 3, (3, 50))) == [(2, 0, 50), (3, 50, 100)]


def test_a_process_is_moved_to_where_its_leader_is() -> None:
    """A word for the thread that was elsewhere; for those that were there already nothing is cut, and nothing counts
    twice.
    """
    trails = trails_of(move(LONG_AGO, 1, 0), move(-50, 2, 1, tid=11, whole=0), move(40, 1, 1))

    assert parts(trails, piece(0, 100, 1, (1, 40), tid=11)) == [(2, 0, 40), (1, 40, 100)]
    assert parts(trails, piece(0, 100, 1, (1, 40))) == [(1, 0, 100)]


def test_the_word_of_a_joining_may_come_after_the_interval() -> None:
    """The kernel moves first and reports afterwards; until the patience is over it is not known."""
    one = piece(0, 100, 1)

    assert parts(Trails(PATIENCE), one, heard_ns=100 + PATIENCE) is None
    assert parts(trails_of(move(100 + PATIENCE, 1, 0)), one) == [(0, 0, 100)]


def test_without_a_word_it_was_there_all_the_time() -> None:
    """Nothing moved it in: it was there, however it came."""
    assert parts(Trails(PATIENCE), piece(0, 100, 1)) == [(1, 0, 100)]


def test_a_joining_forgives_only_what_came_just_before_it() -> None:
    """A word that comes later than the patience belongs to something else."""
    assert parts(trails_of(move(101 + PATIENCE, 1, 0)), piece(0, 100, 1)) == [(1, 0, 100)]


def test_a_member_that_is_moved_out_stays_one_until_the_word() -> None:
    """Its record says claim 1, its cgroup none, and the word follows: the interval is the claim's."""
    trails = trails_of(move(LONG_AGO, 1, 0), move(101, 0, 1))

    assert parts(trails, piece(0, 100, 0, (1, LONG_AGO))) == [(1, 0, 100)]


def test_a_fork_is_known_by_its_record_alone() -> None:
    """Forks are not reported; the record says since when."""
    trails = trails_of(move(50, 0, 1))

    assert parts(trails, piece(0, 100, 0, (0, 50))) == [(1, 0, 50), (0, 50, 100)]
    assert parts(Trails(PATIENCE), piece(0, 100, 2, (1, LONG_AGO))) == [(2, 0, 100)]


def test_a_record_that_runs_ahead_of_its_event_waits_for_it() -> None:
    """The program writes the record, then sends the event: in between the history is not complete."""
    one = piece(0, 100, 1, (1, 60))

    assert parts(Trails(PATIENCE), one, heard_ns=100) is None
    assert parts(trails_of(move(60, 1, 2)), one, heard_ns=100) == [(2, 0, 60), (1, 60, 100)]


def test_a_record_whose_event_was_lost_cuts_all_the_same() -> None:
    """A full ring loses the event, not the record: what was known before it holds up to the record's time."""
    trails = trails_of(move(LONG_AGO, 2, 0))

    assert parts(trails, piece(0, 100, 1, (1, 60))) == [(2, 0, 60), (1, 60, 100)]


def test_moves_of_the_thread_and_of_its_process_are_one_history() -> None:
    """A thread is moved alone, then with its process."""
    trails = trails_of(move(30, 1, 0, tid=11, whole=0), move(70, 2, 0))

    assert parts(trails, piece(0, 100, 2, (2, 70), tid=11)) == [(0, 0, 30), (1, 30, 70), (2, 70, 100)]


def test_a_thread_that_was_not_announced_has_its_process_s_history() -> None:
    """The leader was moved alone: a worker without a record of its own goes with it, others do not."""
    trails = trails_of(move(30, 1, 0, tid=10, whole=0))
    worker = piece(0, 100, 1, (1, 30), PIECE_UNANNOUNCED, tid=12)

    assert parts(trails, worker) == [(0, 0, 30), (1, 30, 100)]
    assert parts(trails, piece(0, 100, 0, tid=13)) == [(0, 0, 100)]


def test_a_thread_id_that_is_used_again_has_no_past() -> None:
    """The moves of the task that had the id before are not its own."""
    trails = trails_of(move(30, 1, 0, tid=11, whole=0, life=0), move(40, 0, 1, tid=11, whole=0, life=0))

    assert parts(trails, piece(0, 100, 0, tid=11, life=1)) == [(0, 0, 100)]


def test_a_cpuset_that_follows_completes_the_joining() -> None:
    """Between the identity and the cpuset it is joining; before it was elsewhere."""
    trails = trails_of(joining(20, 1), completed(20 + PATIENCE, 1, 20))
    stays = trails.cut(piece(0, 200, 1, (1, 20 + PATIENCE)), LATER)

    assert stays is not None
    assert [(stay.ident, stay.to_ns, stay.joining) for stay in stays] == [
        (0, 20, False),
        (1, 95, True),
        (1, 200, False),
    ]


def test_a_completion_forgives_no_earlier_stay() -> None:
    """It was a member, left, and joined anew: only the second joining is the one that is completed."""
    trails = trails_of(move(LONG_AGO, 1, 0), move(10, 0, 1), joining(20, 1), completed(30, 1, 20))
    stays = trails.cut(piece(0, 100, 1, (1, 30)), LATER)

    assert stays is not None
    assert [(stay.ident, stay.to_ns, stay.joining) for stay in stays] == [
        (1, 10, False),
        (0, 20, False),
        (1, 30, True),
        (1, 100, False),
    ]


def test_a_thread_that_exits_is_not_moved_by_the_completion() -> None:
    """Its rest is between the two joinings, whether or not the interval began before its process completed them."""
    for begin in (25, 40):
        trails = trails_of(joining(20, 1), completed(30, 1, 20))
        for flags, last in ((PIECE_OVERLOOKED, True), (0, False)):
            stays = trails.cut(piece(begin, 60, 1, (1, 30), flags, tid=11), LATER)
            assert stays is not None
            assert stays[-1].joining is last
            assert all(stay.joining for stay in stays[:-1])


def test_the_end_of_a_thread_is_forgiven_nothing_else() -> None:
    """No completion, one that came too late, or one of a joining before: then it was outside."""
    late = 20 + PATIENCE + 1
    for events in ([joining(20, 1)], [joining(20, 1), completed(late, 1, 20)]):
        stays = trails_of(*events).cut(piece(late + 5, late + 60, 1, (1, late), PIECE_OVERLOOKED, tid=11), LATER)
        assert stays is not None
        assert not any(stay.joining for stay in stays)
    # It left one claim, after it had joined that, and joined another: its time in the first is not its end.
    trails = trails_of(joining(20, 1), completed(30, 1, 20), move(50, 2, 1), completed(55, 2, 50))
    stays = trails.cut(piece(40, 80, 2, (2, 55), PIECE_OVERLOOKED), LATER)
    assert stays is not None
    assert [(stay.ident, stay.joining) for stay in stays] == [(1, False), (2, True), (2, True)]


def test_without_the_cpuset_it_is_a_member_from_the_first() -> None:
    """It waits for the patience, then nothing is forgiven; a cpuset that comes later changes nothing."""
    trails = trails_of(joining(20, 1))
    one = piece(0, 60, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20)

    assert trails.cut(one, 20 + PATIENCE) is None
    trails.add(completed(21 + PATIENCE, 1, 20))
    stays = trails.cut(one, LATER)
    assert stays is not None
    assert not any(stay.joining for stay in stays)


def test_a_storm_of_moves_is_counted_where_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow; the run is incomplete by what was dropped. Old moves go without a word."""
    assert MAX_MOVES >= 100_000, "enough for a storm"
    monkeypatch.setattr(module, "MAX_MOVES", most := 1_000)
    trails = Trails(PATIENCE)
    for at_ns in range(most + 5):
        trails.add(move(at_ns, at_ns % 2, 1 - at_ns % 2))
    assert trails.forgotten == 5
    trails.add(move(KEEP_NS * 3, 1, 0))
    assert trails.forgotten == 5


@given(st.lists(st.integers(-50, 150), unique=True), st.integers(0, 3))
def test_the_parts_are_the_interval(times: list[int], first: int) -> None:
    """However often a task was moved: no time is lost, none counted twice, and each part is where the last move led."""
    idents = [first, *((first + 1 + index) % 4 for index in range(len(times)))]
    events = [move(at, idents[index + 1], idents[index]) for index, at in enumerate(sorted(times))]
    where = idents[sum(at < 100 for at in times)]
    stays = parts(trails_of(*events), piece(0, 100, where))

    assert stays is not None
    assert stays[0][1] == 0
    assert stays[-1][2] == 100
    assert all(one[2] == two[1] for one, two in itertools.pairwise(stays))
    for ident, begin, _ in stays:
        assert ident == idents[sum(at <= begin for at in times)]


JOINING = 10 * PATIENCE
OTHER, MEMBER = 99, 1
"""What moves: another process, which is under no claim; the claim that a writer may be under."""


def patient(*events: MoveEvent) -> Trails:
    """Return trails for which a cpuset may follow ten times the patience later."""
    trails = Trails(PATIENCE, joining_ns=JOINING)
    for event in events:
        trails.add(event)
    return trails


def by(event: MoveEvent, writer: int = OTHER, ident: int = 0) -> MoveEvent:
    return replace(event, writer_tgid=writer, writer_ident=ident)


def alone(event: MoveEvent, tid: int) -> MoveEvent:
    return replace(event, tid=tid, whole_process=0)


def forgiven(trails: Trails, *pieces: Piece, heard_ns: int = LATER) -> list[bool]:
    """Say of each interval whether any of it was a joining's; all are asked about before the last answer counts."""
    for one in pieces:
        trails.cut(one, 0)
    found = [trails.cut(one, heard_ns) for one in pieces]
    return [any(stay.joining for stay in stays) for stays in found if stays is not None]


def test_a_leaders_completion_is_its_own() -> None:
    """The threads of a process come into the cpuset one by one: each is joining until it is moved itself."""
    worker = piece(40, 60, 1, (1, 20), PIECE_INCOMPLETE, tid=11, joined_ns=20)
    leader = [joining(20, 1), alone(completed(30, 1, 20), 10)]

    assert forgiven(patient(*leader), worker) == [False]
    assert forgiven(patient(*leader, alone(completed(70, 1, 20), 11)), worker) == [True]
    assert forgiven(trails_of(*leader, alone(completed(70, 1, 20), 11)), worker) == [True]


def test_what_the_leader_did_later_is_no_workers() -> None:
    """A worker that no fork announced began where its leader was; that one's later moves do not cut it."""
    worker = piece(0, 100, 1, (1, 30), PIECE_UNANNOUNCED, tid=12)
    later = move(130, 0, 1, tid=10, whole=0)

    assert parts(trails_of(move(LONG_AGO, 1, 0, whole=0), later), worker) == [(1, 0, 100)]


@pytest.mark.parametrize(("writer", "ident"), [(OTHER, 0), (10, MEMBER)], ids=["a runtime", "itself"])
def test_a_joining_that_is_proven_may_take_long(writer: int, ident: int) -> None:
    """What moved it in had no CPU in between; the task ran little of that time. Until it is over it is not known."""
    late = 20 + JOINING
    early, last = piece(0, 50, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20), piece(late - 20, late + 10, 1, (1, late))

    assert patient(by(joining(20, 1), writer, ident)).cut(early, late) is None
    events = by(joining(20, 1), writer, ident), by(completed(late, 1, 20), writer, ident)
    assert forgiven(patient(*events), early, last) == [True, True]


@pytest.mark.parametrize("step", ["identity", "cpuset"])
def test_a_member_that_moves_others_proves_nothing(step: str) -> None:
    """It takes its fellows out and in again: then a cpuset counts that comes within the patience, and no other."""
    identity, cpuset = joining(20, 1), completed(21 + PATIENCE, 1, 20)
    events = [
        by(identity, OTHER, MEMBER if step == "identity" else 0),
        by(cpuset, OTHER, MEMBER if step == "cpuset" else 0),
    ]

    assert forgiven(patient(*events), piece(0, 50, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20)) == [False]
    events[1] = replace(events[1], at_ns=20 + PATIENCE)
    assert forgiven(patient(*events), piece(0, 50, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20)) == [True]


def test_a_task_joins_for_the_first_time_once() -> None:
    """It was a member before, and left: a late cpuset is its own play."""
    late = 50 + 2 * PATIENCE
    before = [move(LONG_AGO, 1, 0), move(10, 0, 1), joining(50, 1)]

    assert forgiven(patient(*before, completed(late, 1, 50)), piece(40, 80, 1, (1, 50))) == [False]
    assert forgiven(patient(*before, completed(50 + PATIENCE, 1, 50)), piece(40, 80, 1, (1, 50))) == [True]


def test_a_task_that_runs_outside_for_longer_than_the_patience_is_not_joining() -> None:
    """A runtime's child waits while it is moved: what has so much to run is there to run, whenever the cpuset comes.

    All of it is outside, and without waiting for the cpuset.
    """
    pieces = [piece(begin, begin + 30, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20) for begin in (20, 50, 80)]

    assert forgiven(patient(joining(20, 1), completed(300, 1, 20)), *pieces[:2]) == [True, True]
    assert forgiven(patient(joining(20, 1), completed(300, 1, 20)), *pieces) == [False, False, False]
    assert forgiven(patient(joining(20, 1)), *pieces, heard_ns=130) == [False, False, False]


def test_joinings_of_a_thread_are_one_account() -> None:
    """In and out again and again, each time with a cpuset that comes soon: it lives outside."""
    events, pieces = [], []
    for begin in range(0, 500, 100):
        events += [joining(begin + 10, 1), completed(begin + 50, 1, begin + 10), move(begin + 60, 0, 1)]
        pieces.append(piece(begin + 10, begin + 40, 1, (1, begin + 10), PIECE_INCOMPLETE, joined_ns=begin + 10))
    trails = trails_of(*events)

    assert [forgiven(trails, one) for one in pieces] == [[True], [True], [False], [False], [False]]
    other = replace(pieces[-1], tid=12, life=1)
    assert forgiven(trails, other) == [True], "another thread has an account of its own"


def test_a_thread_that_ended_was_not_left_out() -> None:
    """Its process was moved thread by thread, and it was not there when its turn came; if none was moved it was."""
    worker = piece(20, 60, 1, (1, 20), PIECE_INCOMPLETE, tid=11, joined_ns=20)
    ended = MoveEvent(EVENT_ENDED, 0, 60, 0, 20, 0, 11, 10, 0, 1, 1, 1)
    sibling = alone(completed(90, 1, 20), 12)

    assert forgiven(patient(joining(20, 1), ended, sibling), worker) == [True]
    assert forgiven(patient(joining(20, 1), ended), worker) == [False]
    assert forgiven(patient(joining(20, 1), replace(sibling, at_ns=59), ended), worker) == [False], "all was over"
    assert forgiven(patient(joining(20, 1), sibling), worker) == [False], "it lives, and was left out"
    leader = replace(ended, tid=10)
    own = piece(20, 60, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20)
    assert forgiven(patient(joining(20, 1), leader), own, heard_ns=61) == [False], (
        "its process ended: nothing may follow"
    )


def test_a_task_that_left_waits_for_no_cpuset() -> None:
    """Out of the identity again: it was a member for so long, and that is known at once."""
    trails = patient(joining(20, 1), move(60, 0, 1))

    assert forgiven(trails, piece(20, 50, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20), heard_ns=61) == [False]


def test_at_home_nothing_is_to_be_forgiven() -> None:
    """Nor is it waited for, or counted."""
    trails = Trails(PATIENCE, joining_ns=JOINING, at_home=lambda ident, cpu, at_ns: (ident, cpu) == (1, 1))
    trails.add(joining(20, 1))

    assert forgiven(trails, piece(20, 500, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20), heard_ns=21) == [False]
    abroad = replace(piece(520, 550, 1, (1, 20), PIECE_INCOMPLETE, joined_ns=20), cpu=2)
    trails.add(completed(600, 1, 20))
    assert forgiven(trails, abroad) == [True]
