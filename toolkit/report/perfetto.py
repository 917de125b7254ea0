"""A run as a trace for Perfetto's viewer: native track events, one track a CPU and one a claim. Pure.

Below a claim are what it was promised when, what broke it, what wrote its control files, and what it ran and waited for
on each CPU; below a CPU, which claim ran there most, and what ran there that may not. Moments are CLOCK_MONOTONIC, and
the wall clock is given beside them.

Source: protos/perfetto/trace/{trace_packet,clock_snapshot,track_event/*}.proto of https://github.com/google/perfetto
(the numbers of their fields); https://perfetto.dev/docs/reference/synthetic-track-event
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from toolkit.model.claim_changes import in_force
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet
from toolkit.model.cpuset import cpus_text
from toolkit.model.evidence import ControlWrite, Evidence, Intruder, OwnerClass, TimelineBins, Transition
from toolkit.model.held import Held
from toolkit.model.result import Result
from toolkit.model.verdict import Offender, Outcome
from toolkit.report.text import printable
from toolkit.report.verdict_list import MASKS
from toolkit.text.protobuf import field
from toolkit.timeline.held import Timeline
from toolkit.timeline.saved import promised

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_REALTIME, _MONOTONIC, _BOOTTIME = 1, 3, 6
_SEQUENCE = 1
Words = Mapping[str, str | int]
"""What is said of an event beside its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Happened:
    """Something on a track. :param start_ns, end_ns: since the window opened; the same: a moment."""

    start_ns: int
    end_ns: int
    name: str
    words: Words


class _Writer:
    """Packets of one trace, in their order, and the numbers of its tracks."""

    def __init__(self, base_ns: int) -> None:
        self._base_ns, self._tracks, self._packets = base_ns, 0, bytearray()

    def written(self) -> bytes:
        """Return what was written."""
        return bytes(self._packets)

    def packet(self, *content: bytes, at_ns: int | None = None) -> None:
        """Write a packet. :param at_ns: since the window opened."""
        head = b"" if at_ns is None else field(8, max(0, self._base_ns + at_ns))
        self._packets += field(1, head + b"".join(content) + field(10, _SEQUENCE))

    def clocks(self, wall_ns: int) -> None:
        """Say what the wall clock was when the window opened."""
        readings = ((_MONOTONIC, self._base_ns), (_BOOTTIME, self._base_ns), (_REALTIME, wall_ns))
        self.packet(field(6, b"".join(field(1, field(1, clock) + field(2, ns)) for clock, ns in readings)), at_ns=0)

    def track(self, name: str, parent: int = 0, *, counter: bool = False) -> int:
        """Begin a track; returns its number."""
        self._tracks += 1
        parts = [field(1, self._tracks), field(2, printable(name))]
        if parent:
            parts.append(field(5, parent))
        if counter:
            parts.append(field(8, field(6, "% of a CPU")))
        self.packet(field(60, b"".join(parts)))
        return self._tracks

    def count(self, track: int, at_ns: int, value: int) -> None:
        """Write a counter's new value."""
        self.packet(field(11, field(9, _COUNTER) + field(11, track) + field(30, value)), at_ns=at_ns)

    def spans(self, name: str, parent: int, found: Iterable[_Happened]) -> None:
        """Write spans and moments on as many tracks of a name as it takes that none lies across another."""
        lanes: list[tuple[int, int]] = []
        for one in sorted(found, key=lambda one: (one.start_ns, -one.end_ns)):
            free = next((at for at, (_, end_ns) in enumerate(lanes) if end_ns <= one.start_ns), len(lanes))
            if free == len(lanes):
                lanes.append((self.track(name, parent), one.end_ns))
            track = lanes[free][0]
            lanes[free] = (track, one.end_ns)
            self._event(track, one)

    def _event(self, track: int, one: _Happened) -> None:
        where, said = field(11, track), b"".join(_word(*item) for item in one.words.items())
        kind = _INSTANT if one.end_ns <= one.start_ns else _BEGIN
        self.packet(field(11, field(9, kind) + where + field(23, printable(one.name)) + said), at_ns=one.start_ns)
        if kind == _BEGIN:
            self.packet(field(11, field(9, _END) + where), at_ns=one.end_ns)


def _word(name: str, value: str | int) -> bytes:
    said = field(4, value) if isinstance(value, int) else field(6, printable(value))
    return field(4, field(10, name) + said)


