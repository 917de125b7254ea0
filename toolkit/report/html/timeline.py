"""When it happened: what each claim used in slots of the window, what it was promised then, and what was noticed. Pure.

A lane is an SVG of one width, the window; a page zooms by changing what part of it is shown. Text stands beside the
lanes and in the list of events below them, so that it is readable at any zoom, in print, and to a screen reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from toolkit.model.claim_changes import in_force
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet
from toolkit.model.cpuset import cpus_text
from toolkit.model.evidence import Evidence, Transition, UsageBin
from toolkit.model.held import EVERY, Held, Why
from toolkit.model.result import Result
from toolkit.model.verdict import Offender, Outcome
from toolkit.report.html.drawing import box, group, path, svg
from toolkit.report.verdict_list import MASKS
from toolkit.text.wording import brief, count
from toolkit.timeline.held import Timeline
from toolkit.timeline.saved import promised

WIDE, HIGH, LOW = 10_000, 40, 14
"""Of a lane, in its own units: its width, and its height above (what happened) and below (what was promised)."""
MAX_LANES, MAX_EVENTS, MAX_MARKS, MAX_SPANS, MAX_SLOTS = 12, 60, 150, 60, 400
SAID = {
    Why.PROMISED: "promised",
    Why.CHANGING: "its set was being changed",
    Why.GRANTED: "granted by the next reading",
    Why.MADE_ANEW: "made anew, not spoken of yet",
    Why.UNREAD: "not known: the source was not read any more",
    Why.OWED: "had to be given back",
    Why.TAKEN: "another pod's by then",
    Why.FORGOTTEN: "held, and in no state file",
    Why.BEING_MADE: "being made",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a claim held, in words. :param start, end: in milliseconds of the window; ``None``: it reaches beyond."""

    start: float | None
    end: float | None
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One claim. :param bad: it ran outside, or what it was promised did not hold. :param used: in words."""

    name: str
    bad: bool
    used: str
    happened: Markup
    held: Markup
    promises: tuple[Promise, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that was noticed. :param at: milliseconds since the window opened. :param kind: its class."""

    at: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A page's timeline. :param window: in milliseconds. :param left: how many claims have no lane."""

    window: float
    lanes: tuple[Lane, ...]
    left: int
    marks: Markup
    events: tuple[Event, ...]
    more_events: int


def timeline_of(claims: ClaimSet, evidence: Evidence, result: Result) -> Times:
    """Return the timeline of a window. :param result: its verdicts."""
    window = max(1, evidence.duration_ns)
    bins: dict[str, list[UsageBin]] = {}
    for one in evidence.usage_bins:
        bins.setdefault(one.claim, []).append(one)
    bins |= _fine_bins(evidence)
    outside = _outside(result)
    claims = in_force(claims, evidence.changed)
    tasks = [claim for claim in claims.claims if claim.kind.carries_tasks]
    tasks.sort(key=lambda one: (one.name not in outside, one.name not in bins))
    lanes = [
        _lane(claims, one, evidence, bins.get(one.name, ()), outside.get(one.name, ())) for one in tasks[:MAX_LANES]
    ]
    events = sorted(_events(evidence), key=lambda one: one.at)
    return Times(
        window=window / 1e6,
        lanes=tuple(lanes),
        left=len(tasks) - len(lanes),
        marks=_marks(events[:MAX_MARKS], window),
        events=tuple(events[:MAX_EVENTS]),
        more_events=max(0, len(events) - MAX_EVENTS),
    )


