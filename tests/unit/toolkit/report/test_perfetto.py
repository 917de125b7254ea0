"""A run as a trace: read back by Perfetto's own definitions of its messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.traces import BEGIN, Event, read_back
from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, control_write, evidence, intruder
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence, OwnerClass, TimelineBins
from toolkit.model.held import Held, Why
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report.perfetto import Trace
from toolkit.text.protobuf import field, varint

PROJECT = Path(__file__).resolve().parents[4]
MS = 1_000_000
BASE = 77_000 * MS
CLAIMS = claim_set(claim_db(), claim_web())
ESCAPE = Offender(
    claim="db", tid=7, comm="db", cpu=1, first_at_ns=5 * MS, total_ns=9 * MS, longest_ns=4 * MS, switches=3,
    last_at_ns=40 * MS, longest_at_ns=20 * MS,
)  # fmt: skip


def since_opened(one: Event) -> float:
    """Return the milliseconds since the first window opened."""
    return (one.at_ns - BASE) / MS


def window(found: Evidence, *offenders: Offender, base_ns: int = BASE) -> tuple[ClaimSet, Evidence, Result]:
    """Return what a trace is made of: a window in which these ran outside."""
    found = replace(found, start_monotonic_ns=base_ns)
    failed = Verdict(rule="cpuset-containment", subject="db", outcome=Outcome.FAILED, reason="it ran on CPU 1",
                     measures={}, offenders=offenders)  # fmt: skip
    return CLAIMS, found, make_result(found, (failed,), {}, unknown=None)


def traced(found: Evidence, *offenders: Offender) -> list[Event]:
    """Return what the trace of one window has."""
    trace = Trace()
    trace.add(*window(found, *offenders))
    return read_back(trace.written())


def on(seen: list[Event], track: str) -> list[tuple[int, str, float]]:
    """Return what is on a track."""
    return [(one.kind, one.name, since_opened(one)) for one in seen if one.track == track]


def bins(claim: str, numbers: tuple[int, ...], run_us: tuple[int, ...], start_at_ns: int = -4 * MS) -> TimelineBins:
    """Return bins of 10 ms on CPU 2, in which nothing waited."""
    return TimelineBins(
        claim=claim, cpu=2, bin_ns=10 * MS, start_at_ns=start_at_ns, bins=numbers, run_us=run_us,
        wait_us=tuple(0 for _ in numbers),
    )  # fmt: skip


def test_a_violation_is_at_its_moments() -> None:
    """The first, the longest stay from end to end, and the last: at the claim and at the CPU, with what did it."""
    seen = traced(evidence(), ESCAPE)
    wanted = [
        (3, "first: db (7) on CPU 1", 5.0),
        (1, "longest: db (7) on CPU 1", 16.0),
        (2, "", 20.0),
        (3, "last: db (7) on CPU 1", 40.0),
    ]

    assert on(seen, "db/violations") == on(seen, "CPU 1/violations") == wanted
    words = next(one.words for one in seen if one.track == "db/violations")
    assert (words["thread"], words["CPU"], words["in all (ns)"]) == (7, 1, 9 * MS)


def test_promises_are_spans() -> None:
    """What was promised, and what it held beside that, which lies across it and has a track of its own."""
    cpus = claim_db().cpus
    owed = Held(claim="db", cpus=cpus, why=Why.OWED, from_ns=-MS, to_ns=30 * MS, certain=False)
    seen = [one for one in traced(evidence(held=(owed,))) if one.track == "db/promised"]

    assert [(one.kind, since_opened(one)) for one in seen] == [(1, 0.0), (2, 10_000.0), (1, 0.0), (2, 30.0)]
    assert [one.words["why"] for one in seen if one.kind == 1] == ["promised", "owed"]
    assert [one.words["certain"] for one in seen if one.kind == 1] == ["yes", "no"]


def test_a_write_is_a_moment_with_its_author() -> None:
    """At the claim whose cgroup it was, or is below."""
    seen = traced(evidence(control_writes=(control_write(0.5, claim_db().cgroup, "0-1"),)))
    (write,) = [one for one in seen if one.track == "db/control files"]

    assert (write.kind, since_opened(write)) == (3, 500.0)
    assert "0-1" in write.name
    assert str(write.words["author"]).endswith(")")
    assert not on(seen, "web/control files")


def test_bins_are_curves_and_owners() -> None:
    """In percent of a CPU, with a value where it changes; of the CPU, the claim that had most of it."""

    rows = (bins("db", (1, 2, 5), (9000, 9000, 1000)), bins("web", (2, 5), (500, 4000)))
    seen = traced(evidence(timeline_bins=rows))
    curve = [(since_opened(one), one.value) for one in seen if one.track == "db/ran on CPU 2"]

    assert curve == [(6.0, 90), (26.0, 0), (46.0, 10), (56.0, 0)]
    assert on(seen, "CPU 2/ran most") == [(1, "db", 6.0), (2, "", 26.0), (1, "web", 46.0), (2, "", 56.0)]
    assert not on(seen, "db/waited for CPU 2")


def test_what_takes_an_exclusive_cpu_is_named() -> None:
    """At its longest stay; pinproof's own as such."""
    other = replace(intruder(OwnerClass.TOOLKIT, 2, longest_ns=2 * MS), longest_at_ns=8 * MS)
    (name,) = {one.name for one in traced(evidence(intruders=(other,))) if one.track == "CPU 2/others" and one.name}

    assert name.endswith("(pinproof itself)")


