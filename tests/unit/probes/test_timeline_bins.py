"""What claims ran and waited for in short bins: from the kernel's records to rows of the evidence."""

from __future__ import annotations

from probes.switches import timeline
from probes.switches.tally import row
from probes.switches.timeline import BIN_NS, Timeline, spilled, timeline_bins

START = 1000 * BIN_NS + 4_000_000
END = START + 10 * BIN_NS
MS = 1_000_000


def test_a_window_has_bins_from_the_one_in_which_it_begins() -> None:
    """They begin a little before it does, and what lies beyond its ends is put to its ends."""
    found = timeline_bins("db", 1, {998: (MS, 0), 1000: (2 * MS, 0), 1005: (0, 3 * MS), 1020: (MS, MS)}, START, END)

    assert (found.start_at_ns, found.bin_ns) == (-4 * MS, BIN_NS)
    assert (found.bins, found.run_us, found.wait_us) == ((0, 5, 10), (3000, 0, 1000), (0, 3000, 1000))


def test_an_interval_longer_than_a_bin_fills_those_before() -> None:
    """It is counted where it ends; the rest of a long one, and of a long wait, lies before that."""
    assert spilled({4: (25 * MS, 0), 9: (0, 12 * MS)}, BIN_NS) == {
        2: (5 * MS, 0),
        3: (10 * MS, 0),
        4: (10 * MS, 0),
        8: (0, 2 * MS),
        9: (0, 10 * MS),
    }
    assert spilled({1: (25 * MS, 0)}, BIN_NS) == {0: (15 * MS, 0), 1: (10 * MS, 0)}  # begun before the window
    assert spilled({}, BIN_NS) == {}


def test_what_no_bin_has_yet_is_in_the_ledgers_row() -> None:
    """A claim that has not run since is handed over when it runs again: until then its row has it."""
    one = Timeline(START)
    one.take(7, [(1, 1002, 4 * MS, 0)])
    one.take(7, [(1, 1002, 4 * MS, 0), (1, 1003, 5 * MS, MS)])  # read again, the same
    rows = [row({}), row({"ns": 12 * MS, "slotted_ns": 9 * MS, "wait_ns": 2 * MS, "slotted_wait_ns": MS, "slot": 1004})]
    (found,) = one.rows({7: "db"}, {7: rows}, END)

    assert (found.bins, found.run_us, found.wait_us) == ((2, 3, 4), (4000, 5000, 3000), (0, 1000, 1000))


def test_a_long_window_has_longer_bins() -> None:
    """There are never more of them than an evidence should hold."""
    spans = {1000 + number: (MS, 0) for number in range(timeline.MAX_BINS * 3)}
    found = timeline_bins("db", 0, spans, START, START + timeline.MAX_BINS * 3 * BIN_NS)

    assert len(found.bins) <= timeline.MAX_BINS
    assert found.bin_ns == 4 * BIN_NS
    assert sum(found.run_us) == timeline.MAX_BINS * 3 * 1000
