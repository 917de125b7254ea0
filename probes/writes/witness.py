"""The writes to control files of a window, and of each file the last one before it."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import NamedTuple

from probes.actions.reader import read_hierarchies
from probes.cgroups.bandwidth import lineage
from probes.observer import Observer
from probes.subjects import Subject
from probes.witness import Edge, OpenWindow, Watch, Witness
from probes.writes.decoder import WriteReading
from probes.writes.directories import Directories, Table, WriteDirs
from probes.writes.notices import Notices
from probes.writes.reader import Writes
from probes.writes.records import Write

MAX_EARLIER = 4096
"""Files whose last write is remembered: those written last."""
DEAF_NS = 10_000_000_000
"""So long after a write that was not reported nothing relies on it that all are: a flood seldom ends with it."""


class UnsentAround(NamedTuple):
    """Writes that were not reported, before and after the ledger's moment: those in between may be of either window,
    and count for both."""

    before: int
    after: int


class WriteWitness(Witness):
    """What wrote control files of claims' cgroups and of those above them."""

    SIDE = Writes

    def __init__(self, observer: Observer) -> None:
        self.side = observer.ledger.side(Writes)
        self._observer = observer
        self.records = WriteDirs(self.side.directories)
        self.notices = None if self.side.complete else Notices()
        tables: list[Table] = [self.records] if self.side.observed else []
        tables += [] if self.notices is None else [self.notices]
        self.directories = Directories(tuple(tables), observer.hierarchy, observer.root)
        self.hierarchies = read_hierarchies(observer.root)
        self.earlier: dict[tuple[int, bytes], Write] = {}
        self._dropped = self.side.dropped() if self.side.observed else 0
        self._deaf_until_ns = 0

    def written(self) -> frozenset[str] | None:
        """Return the cgroups that were written to since the last call; ``None``: not every write is reported now.

        By the program that sees them; where the kernel refuses it, by the kernel's own notices. Called by one thread.
        """
        with self._observer.lock:
            numbers = self._reported() if self.notices is None else self.notices.take()
            names = self.directories.names
        return None if numbers is None else frozenset(names[number] for number in numbers if number in names)

    def stirred(self) -> bool:
        """Say whether a cgroup was written to since :meth:`written` was asked last."""
        return self.side.has_written if self.notices is None else self.notices.waiting()

    def _reported(self) -> set[int] | None:
        now_ns, dropped = time.monotonic_ns(), self.side.dropped()
        if dropped != self._dropped:
            self._dropped, self._deaf_until_ns = dropped, now_ns + DEAF_NS
        return None if self.records.full or now_ns < self._deaf_until_ns else self.side.take_written()

    def running(self) -> AbstractContextManager[object]:
        """Let a notice of the kernel's wake what hears; give them back when it ends."""
        if self.notices is None:
            return nullcontext()
        self.notices.wake(self._observer.ledger.end_by)
        return closing(self.notices)

    def begin(self, window: OpenWindow, first: Edge) -> WriteWatch:
        """Begin with a window."""
        return WriteWatch(self, window, first.of(UnsentAround))

    def edge(self, turn: bool) -> Generator[None, None, UnsentAround]:
        """Read how many were not reported, on both sides."""
        del turn
        before = self.side.dropped()
        yield
        return UnsentAround(before, self.side.dropped())

    def claiming(self, subject: Subject) -> None:
        """Watch its directories."""
        self.directories.add(subject, lineage(subject.claim.cgroup), time.monotonic_ns())

    def unclaiming(self, subject: Subject) -> None:
        """Watch them no more."""
        self.directories.remove(subject, lineage(subject.claim.cgroup))

    def track(self, subject: Subject) -> None:
        """Watch its new directories where its cgroup was made anew."""
        self.directories.track(subject, lineage(subject.claim.cgroup), time.monotonic_ns())

    def verify(self, subject: Subject) -> None:
        """Look whether it has other directories now."""
        self.directories.look_again(subject, lineage(subject.claim.cgroup), time.monotonic_ns())

    def forget_old(self) -> None:
        """Keep of the windows before the present one the last write that was accepted of each file."""
        window = self._observer.ledger.window
        remember(self.earlier, self.side.take_old(window))
        self.directories.forget_names({event.cgroup for event in self.side.of_window(window) or ()})
        self.earlier = {key: event for key, event in self.earlier.items() if key[0] in self.directories.names}
        while len(self.earlier) > MAX_EARLIER:
            del self.earlier[next(iter(self.earlier))]


def remember(earlier: dict[tuple[int, bytes], Write], old: Iterable[Write]) -> None:
    """Put the last accepted write of each file in place of the one before it, those written last at the end.

    Of those that wrote the same one after the other the first stays: the others changed nothing.
    """
    for event in sorted(old, key=lambda event: event.at_ns):
        if event.result >= 0:
            before = earlier.pop((event.cgroup, event.file), event)
            earlier[event.cgroup, event.file] = before if before.said == event.said else event


class WriteWatch(Watch):
    """One window."""

    def __init__(self, witness: WriteWitness, window: OpenWindow, first: UnsentAround) -> None:
        self._witness, self._window, self._first = witness, window, first

    def cgroup_changed(self, subject: Subject, made_ns: int | None) -> None:
        """Watch the directories of the new cgroup, if it is one: the reader of counters reports each of its rounds."""
        del made_ns
        self._witness.track(subject)

    def read(self, edge: Edge) -> WriteReading:
        """Return the window so far."""
        witness, number = self._witness, self._window.number
        spots = list(witness.side.blind_spots)
        if witness.records.full:
            spots.append("what writes control files is not observed of every cgroup: there is no room for more")
        return WriteReading(
            writes=witness.side.of_window(number),
            earlier=tuple(witness.earlier.values()) if self._window.closed else (),
            first=self._first.before,
            last=edge.of(UnsentAround).after,
            unkept=witness.side.unkept(number),
            cgroups=dict(witness.directories.names),
            hierarchies=witness.hierarchies,
            observer_pid=os.getpid(),
            blind_spots=tuple(spots),
        )
