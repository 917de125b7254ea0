"""The account of a director (tests/data/probes/director.c), and what it makes true. Pure.

The truth comes from perf's task clock, read by the director just before and just after each thing that it did: how long
an actor was on a CPU while it was under a claim lies between what it used from the end of one write to the begin of the
next, and what it used from the begin of the one to the end of the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

STAY_NS = 20_000
SHARE = 0.05
"""What a figure may differ from the truth by: 5 %, or 20 us a stay."""


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
    """A moment (CLOCK_MONOTONIC), and how long the actor has been on CPU 0 and on CPU 1 by then.

    ``switched``: how often perf saw it switched out there.
    """

    ns: int
    clock: tuple[int, int]
    switched: tuple[int, int] = (0, 0)


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
    child: int = 0
    """Thread id of the last vforked child, and what it used on the CPU that it was sent to."""
    child_least: int = 0
    child_most: int = 0


def deed(action: Action, answer: dict[str, Any]) -> Deed:
    """Read the director's answer to one line."""
    before, after = (
        Stamp(ns=answer[key]["ns"], clock=tuple(answer[key]["clock"]), switched=tuple(answer[key]["switched"]))
        for key in ("before", "after")
    )
    names = (
        "error",
        "before_birth_ns",
        "tid",
        "new_tid",
        "least",
        "most",
        "stays",
        "child",
        "child_least",
        "child_most",
    )
    rest = {key: answer.get(key, 0) for key in names}
    return Deed(action=action, before=before, after=after, tids=tuple(answer.get("tids", ())), **rest)


@dataclass(slots=True)
class Outside:
    """CPU time of one actor outside the CPUs of one claim while under it: between ``least_ns`` and ``most_ns``.

    ``switched``: how often it was switched out meanwhile at least, by perf; ``None``: that is not known.
    """

    least_ns: int = 0
    most_ns: int = 0
    stays: int = 0
    switched: int | None = 0
    tids: set[int] = field(default_factory=set)

    @property
    def bounds(self) -> tuple[float, float]:
        """What a right figure lies between."""
        slack = max(self.stays * STAY_NS, SHARE * self.most_ns)
        return self.least_ns - slack, self.most_ns + slack

    @property
    def planted(self) -> bool:
        """Whether it must be found: more than 20 us for sure."""
        return self.least_ns > STAY_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An actor that had executed a program inside was moved out of its claim, alive, between these two moments."""

    claim: str
    actor: str
    tids: frozenset[int]
    from_ns: int
    to_ns: int


def gone(claim: str) -> str:
    """Return the name of the account of those that left a claim: what they ran on the CPU that is another's own."""
    return f"left {claim}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A claimed cgroup by the file that tasks are written to, and the CPU that its tasks must not use."""

    claim: str
    procs: str
    forbidden: int
    cpuset: str = ""
    """Where cpusets are in a hierarchy of their own: the file by which a joining is completed."""


WAY_OUT_NS = 250_000
"""A task's clock stops in the middle of do_exit() (``perf_event_exit_task``); what it still runs up to its last switch,
telling its parent above all, is 20-90 us here, interrupts included: three times that."""
PATIENCE_NS = 75_000_000
BLURRED_NS = 15_000_000
"""So near to the patience it cannot be seen from outside whether a joining was completed in time."""


@dataclass(slots=True)
class _Actor:
    cpu: int = -1
    """That it is pinned to; where it changes its own mask, the one to which it returns."""
    claim: str = ""
    entered: Deed | None = None
    """What it used since then counts at most; since ``surely``, at least."""
    surely: Deed | None = None
    tids: set[int] = field(default_factory=set)
    asked: Deed | None = None
    """Hops, changes of its mask, or a vfork that were handed to it."""
    ways_out: int = 0
    """Threads of it that died since it entered, none of which was waited for."""
    hopped: tuple[int, int, int] = (0, 0, 0)
    """What its own sums said when they were read last."""
    executed: bool = False
    """Its program was executed under a claim: it is no visitor any more, and leaves where it is moved out."""
    left: str = ""
    """The claim that it left so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a director made true: the time outside by (claim, actor), and the leaves.

    What ran on another's own CPU after a leave is under ``gone(claim)``.
    """

    outside: dict[tuple[str, str], Outside]
    left: tuple[Left, ...]


def truth(deeds: Iterable[Deed], places: tuple[Place, ...], owned: int | None = None) -> Truth:
    """Return what is true after these deeds. A script kills the actors that it wants accounted for.

    :param owned: the CPU that is a claim's own, where those that left are looked for; ``None``: nowhere.
    """
    books = _Books(places, owned)
    for one in deeds:
        books.enter(one)
    return Truth(outside=books.found, left=tuple(books.left))


