"""What a piece adds to the ledger: the arithmetic of the program, for intervals that user space cut."""

from __future__ import annotations

from dataclasses import replace

from probes.switches import tally
from probes.switches.published import Bound, Published
from probes.switches.records import (
    EVENT_PIECE,
    PIECE_COUNTED,
    PIECE_ENDED,
    PIECE_FROM_IDLE,
    PIECE_TICK,
    PODS_IDENT,
    Piece,
)
from probes.switches.shares import Shares
from probes.switches.trails import Stay
from toolkit.model.cpuset import CpuSet

CLAIM = 1


def shares(cpus: int = 0, since_ns: int = 0, grace_until_ns: int = 0) -> Shares:
    """A claim on one CPU; CPU 1 is watched."""
    published = Published()
    bound = Bound(
        at_ns=0,
        cpus=CpuSet.of([cpus]),
        since_ns=since_ns,
        grace=CpuSet.of([1]) if grace_until_ns else CpuSet(),
        grace_until_ns=grace_until_ns,
    )
    published.claim(CLAIM, bound)
    published.watch(CpuSet.of([1]), 0)
    return Shares(published, 100)


def piece(flags: int = 0, begin: int = 100, end: int = 200, start: int = 50, cpu: int = 1) -> Piece:
    return Piece(EVENT_PIECE, 1, begin, end, start, 7, 0, 0, 9, 10, 10, cpu, 0, 0, 0, 0, 0, 0, 0, 2, flags, b"x")


def test_time_outside_is_charged_to_the_claim_in_which_it_was_spent() -> None:
    """Before and after it was of no claim; on a watched CPU that is an intruder."""
    sums = shares()
    details = sums.add(piece(), [Stay(0, 3, 100, 130), Stay(CLAIM, 7, 130, 160), Stay(0, 3, 160, 200)])

    row = sums.rows[CLAIM, 1]
    assert (row.ns, row.out_ns, row.out_switches, row.out_longest_ns, row.switches) == (30, 30, 1, 30, 0)
    assert [(one.start_ns, one.end_ns, one.ident) for one in details] == [(130, 160, CLAIM)]
    (intruder,) = sums.intruders.values()
    assert (intruder.ns, intruder.ident) == (70, 0)


def test_a_stay_inside_the_set_is_no_offence() -> None:
    """What ended, ended there: switch, tick and wake-up belong to where the task was last."""
    sums = shares(cpus=1)
    flags = PIECE_ENDED | PIECE_TICK | PIECE_FROM_IDLE
    assert not sums.add(piece(flags), [Stay(0, 0, 100, 130), Stay(CLAIM, 7, 130, 200)])

    row = sums.rows[CLAIM, 1]
    assert (row.ns, row.switches, row.samples, row.idle_wakes, row.standstill_ns, row.out_ns) == (70, 1, 1, 1, 9, 0)


def test_each_stays_part_of_a_standstill_is_its_own() -> None:
    """No task ran on a CPU that stood still for longer than it ran; the last one does not pay for all of them."""
    sums = shares(cpus=1)
    whole = replace(piece(PIECE_ENDED), standstill_ns=100)
    sums.add(whole, [Stay(CLAIM + 1, 5, 100, 170), Stay(CLAIM, 7, 170, 200)])

    assert [(row.ns, row.standstill_ns) for row in sums.rows.values()] == [(70, 70), (30, 30)]


def test_a_stay_is_counted_once() -> None:
    """The program counted it before, or will count it after: only its time is added."""
    counted, unfinished, finished = shares(), shares(), shares()
    counted.add(piece(PIECE_COUNTED | PIECE_ENDED), [Stay(CLAIM, 7, 100, 200)])
    unfinished.add(piece(), [Stay(CLAIM, 7, 100, 200)])
    finished.add(piece(PIECE_ENDED), [Stay(CLAIM, 7, 100, 200)])

    assert [one.rows[CLAIM, 1].out_switches for one in (counted, unfinished, finished)] == [0, 0, 1]
    assert finished.rows[CLAIM, 1].out_longest_ns == 150  # the stay began before this piece of it


