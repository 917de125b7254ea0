"""Runs as a trace for Perfetto's viewer: native track events, one track a CPU and one a claim. Pure.

Windows of one run follow each other on the same tracks; of a session each run has tracks of its own, below its name.
A track of windows has the outcome of each. Below a claim are what it was promised when, what broke it, what wrote its
control files, and what it ran and waited for on each CPU; below a CPU, which claim ran there most, and what ran there
that may not. Moments are CLOCK_MONOTONIC, and the wall clock is given beside the first.

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
MAX_REASONS = 20
"""Reasons that stand at a window: of what failed and of what is undecided."""
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
    """Packets of one trace, in their order, and the numbers of its tracks. Moments are since the open window began."""

    def __init__(self) -> None:
        self._base_ns, self._packets = 0, bytearray()
        self._known: dict[tuple[int, str, str], int] = {}
        self._lanes: dict[tuple[int, str], list[tuple[int, int]]] = {}
        self._curves: dict[int, tuple[int, int, int]] = {}
        self._tracks = 0

    def open(self, base_ns: int, wall_ns: int) -> None:
        """Begin a window. The first says what the wall clock was when it opened."""
        first, self._base_ns = not self._packets, base_ns
        if first:
            readings = ((_MONOTONIC, base_ns), (_BOOTTIME, base_ns), (_REALTIME, wall_ns))
            clocks = b"".join(field(1, field(1, clock) + field(2, ns)) for clock, ns in readings)
            self._packet(field(6, clocks), at_ns=base_ns)

    def written(self) -> bytes:
        """Return what was written, with the curves ended."""
        for track, (_, end_ns, _) in self._curves.items():
            self._count(track, end_ns, 0)
        self._curves.clear()
        return bytes(self._packets)

    def track(self, name: str, parent: int = 0, *, of: str = "", counter: bool = False) -> int:
        """Return the number of a track, which is begun where there is none. :param of: what it is the track of."""
        found = self._known.get((parent, of, name))
        if found is None:
            found = self._known[parent, of, name] = self._new(name, parent, counter=counter)
        return found

    def _new(self, name: str, parent: int, *, counter: bool = False) -> int:
        self._tracks += 1
        parts = [field(1, self._tracks), field(2, printable(name))]
        if parent:
            parts.append(field(5, parent))
        if counter:
            parts.append(field(8, field(6, "% of a CPU")))
        self._packet(field(60, b"".join(parts)))
        return self._tracks

    def curve(self, track: int, slots: Mapping[int, int], slot_ns: int) -> None:
        """Write a counter's values where they change, and 0 where there is none.

        A slot that two windows share is one: it has the sum of both. :param slots: begin -> value, of so many ns each.
        """
        values = {self._base_ns + at_ns: value for at_ns, value in slots.items()}
        start_ns, end_ns, now = self._curves.get(track, (0, 0, 0))
        for at_ns in sorted(values):
            value = values[at_ns] + (now if at_ns == start_ns else 0)
            if end_ns and at_ns > end_ns and now:
                self._count(track, end_ns, 0)
                now = 0
            if value != now:
                self._count(track, at_ns, value)
            start_ns, end_ns, now = at_ns, at_ns + slot_ns, value
        self._curves[track] = (start_ns, end_ns, now)

    def spans(self, name: str, parent: int, found: Iterable[_Happened]) -> None:
        """Write spans and moments on as many tracks of a name as it takes that none lies across another."""
        lanes = self._lanes.setdefault((parent, name), [])
        for one in sorted(found, key=lambda one: (one.start_ns, -one.end_ns)):
            start_ns, end_ns = max(0, self._base_ns + one.start_ns), self._base_ns + one.end_ns
            free = next((at for at, (_, until_ns) in enumerate(lanes) if until_ns <= start_ns), len(lanes))
            if free == len(lanes):
                lanes.append((self._new(name, parent), end_ns))
            track = lanes[free][0]
            lanes[free] = (track, end_ns)
            self._event(track, start_ns, end_ns, one)

    def _event(self, track: int, start_ns: int, end_ns: int, one: _Happened) -> None:
        where, said = field(11, track), b"".join(_word(*item) for item in one.words.items())
        kind = _INSTANT if end_ns <= start_ns else _BEGIN
        self._packet(field(11, field(9, kind) + where + field(23, printable(one.name)) + said), at_ns=start_ns)
        if kind == _BEGIN:
            self._packet(field(11, field(9, _END) + where), at_ns=end_ns)

    def _count(self, track: int, at_ns: int, value: int) -> None:
        self._packet(field(11, field(9, _COUNTER) + field(11, track) + field(30, value)), at_ns=at_ns)

    def _packet(self, content: bytes, at_ns: int | None = None) -> None:
        head = b"" if at_ns is None else field(8, max(0, at_ns))
        self._packets += field(1, head + content + field(10, _SEQUENCE))


def _word(name: str, value: str | int) -> bytes:
    said = field(4, value) if isinstance(value, int) else field(6, printable(value))
    return field(4, field(10, name) + said)


class Trace:
    """A trace that is being made: :meth:`add` each window, in its turn, then ask for what was :meth:`written`."""

    def __init__(self) -> None:
        self._writer = _Writer()

    def add(self, claims: ClaimSet, evidence: Evidence, result: Result, *, group: str = "", window: str = "") -> None:
        """Write a window. :param result: its verdicts. :param group: the run whose it is. :param window: its name."""
        writer = self._writer
        writer.open(evidence.start_monotonic_ns, int(datetime.fromisoformat(evidence.started_at).timestamp() * 1e9))
        parent = writer.track(group, of="run") if group else 0
        writer.spans("windows", parent, [_window(window, evidence, result)])
        outside = _outside(result)
        for claim in in_force(claims, evidence.changed).claims:
            _claim(writer, writer.track(claim.name, parent, of="claim"), claims, claim, evidence, outside)
        every = [one for ones in outside.values() for one in ones]
        cpus = {row.cpu for row in evidence.cpu_use} | {row.cpu for row in evidence.intruders}
        for cpu in sorted(cpus | {one.cpu for one in every}):
            here = [one for one in every if one.cpu == cpu]
            _cpu(writer, writer.track(f"CPU {cpu}", parent, of="cpu"), cpu, claims, evidence, here)
        writer.spans("node", parent, _node(evidence))

    def written(self) -> bytes:
        """Return the trace of the windows so far."""
        return self._writer.written()


def _window(name: str, evidence: Evidence, result: Result) -> _Happened:
    """Say how a window came out, and of what did not pass, why."""
    bad = [one for kind in (Outcome.FAILED, Outcome.UNDECIDED) for one in result.verdicts if one.outcome is kind]
    words = {f"{one.rule} {one.subject}".rstrip(): f"{one.outcome}: {one.reason}" for one in bad[:MAX_REASONS]}
    named = f"{name}: {result.outcome}" if name else str(result.outcome)
    return _Happened(start_ns=0, end_ns=evidence.duration_ns, name=named, words=words)


def _outside(result: Result) -> dict[str, list[Offender]]:
    """Return what ran where it may not, by claim; each once, whatever rules it breaks."""
    found: dict[str, dict[tuple[int, int, int], Offender]] = {}
    for verdict in result.verdicts:
        if verdict.outcome is Outcome.FAILED and verdict.rule not in MASKS:
            for one in verdict.offenders:
                if one.total_ns:
                    found.setdefault(one.claim, {})[one.tid, one.cpu, one.first_at_ns] = one
    return {claim: list(ones.values()) for claim, ones in found.items()}


def _claim(
    writer: _Writer,
    parent: int,
    claims: ClaimSet,
    claim: Claim,
    evidence: Evidence,
    outside: Mapping[str, Iterable[Offender]],
) -> None:
    mine = [one for one in evidence.transitions if one.claim == claim.name]
    rows = [*promised(claims, claim, mine).rows, *Timeline(evidence.held).of(claim.name).rows]
    writer.spans("promised", parent, _promises(rows, evidence.duration_ns))
    writer.spans("violations", parent, (part for one in outside.get(claim.name, ()) for part in _violation(one)))
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
    """Write a curve in percent of a CPU."""
    if any(values_us):
        slots = {
            bins.start_at_ns + number * bins.bin_ns: round(value_us * 100_000 / bins.bin_ns)
            for number, value_us in zip(bins.bins, values_us, strict=True)
        }
        writer.curve(writer.track(name, parent, of="curve", counter=True), slots, bins.bin_ns)


def _cpu(
    writer: _Writer, parent: int, cpu: int, claims: ClaimSet, evidence: Evidence, outside: Iterable[Offender]
) -> None:
    bins = [one for one in evidence.timeline_bins if one.cpu == cpu]
    writer.spans("ran most", parent, _owners(bins, evidence.duration_ns))
    writer.spans("violations", parent, (part for one in outside for part in _violation(one)))
    if cpu in claims.exclusive_cpus:
        writer.spans("others", parent, (_other(one) for one in evidence.intruders if one.cpu == cpu))


def _owners(rows: Iterable[TimelineBins], duration_ns: int) -> Iterator[_Happened]:
    """Yield which claim had most of each stretch of a CPU's time, within the window."""
    most: dict[int, tuple[int, str]] = {}
    for bins in rows:
        for number, run_us in zip(bins.bins, bins.run_us, strict=True):
            start_ns = bins.start_at_ns + number * bins.bin_ns
            if run_us:
                most[start_ns] = max(most.get(start_ns, (0, "")), (run_us * 1000, bins.claim))
    bin_ns = min((bins.bin_ns for bins in rows), default=0)

    def stretch(start_ns: int, end_ns: int, claim: str) -> _Happened:
        return _Happened(start_ns=max(0, start_ns), end_ns=min(duration_ns, end_ns), name=claim, words={})

    begun: tuple[int, int, str] | None = None
    for start_ns, (_, claim) in sorted(most.items()):
        if begun is not None and (claim != begun[2] or start_ns > begun[1]):
            yield stretch(*begun)
            begun = None
        begun = (start_ns if begun is None else begun[0], start_ns + bin_ns, claim)
    if begun is not None:
        yield stretch(*begun)


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
