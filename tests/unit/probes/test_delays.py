"""From the records of waits to rows of the evidence."""

from __future__ import annotations

import struct

from probes.switches import records
from probes.switches.delays import Culprits, Waits, culprits, delays, merge_culprits, merge_waits
from probes.switches.records import CulpritKey, CulpritSums, WaitKey, WaitSums
from probes.switches.tally import row
from toolkit.model.evidence import CulpritClass

DB, WEB, START = 3, 9, 1_000


def buckets(*counts: int) -> bytes:
    """Return a histogram that begins with these."""
    return struct.pack(f"={records.WAIT_BUCKETS}I", *counts, *[0] * (records.WAIT_BUCKETS - len(counts)))


def sums(woken: int, longest: int, end: int, *counts: int) -> WaitSums:
    """Return what was told of tasks that were woken."""
    return WaitSums(woken, 0, 0, 0, longest, end, buckets(*counts), buckets())


def test_epochs_of_one_window_come_together() -> None:
    """Sums and histograms are added; the longest is the longer one, with its moment."""
    found: Waits = {}
    merge_waits(
        found, [(WaitKey(1, DB, 1), sums(70, 50, START + 60, 1, 2)), (WaitKey(2, DB, 1), sums(30, 20, 9, 0, 1))]
    )
    took: Culprits = {}
    keys = [CulpritKey(epoch, DB, 1, records.CULPRIT_SYSTEM, 0, b"cron\0") for epoch in (1, 2)]
    merge_culprits(took, [(keys[0], CulpritSums(40, 2, 30, 5)), (keys[1], CulpritSums(60, 1, 60, 5))])

    assert found == {WaitKey(0, DB, 1): sums(100, 50, START + 60, 1, 3)}
    assert list(took.values()) == [CulpritSums(100, 3, 60, 5)]


def test_a_row_for_each_cpu_on_which_something_waited() -> None:
    """Short waits are in the ledger's row alone; of one that never waited there is none."""
    waits = {WaitKey(0, DB, 1): sums(70, 50, START + 60, 0, 2)}
    rows = [row({"wait_ns": 5}), row({"wait_ns": 80, "migrations": 2}), row({"ns": 9})]
    short, long = delays("db", DB, rows, waits, START)

    assert (short.cpu, short.wait_ns, short.told_ns, short.longest_at_ns, short.woken) == (0, 5, 0, None, ())
    assert (long.cpu, long.wait_ns, long.told_ns, long.longest_at_ns, long.woken) == (1, 80, 70, 60, (0, 2))
    assert long.migrations == 2


def test_every_kind_of_culprit_has_a_name() -> None:
    """Claims by theirs, pods by their cgroup, tasks by what they are called; the observer is known by its process."""

    def key(kind: int, culprit: int = 0, name: bytes = b"") -> CulpritKey:
        return CulpritKey(0, DB, 1, kind, culprit, name)

    found = {
        key(records.CULPRIT_CLAIM, WEB): CulpritSums(90, 1, 90, 0),
        key(records.CULPRIT_POD, 77): CulpritSums(80, 1, 80, 0),
        key(records.CULPRIT_POD, 0): CulpritSums(70, 1, 70, 0),
        key(records.CULPRIT_KTHREAD, 0, b"kworker/1:1\0"): CulpritSums(60, 1, 60, 0),
        key(records.CULPRIT_SYSTEM, 0, b"cron\0"): CulpritSums(50, 1, 50, 11),
        key(records.CULPRIT_SYSTEM, 0, b"poll\0"): CulpritSums(40, 1, 40, 42),
        key(records.CULPRIT_IDLE): CulpritSums(30, 1, 30, 0),
        CulpritKey(0, WEB, 1, records.CULPRIT_CLAIM, DB, b""): CulpritSums(99, 1, 99, 0),  # of another claim's waits
    }
    rows = culprits(found, {DB: "db"}, {DB: "db", WEB: "web"}, {77: "/pods/x"}, observer_pid=42)

    assert [(one.owner, one.name or one.cgroup, one.total_ns) for one in rows] == [
        (CulpritClass.CLAIM, "web", 90),
        (CulpritClass.FOREIGN_POD, "/pods/x", 80),
        (CulpritClass.FOREIGN_POD, "", 70),
        (CulpritClass.KTHREAD, "kworker/1:1", 60),
        (CulpritClass.SYSTEM, "cron", 50),
        (CulpritClass.TOOLKIT, "poll", 40),
        (CulpritClass.IDLE, "", 30),
    ]