@pytest.mark.parametrize(("number", "written"), [(0, "00"), (127, "7f"), (300, "ac02"), (-1, "ff" * 9 + "01")])
def test_integers_are_written_as_the_format_says(number: int, written: str) -> None:
    """Seven bits a byte, the lowest first; negative ones have ten bytes."""
    assert varint(number).hex() == written
    assert field(1, number).hex() == "08" + written


def test_windows_follow_each_other_on_their_tracks() -> None:
    """One track of a name, however many windows; a bin that two of them share has the sum of both."""
    trace, length_ns = Trace(), evidence().duration_ns
    first = replace(evidence(timeline_bins=(bins("db", (0, 1), (2000, 2000), length_ns - 15 * MS),)))
    second = replace(evidence(timeline_bins=(bins("db", (0, 1), (3000, 5000), -5 * MS),)))
    trace.add(*window(first), window="window 1 of 2")
    trace.add(*window(second, ESCAPE, base_ns=BASE + length_ns), window="window 2 of 2")
    seen, end = read_back(trace.written()), length_ns / MS

    assert on(seen, "windows") == [
        (1, "window 1 of 2: failed", 0.0), (2, "", end), (1, "window 2 of 2: failed", end), (2, "", 2 * end),
    ]  # fmt: skip
    assert seen[0].words == {"cpuset-containment db": "failed: it ran on CPU 1"}
    assert on(seen, "db/violations")[0] == (3, "first: db (7) on CPU 1", end + 5)
    assert [(since_opened(one) - end, one.value) for one in seen if one.track == "db/ran on CPU 2"] == [
        (-15.0, 20), (-5.0, 50), (15.0, 0),
    ]  # fmt: skip
    assert on(seen, "CPU 2/ran most") == [(1, "db", end - 15), (2, "", end), (1, "db", end), (2, "", end + 15)]


def test_runs_have_tracks_of_their_own() -> None:
    """Below their names, also where a claim is called like a run or a CPU."""
    trace = Trace()
    for name in ("db", "CPU 1"):
        trace.add(*window(evidence(), ESCAPE), group=name)
    tracks = {one.track for one in read_back(trace.written())}

    assert {"db/windows", "db/db/violations", "db/CPU 1/violations", "CPU 1/db/violations"} <= tracks


def test_a_watch_is_written_with_all_its_windows(tmp_path: Path) -> None:
    """By ``report --perfetto``; an escape was planted in one of them."""
    done = pinproof("report", PROJECT / "tests/data/watches/escape-seen", "--perfetto", tmp_path / "trace")
    seen = read_back((tmp_path / "trace").read_bytes())
    windows = [one.name for one in seen if one.track == "windows" and one.kind == BEGIN]

    assert done.exit_code == 1
    assert [name.partition(":")[0] for name in windows] == [f"window {at} of 3" for at in (1, 2, 3)]
    assert any(one.track.endswith("/violations") and one.name.startswith("first: ") for one in seen)


def test_a_trace_that_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    """The outcome is the run's."""
    nowhere = pinproof("report", PROJECT / "tests/data/watches/escape-seen", "--perfetto", tmp_path / "no" / "trace")

    assert (nowhere.exit_code, nowhere.stderr.count("\n")) == (1, 1)
