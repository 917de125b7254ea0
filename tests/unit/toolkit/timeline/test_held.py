"""The rows of a timeline: appended, closed, cut to a window, asked for a moment."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.cpuset import CpuSet
from toolkit.model.held import EVERY, FOREVER_NS, Held, Why
from toolkit.timeline.held import Timeline, cpus_of

times = st.integers(-20, 40)
names = st.sampled_from(["db", "web", EVERY])
held = st.builds(
    Held,
    claim=names,
    cpus=st.none() | st.sets(st.integers(0, 3)).map(CpuSet.of),
    why=st.sampled_from(Why),
    from_ns=times | st.just(-FOREVER_NS),
    to_ns=times | st.just(FOREVER_NS),
    certain=st.booleans(),
)
timelines = st.lists(held, max_size=6).map(lambda rows: Timeline(tuple(rows)))


@given(timelines, held, names, times)
def test_what_is_appended_is_asked_for_last(timeline: Timeline, row: Held, claim: str, at_ns: int) -> None:
    """Nothing else of the answer changes; a row for every claim is one of each."""
    mine = row.claim in (claim, EVERY) and row.from_ns <= at_ns < row.to_ns

    assert timeline.append(row).at(claim, at_ns) == (*timeline.at(claim, at_ns), *([row] if mine else []))
    assert timeline.append().rows == timeline.rows


@given(timelines, names, times, names, times)
def test_closed_rows_hold_until_then(timeline: Timeline, claim: str, end_ns: int, asked: str, at_ns: int) -> None:
    """What was so before the end is so; of rows that had no end nothing is after it, nor of what began later."""
    closed = timeline.close(end_ns, timeline.open(*Why, claim=claim))
    spans = [(row.claim, row.from_ns, row.to_ns) for row in closed.at(asked, at_ns)]
    before = timeline.at(asked, at_ns)
    ended = [row for row in before if row.claim == claim and row.to_ns == FOREVER_NS]

    assert len(closed.rows) == len(timeline.rows)
    if at_ns < end_ns:
        assert [span[:2] for span in spans] == [(row.claim, row.from_ns) for row in before]
    else:
        assert spans == [(row.claim, row.from_ns, row.to_ns) for row in before if row not in ended]
    assert closed.open(*Why, claim=claim) == ()


@given(timelines, held, st.sets(st.integers(0, 3)), st.integers(0, 20), names, times)
def test_a_row_in_place_of_others_takes_no_moment_from_them(
    timeline: Timeline, row: Held, more: set[int], end_ns: int, claim: str, at_ns: int
) -> None:
    """What they gave until then they gave; each CPU is in one row, and what goes on has its begin."""
    before = timeline.open(*Why, claim=row.claim)
    since_ns = min((one.from_ns for one in before), default=row.from_ns)
    kept = CpuSet.of(cpu for cpu in cpus_of(before) if cpu in more)
    now = replace(row, cpus=kept, from_ns=since_ns, to_ns=FOREVER_NS)
    after = timeline.instead(now, before, end_ns)

    if at_ns < end_ns:
        assert cpus_of(timeline.at(claim, at_ns)) <= cpus_of(after.at(claim, at_ns))
    assert after.open(*Why, claim=row.claim) == (now,)
    ended = [one for one in after.rows if one.claim == row.claim and one.to_ns == max(end_ns, one.from_ns)]
    assert not any(one.cpus and one.cpus & kept for one in ended if one not in timeline.rows)


@given(timelines, times, names, st.integers(0, 40))
def test_what_is_long_over_is_forgotten_and_no_more(timeline: Timeline, at_ns: int, claim: str, later_ns: int) -> None:
    """From that moment on it answers as before."""
    assert timeline.since(at_ns).at(claim, at_ns + later_ns) == timeline.at(claim, at_ns + later_ns)
    assert all(row.to_ns >= at_ns for row in timeline.since(at_ns).rows)


@given(timelines, times, st.integers(1, 30), names, st.integers(0, 29))
def test_a_window_has_what_was_so_in_it(timeline: Timeline, begin_ns: int, long_ns: int, claim: str, at: int) -> None:
    """Asked for a moment of the window it gives the same, with times since it opened."""
    at_ns = at % long_ns
    window = timeline.cut(begin_ns, begin_ns + long_ns)
    found = window.at(claim, at_ns)

    assert [(row.claim, row.cpus, row.why, row.certain) for row in found] == [
        (row.claim, row.cpus, row.why, row.certain) for row in timeline.at(claim, begin_ns + at_ns)
    ]
    assert all(row.from_ns < long_ns and row.to_ns > 0 for row in window.rows)


@given(timelines, times, st.integers(1, 30), st.integers(0, 29), st.integers(1, 30))
def test_a_part_of_a_window_is_cut_as_of_all(
    timeline: Timeline, begin_ns: int, long_ns: int, later: int, part: int
) -> None:
    """Cut twice is cut once: nothing is lost at an edge, and what is for ever stays so."""
    first = later % long_ns
    last = min(long_ns, first + part)

    twice = timeline.cut(begin_ns, begin_ns + long_ns).cut(first, last)
    assert twice == timeline.cut(begin_ns + first, begin_ns + last)


@given(timelines, names, times)
def test_what_is_said_of_a_claim_is_all_that_is_asked(timeline: Timeline, claim: str, at_ns: int) -> None:
    """A part by the claim's name answers as the whole."""
    assert timeline.of(claim).at(claim, at_ns) == timeline.at(claim, at_ns)
    every = {cpu for row in timeline.at(claim, at_ns) for cpu in row.cpus or ()}
    assert set(cpus_of(timeline.at(claim, at_ns))) == every
