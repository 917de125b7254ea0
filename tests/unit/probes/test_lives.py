"""Counters of cgroups that are deleted and made again: sums over the lives, and what no reading has."""

from __future__ import annotations

from itertools import product

import pytest

from probes.cgroups.claimed_paths import KEPT_EVENTS, decode
from probes.cgroups.lives import MAX_STRETCHES, Account, Lives, Reading
from toolkit.host.cgroupfs import CpuStat


def reading(
    at_ns: int,
    usage_ns: int | None,
    ids: tuple[int, int] = (1, 1),
    periods: int | None = None,
    throttled: int | None = None,
) -> Reading:
    stat = CpuStat(
        at_ns=at_ns,
        usage_ns=usage_ns,
        nr_periods=periods,
        nr_throttled=throttled,
        throttled_ns=None,
        nr_bursts=None,
        burst_ns=None,
    )
    return Reading(stat=stat, ids=ids)


GONE = (0, 0)


def started(usage_ns: int = 100, ledger_ns: int | None = 0) -> Account:
    lives = Lives()
    lives.start("/a", reading(0, usage_ns, periods=5), ledger_ns)
    return lives.accounts["/a"]


def test_one_life_is_the_difference_of_its_ends() -> None:
    """Readings in between change nothing."""
    account = started()
    for at_ns, usage in ((10, 130), (20, 150)):
        account.read(reading(at_ns, usage, periods=7), usage - 100, None)

    pair = account.pair()
    assert pair is not None
    first, last = pair
    assert (last.usage_ns, first.usage_ns, last.at_ns, account.lives, account.unread_ns) == (150, 100, 20, 1, 0)


def test_a_deleted_cgroup_keeps_its_last_reading_and_the_ledger_says_what_is_missing() -> None:
    """Read at 20; what the ledger counted afterwards is in no reading."""
    account = started()
    account.read(reading(20, 150, periods=7), 50, None)
    account.read(reading(30, None, GONE), 62, None)

    pair = account.pair()
    assert pair is not None
    assert (pair[1].usage_ns, pair[1].nr_periods, pair[1].at_ns, account.unread_ns) == (50, 2, 20, 12)


def test_a_cgroup_made_again_counts_from_nothing_and_both_are_summed() -> None:
    """50 before, 7 never read, 40 after, over 20 + 15 ns; where it is not said since when, 10 in the last 5 ns."""
    for told, seen_gone in product((True, False), repeat=2):
        account = started()
        account.read(reading(20, 150, periods=7), 50, None)
        if seen_gone:
            account.read(reading(25, None, GONE), 57, None)
        account.read(reading(40, 30, (2, 2), periods=1), 87, 30 if told else None)
        account.read(reading(45, 40, (2, 2), periods=2), 97, None)

        pair = account.pair()
        assert pair is not None
        used = (pair[1].usage_ns, pair[1].nr_periods, account.lives, account.unread_ns, pair[1].at_ns)
        assert used == ((90, 4, 2, 7, 35) if told else (60, 3, 2, 37, 25))


@pytest.mark.parametrize("ids", [(1, 9), (9, 1)], ids=["cpu", "cpuacct"])
@pytest.mark.parametrize("made_ns", [None, 30])
def test_what_one_part_counted_while_the_other_was_made_anew_is_of_no_life(
    ids: tuple[int, int], made_ns: int | None
) -> None:
    """Only one directory is a new one: the count of the other went on, for longer than the lives lasted together."""
    account = started()
    account.read(reading(20, 150, periods=7), 50, None)
    account.read(reading(40, 170, ids, periods=3), 70, made_ns)
    account.read(reading(50, 180, ids, periods=4), 80, None)

    pair = account.pair()
    assert pair is not None
    assert (pair[1].usage_ns, pair[1].nr_periods, pair[1].at_ns, account.unread_ns) == (60, 3, 30, 20)


@pytest.mark.parametrize("left", [(-7, 0), (-7, 1), (1, 0)], ids=["v2-stays", "v2-and-cpu-stay", "cpuacct-stays"])
def test_a_cgroup_that_is_taken_apart_is_gone_with_its_first_part(left: tuple[int, int]) -> None:
    """What another hierarchy still says of it counts since it was made: 9,999 ns are not of this window."""
    account = started()
    account.read(reading(20, 150, periods=7), 50, None)
    for at_ns in (30, 40):
        account.read(reading(at_ns, 9_999, left, periods=None), 50, None)

    pair = account.pair()
    assert pair is not None
    assert (pair[1].usage_ns, pair[1].nr_periods, pair[1].at_ns, account.lives) == (50, 2, 20, 1)


def test_a_cgroup_that_was_in_v2_alone_is_read_there() -> None:
    """Nothing of it has gone."""
    lives = Lives()
    lives.start("/a", reading(0, 100, (-7, 0)), 0)
    lives.read("/a", reading(20, 150, (-7, 0)), 50)

    pair = lives.accounts["/a"].pair()
    assert pair is not None
    assert (pair[1].usage_ns, pair[0].usage_ns) == (150, 100)


def test_a_reading_on_behalf_of_another_claim_changes_nothing() -> None:
    """A claim's own account is kept with the ledger's; a claim below it reads the same level."""
    account = started()
    account.read(reading(20, None, GONE), None, None)

    assert account.last is not None


def test_late_readers_lose_dates_not_events() -> None:
    """The last events are kept one by one, the number of all of them always."""
    total = KEPT_EVENTS + 5
    events = b"".join(
        number.to_bytes(8, "little") + (1000 + number).to_bytes(8, "little") + (2 - number % 2).to_bytes(8, "little")
        for number in (*range(KEPT_EVENTS, total), *range(5, KEPT_EVENTS))
    )
    news = decode(b"\1\0\0\0\2\0\0\0" + bytes(8) + total.to_bytes(8, "little") + events, 2)

    assert (news.total, news.undated, len(news.events)) == (total, 3, KEPT_EVENTS)
    assert [event.at_ns for event in news.events] == list(range(5, total))
    assert [event.made for event in news.events[:2]] == [False, True]


def test_which_periods_were_throttled_is_known_as_closely_as_counters_were_read() -> None:
    """None of 1-2, all of 3-7 by two readings, some of 8-17, and in the cgroup that was made anew all of 18-19."""
    lives = Lives()
    lives.start("/a", reading(0, 100, periods=40, throttled=9), 0)
    account = lives.accounts["/a"]
    for periods, throttled in ((42, 9), (45, 12), (47, 14), (57, 17), (57, 17)):
        account.read(reading(periods, 100, periods=periods, throttled=throttled), 0, None)
    account.read(reading(60, 30, (2, 2), periods=2, throttled=2), 30, 59)

    found = [(one.first, one.last, one.throttled) for one in account.throttled_in]
    assert found == [(3, 7, 5), (8, 17, 3), (18, 19, 2)]


def test_stretches_of_throttled_periods_are_bounded() -> None:
    """What comes then makes the last one longer: their sum is that of the kernel."""
    lives = Lives()
    lives.start("/a", reading(0, 100, periods=0, throttled=0), 0)
    account = lives.accounts["/a"]
    for turn in range(1, 101):
        account.read(reading(turn, 100, periods=2 * turn, throttled=turn - turn % 2), 0, None)

    assert len(account.throttled_in) == MAX_STRETCHES
    assert sum(one.throttled for one in account.throttled_in) == 100
    assert account.throttled_in[-1].last == 200