def render_perfetto(claims: ClaimSet, evidence: Evidence, result: Result) -> bytes:
    """Return the trace of one window. :param result: its verdicts."""
    writer = _Writer(evidence.start_monotonic_ns)
    writer.clocks(int(datetime.fromisoformat(evidence.started_at).timestamp() * 1e9))
    outside = _outside(result)
    for claim in in_force(claims, evidence.claim_changes).claims:
        _claim(writer, claims, claim, evidence, outside.get(claim.name, ()))
    cpus = {row.cpu for row in evidence.cpu_use} | {row.cpu for row in evidence.intruders}
    for cpu in sorted(cpus | {one.cpu for ones in outside.values() for one in ones}):
        _cpu(writer, cpu, claims, evidence, [one for ones in outside.values() for one in ones if one.cpu == cpu])
    writer.spans("node", 0, _node(evidence))
    return writer.written()


def _outside(result: Result) -> dict[str, list[Offender]]:
    """Return what ran where it may not, by claim; each once, whatever rules it breaks."""
    found: dict[str, dict[tuple[int, int, int], Offender]] = {}
    for verdict in result.verdicts:
        if verdict.outcome is Outcome.FAILED and verdict.rule not in MASKS:
            for one in verdict.offenders:
                if one.total_ns:
                    found.setdefault(one.claim, {})[one.tid, one.cpu, one.first_at_ns] = one
    return {claim: list(ones.values()) for claim, ones in found.items()}


def _claim(writer: _Writer, claims: ClaimSet, claim: Claim, evidence: Evidence, outside: Iterable[Offender]) -> None:
    parent = writer.track(claim.name)
    mine = [one for one in evidence.transitions if one.claim == claim.name]
    rows = [*promised(claims, claim, mine).rows, *Timeline(evidence.held).of(claim.name).rows]
    writer.spans("promised", parent, _promises(rows, evidence.duration_ns))
    writer.spans("violations", parent, (part for one in outside for part in _violation(one)))
    writes = [one for one in evidence.control_writes or () if _concerns(one, claim)]
    writer.spans("control files", parent, map(_write, writes))
    for bins in evidence.timeline_bins:
        if bins.claim == claim.name:
            _curve(writer, f"ran on CPU {bins.cpu}", parent, bins, bins.run_us)
            _curve(writer, f"waited for CPU {bins.cpu}", parent, bins, bins.wait_us)


def _concerns(write: ControlWrite, claim: Claim) -> bool:
    """Whether a write was to its cgroup's files, or to those of one above it."""
    return (claim.cgroup.rstrip("/") + "/").startswith(write.cgroup.rstrip("/") + "/")


def _promises(rows: Iterable[Held], duration_ns: int) -> Iterator[_Happened]:
    for row in rows:
        start_ns, end_ns = max(0, row.from_ns), min(duration_ns, row.to_ns)
        if start_ns < end_ns:
            words: dict[str, str | int] = {"why": row.why, "certain": "yes" if row.certain else "no"}
            if row.quota_us is not None and row.quota_us != NO_QUOTA:
                words["quota"] = f"{row.quota_us} us in {row.period_us} us"
            if row.mems is not None:
                words["memory nodes"] = str(row.mems)
            name = row.why if row.cpus is None else f"{cpus_text(row.cpus)} ({row.isolation})"
            yield _Happened(start_ns=start_ns, end_ns=end_ns, name=name, words=words)


def _violation(one: Offender) -> Iterator[_Happened]:
    """Yield the first moment, the longest stay and the last moment of what ran outside."""
    words: Words = {
        "claim": one.claim,
        "thread": one.tid,
        "CPU": one.cpu,
        "in all (ns)": one.total_ns,
        "longest (ns)": one.longest_ns,
        "stays": one.switches,
    }
    name = f"{one.comm} ({one.tid}) on CPU {one.cpu}"
    yield _Happened(start_ns=one.first_at_ns, end_ns=one.first_at_ns, name=f"first: {name}", words=words)
    if one.longest_at_ns is not None:
        start_ns = max(0, one.longest_at_ns - one.longest_ns)
        yield _Happened(start_ns=start_ns, end_ns=one.longest_at_ns, name=f"longest: {name}", words=words)
    if one.last_at_ns is not None:
        yield _Happened(start_ns=one.last_at_ns, end_ns=one.last_at_ns, name=f"last: {name}", words=words)