def _fine_bins(evidence: Evidence) -> dict[str, list[UsageBin]]:
    """Return what claims used in the bins of a timeline, over all CPUs, so many together that a lane can show them."""
    sums: dict[tuple[str, int, int], dict[int, int]] = {}
    for one in evidence.timeline_bins:
        together = max(1, -(-evidence.duration_ns // (one.bin_ns * MAX_SLOTS)))
        of_claim = sums.setdefault((one.claim, one.start_at_ns, one.bin_ns * together), {})
        for number, ran_us in zip(one.bins, one.run_us, strict=True):
            of_claim[number // together] = of_claim.get(number // together, 0) + ran_us * 1000
    return {
        claim: [
            UsageBin(claim=claim, start_at_ns=start_ns + at * length_ns, length_ns=length_ns, usage_ns=ns)
            for at, ns in sorted(of_claim.items())
        ]
        for (claim, start_ns, length_ns), of_claim in sums.items()
    }


def _outside(result: Result) -> dict[str, list[Offender]]:
    """Return what ran where it may not, by claim; not by what a mask allows alone."""
    found: dict[str, dict[tuple[int, int, int], Offender]] = {}
    for verdict in result.verdicts:
        if verdict.outcome is Outcome.FAILED and verdict.rule not in MASKS:
            for one in verdict.offenders:
                if one.total_ns or one.switches:
                    found.setdefault(one.claim, {})[one.tid, one.cpu, one.first_at_ns] = one
    return {claim: list(ones.values()) for claim, ones in found.items()}


def _lane(
    claims: ClaimSet, claim: Claim, evidence: Evidence, bins: Sequence[UsageBin], outside: Sequence[Offender]
) -> Lane:
    window = max(1, evidence.duration_ns)
    mine = [one for one in evidence.transitions if one.claim == claim.name]
    rows = [*promised(claims, claim, mine).rows, *Timeline(evidence.held).of(claim.name).rows]
    rows = [row for row in rows if row.from_ns < window and row.to_ns > 0][:MAX_SPANS]
    most = max((one.usage_ns / max(1, one.length_ns) for one in bins), default=0.0)
    used = sum(one.usage_ns for one in bins)
    said = f"used {brief(used)}, at most {most:.2f} CPUs" if bins else "its use by time was not recorded"
    if outside:
        total = sum(one.total_ns for one in outside)
        said += f"; ran outside {brief(total)}, {count(len(outside), 'task')}"
    return Lane(
        name=claim.name,
        bad=bool(outside),
        used=said,
        happened=_lane_svg(HIGH, f"{claim.name}: {said}", [*_area(bins, most, window), *_breaches(outside, window)]),
        held=_lane_svg(LOW, f"{claim.name}: {count(len(rows), 'promise')}", [_span(row, window) for row in rows]),
        promises=tuple(_promise(row, window) for row in rows),
    )


def _lane_svg(height: int, label: str, content: Sequence[str]) -> Markup:
    return svg("lane", (WIDE, height), content, label=label, stretched=True)


def _x(at_ns: float, window: int) -> int:
    return max(0, min(WIDE, round(at_ns / window * WIDE)))


def _area(bins: Sequence[UsageBin], most: float, window: int) -> list[str]:
    """Draw the CPUs that were used, slot by slot, the most of any slot as high as the lane."""
    if not bins or not most:
        return []
    outline, last = list[str](), -1
    for one in sorted(bins, key=lambda one: one.start_at_ns):
        begin, end = _x(one.start_at_ns, window), _x(one.start_at_ns + one.length_ns, window)
        y = HIGH - round(one.usage_ns / max(1, one.length_ns) / most * (HIGH - 4))
        down = f"V{HIGH}" if outline else ""
        outline.append(f"V{y}H{end}" if begin == last else f"{down}M{begin} {HIGH}V{y}H{end}")
        last = end
    return [path(f"{''.join(outline)}V{HIGH}z", "used")]


def _breaches(outside: Iterable[Offender], window: int) -> Iterator[str]:
    """Mark what ran outside: a line where it began, its longest stay, and until when it came again."""
    for one in sorted(outside, key=lambda one: -one.total_ns)[:MAX_MARKS]:
        begin = _x(one.first_at_ns, window)
        until_ns = one.first_at_ns + one.longest_ns if one.longest_at_ns is None else one.longest_at_ns
        longest, until = _x(until_ns - one.longest_ns, window), _x(until_ns, window)
        end = max(until, begin if one.last_at_ns is None else _x(one.last_at_ns, window))
        tip = f"{one.comm} ({one.tid}) on CPU {one.cpu}: {brief(one.total_ns)} outside, first {brief(one.first_at_ns)}"
        stays = [
            box(begin, 0, max(1, end - begin), HIGH, kind="until"),
            box(longest, 0, max(1, until - longest), HIGH),
            path(f"M{begin} 0V{HIGH}"),
        ]
        yield group("breach", stays, tip)


def _span(row: Held, window: int) -> str:
    begin, end = _x(row.from_ns, window), _x(row.to_ns, window)
    kind = f"held {row.why}" + ("" if row.certain else " doubt")
    return group(kind, [box(begin, 1, max(1, end - begin), LOW - 2)], f"{SAID[row.why]}: {_held_text(row)}")


def _held_text(row: Held) -> str:
    parts = [] if row.cpus is None else [cpus_text(row.cpus) if row.cpus else "no CPU"]
    if row.quota_us is not None:
        period = row.period_us or 100_000
        parts.append(
            "no quota" if row.quota_us == NO_QUOTA else f"quota {row.quota_us / 1e3:g} ms / {period / 1e3:g} ms"
        )
    if row.weight is not None:
        parts.append(f"weight {row.weight}")
    if row.mems is not None:
        parts.append(f"memory nodes {row.mems}")
    return ", ".join(parts) or "nothing that is judged here"


def _promise(row: Held, window: int) -> Promise:
    return Promise(
        start=None if row.from_ns <= 0 else row.from_ns / 1e6,
        end=None if row.to_ns >= window else row.to_ns / 1e6,
        what=_held_text(row),
        why=SAID[row.why]
        + ("" if row.certain else ", not certain")
        + (" (of every claim)" if row.claim == EVERY else ""),
    )


def _marks(events: Sequence[Event], window: int) -> Markup:
    lines = [group(f"event {one.kind}", [path(f"M{_x(one.at * 1e6, window)} 0V{LOW}")], one.text) for one in events]
    return _lane_svg(LOW, f"{count(len(events), 'event')}, listed below", lines)


def _events(evidence: Evidence) -> Iterator[Event]:
    """Yield what was noticed in the window, of every witness that gives a moment."""
    for write in evidence.control_writes or ():
        if write.at_ns >= 0 and not write.own:
            refused = ", refused" if write.errno else ""
            text = f"{write.comm} ({write.pid}) wrote {write.value!r} to {write.cgroup}/{write.file}{refused}"
            yield Event(at=write.at_ns / 1e6, kind="write", text=text)
    for change in evidence.affinity_changes or ():
        text = f"{change.caller_comm} set the affinity of thread {change.tid} of {change.claim or 'no claim'}: "
        yield Event(at=change.at_ns / 1e6, kind="write", text=f"{text}{cpus_text(change.cpus)}")
    for move in evidence.cgroup_moves:
        if move.from_claim != move.to_claim:
            text = f"{move.writer_comm} moved {move.comm} ({move.tid}) from {move.from_claim or 'no claim'} "
            yield Event(at=move.at_ns / 1e6, kind="move", text=f"{text}to {move.to_claim or 'no claim'}")
    yield from map(_transition, evidence.transitions)
    for plug in evidence.hotplug:
        text = f"CPU {plug.cpu} went {'online' if plug.online else 'offline'}"
        yield Event(at=plug.at_ns / 1e6, kind="plug", text=text)
    for canary in evidence.canaries:
        if canary.positive:
            yield Event(at=canary.planted_at_ns / 1e6, kind="canary", text=f"an escape was planted on CPU {canary.cpu}")
            if canary.reported_at_ns is not None:
                yield Event(at=canary.reported_at_ns / 1e6, kind="canary", text="the planted escape was reported")


def _transition(one: Transition) -> Event:
    sets = ""
    if one.cpus_before is not None and one.cpus_after is not None:
        sets = f", {cpus_text(one.cpus_before)} before, {cpus_text(one.cpus_after)} after"
    lasted = f", over {brief(one.end_at_ns - one.start_at_ns)}" if one.end_at_ns > one.start_at_ns else ""
    return Event(at=one.start_at_ns / 1e6, kind="change", text=f"{one.claim}: {one.what} by {one.cause}{sets}{lasted}")
