"""A run as a trace: read back by Perfetto's own definitions of its messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, control_write, evidence, intruder
from toolkit.model.evidence import Evidence, OwnerClass, TimelineBins
from toolkit.model.held import Held, Why
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report.perfetto import render_perfetto
from toolkit.text.protobuf import field, varint

PROJECT = Path(__file__).resolve().parents[4]
MS = 1_000_000
BASE = 77_000 * MS
CLAIMS = claim_set(claim_db(), claim_web())
ESCAPE = Offender(
    claim="db", tid=7, comm="db", cpu=1, first_at_ns=5 * MS, total_ns=9 * MS, longest_ns=4 * MS, switches=3,
    last_at_ns=40 * MS, longest_at_ns=20 * MS,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An event as it was read back. :param at_ms: since the window opened."""

    track: str
    kind: int
    name: str
    at_ms: float
    words: dict[str, str | int]
    value: int


def read_back(data: bytes) -> list[Seen]:
    """Parse a trace; a track is named by its path."""
    trace: Any = perfetto_trace_pb2.Trace()  # type: ignore[attr-defined]
    trace.ParseFromString(data)
    names: dict[int, str] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            one = packet.track_descriptor
            names[one.uuid] = f"{names[one.parent_uuid]}/{one.name}" if one.parent_uuid else one.name
    return list(_events(trace, names))


def _events(trace: Any, names: dict[int, str]) -> Iterator[Seen]:
    for packet in trace.packet:
        if packet.HasField("track_event"):
            event = packet.track_event
            words = {one.name: one.string_value or one.int_value for one in event.debug_annotations}
            at_ms = (packet.timestamp - BASE) / MS
            yield Seen(track=names[event.track_uuid], kind=event.type, name=event.name, at_ms=at_ms, words=words,
                       value=event.counter_value)  # fmt: skip


def traced(found: Evidence, *offenders: Offender) -> list[Seen]:
    """Return what the trace of a window has, in which these ran outside."""
    found = replace(found, start_monotonic_ns=BASE)
    failed = Verdict(rule="cpuset-containment", subject="db", outcome=Outcome.FAILED, reason="", measures={},
                     offenders=offenders)  # fmt: skip
    result: Result = make_result(found, (failed,), {}, unknown=None)
    return read_back(render_perfetto(CLAIMS, found, result))


def on(seen: list[Seen], track: str) -> list[tuple[int, str, float]]:
    """Return what is on a track."""
    return [(one.kind, one.name, one.at_ms) for one in seen if one.track == track]


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

    assert [(one.kind, one.at_ms) for one in seen] == [(1, 0.0), (2, 10_000.0), (1, 0.0), (2, 30.0)]
    assert [one.words["why"] for one in seen if one.kind == 1] == ["promised", "owed"]
    assert [one.words["certain"] for one in seen if one.kind == 1] == ["yes", "no"]


def test_a_write_is_a_moment_with_its_author() -> None:
    """At the claim whose cgroup it was, or is below."""
    seen = traced(evidence(control_writes=(control_write(0.5, claim_db().cgroup, "0-1"),)))
    (write,) = [one for one in seen if one.track == "db/control files"]

    assert (write.kind, write.at_ms) == (3, 500.0)
    assert "0-1" in write.name
    assert str(write.words["author"]).endswith(")")
    assert not on(seen, "web/control files")


def test_bins_are_curves_and_owners() -> None:
    """In percent of a CPU, with a value where it changes; of the CPU, the claim that had most of it."""

    def bins(claim: str, numbers: tuple[int, ...], run_us: tuple[int, ...]) -> TimelineBins:
        return TimelineBins(
            claim=claim, cpu=2, bin_ns=10 * MS, start_at_ns=-4 * MS, bins=numbers, run_us=run_us,
            wait_us=tuple(0 for _ in numbers),
        )  # fmt: skip

    rows = (bins("db", (1, 2, 5), (9000, 9000, 1000)), bins("web", (2, 5), (500, 4000)))
    seen = traced(evidence(timeline_bins=rows))
    curve = [(one.at_ms, one.value) for one in seen if one.track == "db/ran on CPU 2"]

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


def test_a_saved_run_is_written_as_a_trace(tmp_path: Path) -> None:
    """By ``report --perfetto``: of several windows the one that is drawn elsewhere; a planted escape is in it."""
    done = pinproof("report", PROJECT / "tests/data/watches/escape-seen", "--perfetto", tmp_path / "trace")
    nowhere = pinproof("report", PROJECT / "tests/data/watches/escape-seen", "--perfetto", tmp_path / "no" / "trace")

    assert done.exit_code == 1
    seen = read_back((tmp_path / "trace").read_bytes())
    assert any(one.track.endswith("/violations") and one.name.startswith("first: ") for one in seen)
    assert (nowhere.exit_code, nowhere.stderr.count("\n")) == (1, 1)
