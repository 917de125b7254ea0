"""The account of a director (tests/data/probes/director.c), and what it makes true. Pure.

The truth comes from perf's task clock, read by the director just before and just after each thing that it did: how long
an actor was on a CPU while it was under a claim lies between what it used from the end of one write to the begin of the
next, and what it used from the begin of the one to the end of the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

STAY_NS = 20_000
SHARE = 0.05
"""What a figure may differ from the truth by: 5 %, or 20 µs a stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One line of a director's script. ``at_us`` counts from its first line."""

    at_us: int
    verb: str
    actor: str = "-"
    args: tuple[str | int, ...] = ()

    def line(self) -> str:
        """Return it as the director reads it."""
        return " ".join(map(str, (self.at_us, self.verb, self.actor, *self.args)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A moment (CLOCK_MONOTONIC), and how long the actor has been on CPU 0 and on CPU 1 by then."""

    ns: int
    clock: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What the director did for one line: when, what came of it, and the thread ids of its actor afterwards."""

    action: Action
    before: Stamp
    after: Stamp
    error: int
    before_birth_ns: int = 0
    tid: int = 0
    new_tid: int = 0
    least: int = 0
    most: int = 0
    stays: int = 0
    tids: tuple[int, ...] = ()


def deed(action: Action, answer: dict[str, Any]) -> Deed:
    """Read the director's answer to one line."""
    before, after = (Stamp(ns=answer[key]["ns"], clock=tuple(answer[key]["clock"])) for key in ("before", "after"))
    rest = {key: answer.get(key, 0) for key in ("error", "before_birth_ns", "tid", "new_tid", "least", "most", "stays")}
    return Deed(action=action, before=before, after=after, tids=tuple(answer.get("tids", ())), **rest)


@dataclass(slots=True)
class Outside:
    """CPU time of one actor outside the CPUs of one claim while under it: between ``least_ns`` and ``most_ns``."""

    least_ns: int = 0
    most_ns: int = 0
    stays: int = 0
    tids: set[int] = field(default_factory=set)

    @property
    def bounds(self) -> tuple[float, float]:
        """What a right figure lies between."""
        slack = max(self.stays * STAY_NS, SHARE * self.most_ns)
        return self.least_ns - slack, self.most_ns + slack

    @property
    def planted(self) -> bool:
        """Whether it must be found: more than 20 µs for sure."""
        return self.least_ns > STAY_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A claimed cgroup by the file that tasks are written to, and the CPU that its tasks must not use."""

    claim: str
    procs: str
    forbidden: int


@dataclass(slots=True)
class _Actor:
    claim: str = ""
    entered: Deed | None = None
    tids: set[int] = field(default_factory=set)
    hops: str = ""


def truth(deeds: Iterable[Deed], places: tuple[Place, ...]) -> dict[tuple[str, str], Outside]:
    """Return the time outside by (claim, actor). A script kills whom it wants accounted for."""
    by_file = {place.procs: place for place in places}
    by_claim = {place.claim: place for place in places}
    by_dir = {place.procs.rsplit("/", 1)[0]: place for place in places}
    actors: dict[str, _Actor] = {}
    found: dict[tuple[str, str], Outside] = {}

    def leave(name: str, one: _Actor, end: Deed) -> None:
        if not one.claim or one.entered is None:
            return
        cpu = by_claim[one.claim].forbidden
        row = found.setdefault((one.claim, name), Outside())
        begin = one.entered
        row.least_ns += max(0, end.before.clock[cpu] - begin.after.clock[cpu])
        ended = end.after.clock[cpu]
        if end.action.verb == "kill":
            # perf lets go of a task before it has exited: what it does after that takes at most as long as we waited.
            ended = end.before.clock[cpu] + end.after.ns - end.before.ns
        row.most_ns += ended - begin.before.clock[cpu] + begin.before_birth_ns
        row.stays += 1
        row.tids |= one.tids

    for one_deed in deeds:
        name, verb, args = one_deed.action.actor, one_deed.action.verb, one_deed.action.args
        if verb == "spawn":
            actors[name] = _Actor()
        if name not in actors:
            continue
        one = actors[name]
        one.tids |= {one_deed.tid, *one_deed.tids} - {0}
        if verb == "write" and not one_deed.error:
            leave(name, one, one_deed)
            place = by_file.get(str(args[0]))
            one.claim, one.entered = (place.claim if place else ""), one_deed
        elif verb in ("fork", "clone"):
            place = by_dir.get(str(args[1])) if verb == "clone" else by_claim.get(one.claim)
            child = actors[str(args[0])] = _Actor(claim=place.claim if place else "", tids={one_deed.new_tid})
            zero = Stamp(ns=one_deed.before.ns, clock=(0, 0))
            # It counts from where the director opened its clock; what it ran before is at most what it was asked then.
            child.entered = Deed(
                action=one_deed.action, before=zero, after=zero, error=0, before_birth_ns=one_deed.before_birth_ns
            )
        elif verb == "exec":
            one.tids.add(one_deed.new_tid)  # what the thread was called that executed
        elif verb == "hops":
            one.hops = by_file[str(args[0])].claim
        elif verb == "wait" and one.hops:
            # Its own sums, over all that it hopped so far.
            row = found.setdefault((one.hops, name), Outside())
            row.least_ns, row.most_ns, row.stays = one_deed.least, one_deed.most, one_deed.stays
            row.tids |= one.tids
        elif verb == "kill":
            leave(name, one, one_deed)
            one.claim = ""
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What pinproof answered about one thread outside: its claim, its id, its time."""

    claim: str
    tid: int
    ns: int


def differences(expected: dict[tuple[str, str], Outside], seen: Iterable[Seen]) -> list[str]:
    """Return what was missed, invented, or measured wrong, a line each."""
    owner = {(claim, tid): actor for (claim, actor), row in expected.items() for tid in row.tids}
    sums: Counter[tuple[str, str]] = Counter()
    lines = []
    for row in seen:
        actor = owner.get((row.claim, row.tid))
        if actor is None:
            lines.append(f"invented: {row.claim}: thread {row.tid}, {row.ns / 1e3:.1f} us")
        else:
            sums[row.claim, actor] += row.ns
    for key, one in sorted(expected.items()):
        ns, (least, most) = sums[key], one.bounds
        if one.planted and not ns:
            lines.append(f"missed: {key[0]}: {key[1]} {sorted(one.tids)}, {one.least_ns / 1e3:.1f} us")
        elif not least <= ns <= most:
            what = "too little" if ns < least else "too much" if one.most_ns else "invented"
            lines.append(
                f"{what}: {key[0]}: {key[1]} {sorted(one.tids)}: {ns / 1e3:.1f} us, "
                f"the truth is {one.least_ns / 1e3:.1f} to {one.most_ns / 1e3:.1f} us in {one.stays} stays"
            )
    return lines