def test_how_often_a_task_came_or_went_is_counted() -> None:
    """Each end inside the interval; one with the kernel's move and its word on both sides of the end, too."""
    inside, left, whole = shares(), shares(), shares()
    inside.add(piece(), [Stay(0, 3, 100, 130), Stay(CLAIM, 7, 130, 160), Stay(0, 3, 160, 200)])
    left.add(piece(), [Stay(CLAIM, 7, 100, 130), Stay(0, 3, 130, 200)])
    whole.add(piece(), [Stay(CLAIM, 7, 100, 200)])

    assert [sums.cuts for sums in (inside, left, whole)] == [{(CLAIM, 1): 2}, {(CLAIM, 1): 1}, {(CLAIM, 1): 1}]


def test_joining_and_change_are_transition() -> None:
    """Time before the joining was complete, before the claim existed, or on the old set during a change."""
    for sums, stay in (
        (shares(), Stay(CLAIM, 7, 100, 200, joining=True)),
        (shares(since_ns=500), Stay(CLAIM, 7, 100, 200)),
        (shares(grace_until_ns=300), Stay(CLAIM, 7, 100, 200)),
    ):
        assert not sums.add(piece(), [stay])
        assert (sums.rows[CLAIM, 1].transition_ns, sums.rows[CLAIM, 1].out_ns) == (100, 0)
    half = shares(grace_until_ns=160)
    half.add(piece(), [Stay(CLAIM, 7, 100, 200)])
    assert (half.rows[CLAIM, 1].transition_ns, half.rows[CLAIM, 1].out_ns) == (60, 40)


def test_a_foreign_pod_s_task_is_one_from_its_joining_on() -> None:
    """System before, foreign pod after; while it joins it is not the pod's yet."""
    sums = shares()
    sums.add(
        piece(),
        [Stay(0, 3, 100, 120), Stay(PODS_IDENT, 7, 120, 150, joining=True), Stay(PODS_IDENT, 7, 150, 200)],
    )

    assert sorted((one.ident, one.ns) for one in sums.intruders.values()) == [(0, 20), (0, 30), (PODS_IDENT, 50)]


def test_added_rows_are_those_of_the_claim() -> None:
    """Each CPU's row gets its own share."""
    sums = shares()
    sums.add(piece(), [Stay(CLAIM, 7, 100, 200)])
    rows = sums.added_to(CLAIM, [tally.row({"ns": 5}), tally.row({"ns": 5})])

    assert [row.ns for row in rows] == [5, 105]
    assert [row.ns for row in sums.added_to(2, [tally.row({}), tally.row({})])] == [0, 0]


def test_joinings_are_summed_up_by_their_longest_thread() -> None:
    """Threads of one process are outside at the same time; the next joining is another one. At home none counts."""
    sums = shares()
    first = {"joining": True, "joined_ns": 90, "complete_ns": 250}
    for tid, begin, end in ((10, 100, 130), (10, 150, 170), (11, 100, 140)):
        sums.add(replace(piece(begin=begin, end=end), tid=tid), [Stay(CLAIM, 7, begin, end, **first)])
    sums.add(piece(begin=300, end=307), [Stay(CLAIM, 7, 300, 307, joining=True, joined_ns=299, complete_ns=310)])
    sums.add(piece(cpu=0, begin=400, end=500), [Stay(CLAIM, 7, 400, 500, joining=True, joined_ns=399, complete_ns=600)])

    (row,) = tally.joinings(sums.joinings, {CLAIM: "db"}, 0)
    assert (row.claim, row.count, row.outside_ns, row.slowest_ns) == ("db", 2, 50 + 7, 160)
    assert [(one.tid, one.total_ns) for one in row.worst] == [(10, 57), (11, 40)]
    assert tally.joinings(sums.joinings, {}, 0) == []