def _write(one: ControlWrite) -> _Happened:
    words: Words = {
        "author": f"{one.comm} ({one.pid})",
        "file": f"{one.cgroup}/{one.file}",
        "hierarchy": one.hierarchy,
        "refused": one.errno,
    }
    return _Happened(start_ns=one.at_ns, end_ns=one.at_ns, name=f"{one.file} = {one.value} by {one.comm}", words=words)


def _curve(writer: _Writer, name: str, parent: int, bins: TimelineBins, values_us: tuple[int, ...]) -> None:
    """Write a curve in percent of a CPU: a value where it changes, and 0 where there is none."""
    if not any(values_us):
        return
    track, before = writer.track(name, parent, counter=True), 0
    known = dict(zip(bins.bins, values_us, strict=True))
    for number in sorted({*known, *(one + 1 for one in known)}):
        value = round(known.get(number, 0) * 100_000 / bins.bin_ns)
        if value != before:
            writer.count(track, bins.start_at_ns + number * bins.bin_ns, value)
            before = value


def _cpu(writer: _Writer, cpu: int, claims: ClaimSet, evidence: Evidence, outside: Iterable[Offender]) -> None:
    parent = writer.track(f"CPU {cpu}")
    writer.spans("ran most", parent, _owners([one for one in evidence.timeline_bins if one.cpu == cpu]))
    writer.spans("violations", parent, (part for one in outside for part in _violation(one)))
    if cpu in claims.exclusive_cpus:
        writer.spans("others", parent, (_other(one) for one in evidence.intruders if one.cpu == cpu))


def _owners(rows: Iterable[TimelineBins]) -> Iterator[_Happened]:
    """Yield which claim had most of each stretch of a CPU's time."""
    most: dict[int, tuple[int, str]] = {}
    for bins in rows:
        for number, run_us in zip(bins.bins, bins.run_us, strict=True):
            start_ns = bins.start_at_ns + number * bins.bin_ns
            if run_us:
                most[start_ns] = max(most.get(start_ns, (0, "")), (run_us * 1000, bins.claim))
    lengths = {bins.bin_ns for bins in rows}
    bin_ns = min(lengths, default=0)
    begun: tuple[int, int, str] | None = None
    for start_ns, (_, claim) in sorted(most.items()):
        if begun is not None and (claim != begun[2] or start_ns > begun[1]):
            yield _Happened(start_ns=begun[0], end_ns=begun[1], name=begun[2], words={})
            begun = None
        begun = (start_ns if begun is None else begun[0], start_ns + bin_ns, claim)
    if begun is not None:
        yield _Happened(start_ns=begun[0], end_ns=begun[1], name=begun[2], words={})


def _other(one: Intruder) -> _Happened:
    """Say what a task without a claim took of an exclusive CPU: at its longest stay, or where it came first."""
    words: Words = {"owner": one.owner, "cgroup": one.cgroup, "in all (ns)": one.total_ns, "stays": one.switches}
    end_ns = one.first_at_ns if one.longest_at_ns is None else one.longest_at_ns
    start_ns = max(0, end_ns - one.longest_ns) if one.longest_at_ns is not None else end_ns
    own = " (pinproof itself)" if one.owner is OwnerClass.TOOLKIT else ""
    return _Happened(start_ns=start_ns, end_ns=end_ns, name=f"{one.comm} ({one.tid}){own}", words=words)


def _node(evidence: Evidence) -> Iterator[_Happened]:
    yield from map(_change, evidence.transitions)
    for plug in evidence.hotplug:
        name = f"CPU {plug.cpu} went {'online' if plug.online else 'offline'}"
        yield _Happened(start_ns=plug.at_ns, end_ns=plug.at_ns, name=name, words={})


def _change(one: Transition) -> _Happened:
    words: dict[str, str | int] = {"cause": one.cause}
    for name, cpus in (("CPUs before", one.cpus_before), ("CPUs after", one.cpus_after)):
        if cpus is not None:
            words[name] = str(cpus)
    start_ns = max(0, one.start_at_ns)
    return _Happened(
        start_ns=start_ns, end_ns=max(start_ns, one.end_at_ns), name=f"{one.claim}: {one.what}", words=words
    )