class _Books:
    """Where each actor is by what was done so far, and what it used where it must not."""

    def __init__(self, places: tuple[Place, ...], owned: int | None) -> None:
        self._owned = owned
        self._by_file = {place.procs: place for place in places}
        self._by_claim = {place.claim: place for place in places}
        self._by_dir = {place.procs.rsplit("/", 1)[0]: place for place in places}
        self._actors: dict[str, _Actor] = {}
        self.found: dict[tuple[str, str], Outside] = {}
        self.left: list[Left] = []

    def enter(self, done: Deed) -> None:
        """Take one deed into account."""
        name, verb, args = done.action.actor, done.action.verb, done.action.args
        if verb == "spawn":
            self._actors[name] = _Actor(cpu=int(args[0]))
        one = self._actors.get(name)
        if one is None:
            return
        one.tids |= {done.tid, *done.tids} - {0}
        if verb == "write" and not done.error:
            self._write(name, one, done)
        elif verb in ("fork", "clone"):
            self._born(one, done)
        elif verb == "exec":
            one.tids.add(done.new_tid)  # what the thread was called that executed
            one.ways_out += 1  # of the leader, which dies for it
            one.executed |= bool(one.claim)
        elif verb == "pin":
            one.cpu = int(args[0])
        elif verb in ("hops", "flips", "vfork"):
            one.asked = done
        elif verb == "wait" and one.asked:
            self._answered(name, one, one.asked, done)
            one.asked = None
        elif verb == "kill":
            self._leave(name, one, done)
            one.claim = one.left = ""

    def _row(self, claim: str, name: str, one: _Actor) -> Outside:
        row = self.found.setdefault((claim, name), Outside())
        row.tids |= one.tids
        return row

    def _write(self, name: str, one: _Actor, done: Deed) -> None:
        file, here = str(done.action.args[0]), self._by_claim.get(one.claim)
        if here is None or file != here.cpuset:
            self._leave(name, one, done)
            place = self._by_file.get(file)
            if place is not None:
                one.left = ""
            elif one.claim and one.executed:
                one.left = one.claim
                span = {"from_ns": done.before.ns, "to_ns": done.after.ns}
                self.left.append(Left(claim=one.claim, actor=name, tids=frozenset(one.tids), **span))
            one.claim, one.entered, one.surely, one.ways_out = (place.claim if place else ""), done, done, 0
            return
        # The second of the two attaches of a joining: forgives what came before it, if it comes within the patience.
        assert one.entered is not None
        # Each is somewhere inside its write, which may take long.
        if done.before.ns - one.entered.after.ns <= PATIENCE_NS + BLURRED_NS:
            one.surely = done
        if done.after.ns - one.entered.before.ns <= PATIENCE_NS - BLURRED_NS:
            one.entered = done

    def _leave(self, name: str, one: _Actor, end: Deed) -> None:
        cpu = self._by_claim[one.claim].forbidden if one.claim else self._owned if one.left else None
        if cpu is None or one.entered is None or one.surely is None:
            return
        begin, row = one.entered, self._row(one.claim or gone(one.left), name, one)
        ended = end.after.clock[cpu]
        if end.action.verb == "kill" and ended > begin.before.clock[cpu]:
            # perf lets go of a task before it has exited: what it does after that takes at most as long as we waited.
            ended = end.before.clock[cpu] + end.after.ns - end.before.ns
        row.least_ns += max(0, end.before.clock[cpu] - one.surely.after.clock[cpu])
        if row.switched is not None:
            row.switched += max(0, end.before.switched[cpu] - one.surely.after.switched[cpu])
        row.most_ns += ended - begin.before.clock[cpu] + begin.before_birth_ns + one.ways_out * WAY_OUT_NS
        # What it ran before its clock was open is a stay of its own.
        row.stays += 1 + bool(begin.before_birth_ns)

    def _born(self, parent: _Actor, done: Deed) -> None:
        name, *where = map(str, done.action.args)
        place = self._by_dir.get(where[0]) if done.action.verb == "clone" else self._by_claim.get(parent.claim)
        # It counts from where the director opened its clock; what it ran before is at most what it was asked then.
        zero = Stamp(ns=done.before.ns, clock=(0, 0))
        birth = Deed(action=done.action, before=zero, after=zero, error=0, before_birth_ns=done.before_birth_ns)
        child = _Actor(cpu=parent.cpu, claim=place.claim if place else "", tids={done.new_tid})
        child.entered = child.surely = birth
        child.executed = parent.executed
        self._actors[name] = child

    def _answered(self, name: str, one: _Actor, asked: Deed, done: Deed) -> None:
        place, verb = self._by_claim.get(one.claim), asked.action.verb
        if verb == "hops":
            self._hopped(name, one, asked, done)
        elif place is not None and verb == "flips":
            # Its clock on the other CPU says how long; each time is a stay.
            row = self._row(one.claim, name, one)
            row.stays, row.switched = row.stays + int(asked.action.args[2]), None
        elif place is not None and verb == "vfork" and place.forbidden == int(asked.action.args[0]):
            row = self.found.setdefault((one.claim, f"{name}/vfork"), Outside())
            row.tids.add(done.child)
            row.least_ns += done.child_least
            row.most_ns += done.child_most + WAY_OUT_NS
            row.stays, row.switched = row.stays + 1, None

    def _hopped(self, name: str, one: _Actor, asked: Deed, done: Deed) -> None:
        """Its own sums say what it used behind the first door; the rest was behind the second."""
        self._leave(name, one, asked)
        least, most, stays = (
            new - old for new, old in zip((done.least, done.most, done.stays), one.hopped, strict=True)
        )
        one.hopped = (done.least, done.most, done.stays)
        first, second = (self._by_file.get(str(door)) for door in asked.action.args[:2])
        if first is not None and first.forbidden == one.cpu:
            row = self._row(first.claim, name, one)
            row.least_ns, row.most_ns, row.stays = row.least_ns + least, row.most_ns + most, row.stays + stays
            row.switched = None
        if second is not None and second.forbidden == one.cpu:
            ended = done.after.clock[one.cpu]
            row = self._row(second.claim, name, one)
            row.least_ns += max(0, ended - asked.after.clock[one.cpu] - most)
            row.most_ns += max(0, ended - asked.before.clock[one.cpu] - least)
            row.stays, row.switched = row.stays + stays, None
        here = Deed(action=done.action, before=done.after, after=done.after, error=0)
        one.claim, one.entered, one.surely = (second.claim if second else ""), here, here
