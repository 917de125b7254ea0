"""CPU time of claims inside others, and slots of CPU time: pure."""

from __future__ import annotations

from itertools import pairwise

from probes.switches.bins import MAX_BINS, Bins
from probes.switches.nesting import with_nested
from toolkit.model.nesting import nested
from validators.quota.bandwidth import Limit, burst_ns

PLACES = [(1, "/pods"), (2, "/pods/a"), (3, "/pods/a/db"), (4, "/pods/ab"), (5, "/web"), (6, "/pods/a")]


def test_claims_inside_are_found_at_any_depth() -> None:
    """A name that only begins alike is beside it; of two claims of one cgroup neither is in the other."""
    assert nested(PLACES) == {1: (2, 3, 4, 6), 2: (3,), 6: (3,)}


def test_a_claim_has_the_time_of_those_inside() -> None:
    """Each is counted once, however deep."""
    own = {1: 1, 2: 10, 3: 100, 4: 1000, 5: 10_000, 6: 0}
    assert with_nested(own, nested(PLACES)) == {1: 1111, 2: 110, 3: 100, 4: 1000, 5: 10_000, 6: 100}


def test_slots_without_use_are_one() -> None:
    """What a claim used, and when, is as before; a stretch in which it slept is one slot."""
    bins = Bins("db")
    for at, total in ((10, 0), (20, 0), (30, 5), (40, 5), (50, 5), (60, 6)):
        bins.add(at, total)
    assert [(row.start_at_ns, row.length_ns, row.usage_ns) for row in bins.values()] == [
        (0, 20, 0),
        (20, 10, 5),
        (30, 20, 0),
        (50, 10, 1),
    ]


def test_slots_of_a_sleeper_may_be_closed_late() -> None:
    """When it runs again, or is asked for: what they say is the same as if each had been closed in time."""
    used = {10: 0, 20: 0, 30: 5, 40: 5, 50: 5, 60: 6, 70: 6}
    in_time, late, ticked = Bins("db"), Bins("db"), 0
    for at, total in used.items():
        in_time.add(at, total)
        if total != late.total_ns:
            late.slept(ticked)
            late.add(at, total)
        ticked = at
    late.slept(ticked)
    late.slept(ticked)
    assert late.values() == in_time.values()


def test_a_burst_is_found_as_in_slots_apart() -> None:
    """The most that was used beyond a rate, and where, is the same in joined slots."""
    used = [0, 0, 90, 40, 0, 0, 0, 70, 0, 99, 0, 0]
    joined, apart, total = Bins("db"), [], 0
    for number, one in enumerate(used):
        total += one * 1000
        joined.add((number + 1) * 100_000, total)
        lone = Bins("db", number * 100_000)
        lone.add((number + 1) * 100_000, one * 1000)
        apart += lone.values()
    limit = Limit(quota_us=30, period_us=100)
    assert len(joined.values()) < len(apart)
    assert burst_ns(limit, joined.values()) == burst_ns(limit, apart)


def test_a_long_sleep_does_not_blur_what_follows_it() -> None:
    """When the room is used up short slots are joined with short ones."""
    bins, total, at = Bins("db"), 0, 0
    bins.add(10_000_000, 0)
    for _ in range(MAX_BINS):
        at, total = at + 10, total + 1
        bins.add(10_000_000 + at, total)
    rows = bins.values()
    assert (rows[0].length_ns, rows[0].usage_ns) == (10_000_000, 0)
    assert max(row.length_ns for row in rows[1:]) <= 40
    assert sum(row.usage_ns for row in rows) == total
    assert all(one.start_at_ns + one.length_ns == two.start_at_ns for one, two in pairwise(rows))
