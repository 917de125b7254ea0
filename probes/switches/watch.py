"""The ledger of switches in one window: its rows and details, the intervals that wait, the slots of CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from probes.bpfsys import Map
from probes.cgroups.claimed_paths import ClaimedPaths
from probes.observer import Observer
from probes.subjects import Subject
from probes.switches import delays, tally
from probes.switches.decoder import SwitchEdge, SwitchReading
from probes.switches.nesting import with_nested
from probes.switches.owners import CgroupNames
from probes.switches.records import (
    CULPRIT_POD,
    PODS_IDENT,
    CulpritKey,
    CulpritSums,
    Detail,
    IntruderKey,
    IntruderSums,
    Offence,
    OffenceKey,
    Piece,
    Row,
    WaitKey,
    WaitSums,
)
from probes.switches.shares import Shares
from probes.switches.slots import Slots
from probes.switches.timeline import Timeline
from probes.witness import Edge, OpenWindow, Watch
from toolkit.model.evidence import TimelineBins
from toolkit.model.nesting import nested

Key = TypeVar("Key", OffenceKey, IntruderKey, WaitKey, CulpritKey)
Sums = TypeVar("Sums", Offence, IntruderSums, WaitSums, CulpritSums)
MAX_WAITING = 100_000
"""Intervals of one window that may wait for the kernel's word at a time."""


class SwitchWatch(Watch):
    """One window of the ledger. Called under the lock."""

    def __init__(self, observer: Observer, cgroups: CgroupNames, window: OpenWindow, first: SwitchEdge) -> None:
        self._observer, self._cgroups = observer, cgroups
        self.window, self._first = window, first
        self._shares = Shares(observer.published, observer.options.bin_ms * 1_000_000)
        """What pieces add to the rows."""
        self.offences: tally.Offences = {}
        self.intruders: tally.Intruders = {}
        self.waits: delays.Waits = {}
        self.culprits: delays.Culprits = {}
        self._timeline = Timeline(window.start_ns) if observer.options.timeline else None
        self.waiting: list[Piece] = []
        """Intervals that cannot be cut yet."""
        self._pieces_dropped = 0
        """Intervals that were not kept because too many waited."""
        self._forgotten = observer.trails.forgotten
        self._nested: dict[int, tuple[int, ...]] = {}
        self._nested_of = 0
        """The claims inside each claim, and of how many claims that was found: they seldom change."""
        self._final: dict[int, list[Row]] = {}
        """The ledger's rows by ident, of claims that were removed, and of all when the window has closed: what comes
        next takes their place in the kernel."""
        self.slots = Slots(observer, window, self._shares)

    def claim_added(self, subject: Subject) -> None:
        """Begin a claim's slots."""
        self.slots.claim_added(subject)

    def promised(self, subject: Subject) -> None:
        """Have short slots from now on where they are needed."""
        self.slots.promised(subject)

    def claim_removed(self, subject: Subject, at_ns: int) -> None:
        """Keep what a claim did before its slot is used again."""
        del at_ns
        self.slots.claim_removed(subject)
        self._final[subject.ident] = self._observer.ledger.rows.of(subject.slot, self.window.number)
        self._take_bins([subject])
        self._final[subject.ident] = self._observer.ledger.rows.of(subject.slot, self.window.number)

    def cgroup_changed(self, subject: Subject, made_ns: int | None) -> None:
        """Know the new cgroup by its name, too."""
        del made_ns
        self._cgroups.note(subject.cgroup_id, subject.path)

    def close(self, edge: Edge) -> None:
        """Keep the rows: the next window but one takes their place in the kernel."""
        del edge
        present = self.window.present()
        rows = self._observer.ledger.rows.of_each([subject.slot for subject in present], self.window.number)
        self._final |= zip((subject.ident for subject in present), rows, strict=True)
        self.slots.close()
        self.look_at_bins()

    def look_at_bins(self) -> None:
        """Take the bins that the kernel has kept since the last look, where there is a timeline."""
        if self._timeline is not None:
            self._take_bins(self.window.present())
            self._timeline.looks.beat(time.monotonic_ns())

    def _take_bins(self, subjects: Iterable[Subject]) -> None:
        if self._timeline is not None:
            for subject in subjects:
                if subject.slot < self._observer.ledger.bins.claims:
                    found = self._observer.ledger.bins.read(subject.slot, self.window.number)
                    self._timeline.take(subject.ident, found)

    def rows(self, subject: Subject) -> list[Row]:
        """Return a claim's counters by CPU."""
        rows = self._final.get(subject.ident)
        if rows is None:
            rows = self._observer.ledger.rows.of(subject.slot, self.window.number)
        return self._shares.added_to(subject.ident, rows)

    def usage_ns(self) -> dict[int, int]:
        """Return every claim's CPU time so far by ident, nested claims included."""
        subjects = {subject.ident: subject for subject in self.window.all_subjects()}
        shares = self._shares.ns()
        running = [subject.slot for ident, subject in subjects.items() if ident not in self._final]
        by_slot = self._observer.ledger.rows.all_ns(running, self.window.number) if running else []
        own = {
            ident: (by_slot[subject.slot] if ident not in self._final else self._own_ns(subject)) + shares.get(ident, 0)
            for ident, subject in subjects.items()
        }
        return with_nested(own, self.inside())

    def usage_of_ns(self, subject: Subject) -> int:
        """Return one claim's CPU time so far, nested claims included; of hundreds no other is read."""
        inside, shares = self.inside().get(subject.ident, ()), self._shares.ns()
        own = [subject, *(one for one in self.window.all_subjects() if one.ident in inside)] if inside else [subject]
        return sum(self._own_ns(one) + shares.get(one.ident, 0) for one in own)

    def _own_ns(self, subject: Subject) -> int:
        final = self._final.get(subject.ident)
        if final is not None:
            return sum(row.ns for row in final)
        return self._observer.ledger.rows.ns(subject.slot, self.window.number)

    def inside(self) -> dict[int, tuple[int, ...]]:
        """Return the claims inside each claim, by ident."""
        # Of a window's claims there are only ever more: those that were removed stay among them.
        subjects = self.window.all_subjects()
        if len(subjects) != self._nested_of:
            self._nested_of = len(subjects)
            self._nested = nested((subject.ident, subject.claim.cgroup) for subject in subjects)
        return self._nested

    def cut(self, pieces: list[Piece]) -> list[Detail]:
        """Cut the intervals whose word has come, or will not come any more; returns the times outside among them."""
        observer, found, still = self._observer, [], []
        for piece in [*self.waiting, *pieces]:
            stays = observer.trails.cut(piece, observer.ledger.heard_ns)
            if stays is None:
                still.append(piece)
            else:
                found += self._shares.add(piece, stays)
        self._pieces_dropped += max(0, len(still) - MAX_WAITING)
        self.waiting = still[:MAX_WAITING]
        return found

    def read(self, edge: Edge) -> SwitchReading:
        """Return the window up to this edge."""
        observer, offences, intruders = self._observer, *self._collect()
        waits, culprits = self._collect_waits()
        rows = {subject.ident: self.rows(subject) for subject in self.window.all_subjects()}
        pods = {key.of for key in culprits if key.kind == CULPRIT_POD and key.of}
        if not self.window.closed:
            self.look_at_bins()
        if intruders and self.window.closed:
            # Also those that are gone by the next window; a look at an open one asks for what it does not know.
            self._cgroups.refresh_once(self._cgroups_made())
        in_pods = {key.cgroup for key, sums in intruders.items() if sums.ident == PODS_IDENT}
        return SwitchReading(
            first=self._first,
            last=edge.of(SwitchEdge),
            rows=rows,
            cuts=dict(self._shares.cuts),
            joinings=dict(self._shares.joinings),
            offences=offences,
            intruders=intruders,
            cgroups={number: self._cgroups[number] for number in {*(key.cgroup for key in intruders), *pods}},
            gone=frozenset(number for number in in_pods if self._cgroups.gone(number)),
            waits=waits,
            culprits=culprits,
            bins=self.slots.read(self, edge.moment.at_ns),
            slot_gap=self.slots.gap(edge.moment.at_ns),
            dropped=self._pieces_dropped + observer.trails.forgotten - self._forgotten,
            timeline_bins=self._bins_of(rows, edge.moment.at_ns),
            timeline_gap=self._timeline.looks.until(edge.moment.at_ns) if self._timeline is not None else (0, 0),
            observer_pid=os.getpid(),
            blind_spots=observer.ledger.blind_spots,
        )

    def _cgroups_made(self) -> int | None:
        """Return how many cgroups of the machine were made; ``None``: the programs were loaded without what counts."""
        try:
            return self._observer.ledger.side(ClaimedPaths).made()
        except KeyError:
            return None

    def _bins_of(self, rows: dict[int, list[Row]], end_ns: int) -> tuple[TimelineBins, ...]:
        if self._timeline is None:
            return ()
        binned = self._observer.ledger.bins.claims
        names = {one.ident: one.name for one in self.window.all_subjects() if one.slot < binned}
        return self._timeline.rows(names, rows, end_ns)

    def _of_window(self, table: Map, key_of: type[Key], sums_of: type[Sums]) -> Iterator[tuple[Key, Sums]]:
        """Yield the entries of a map that were made in this window."""
        for data, value in table.items():
            key = key_of.decode(data)
            if tally.in_window(key.epoch, self.window.number):
                yield key, sums_of.decode(value)

    def _collect_waits(self) -> tuple[delays.Waits, delays.Culprits]:
        """Return what was told of this window's waits: that drained before, and that in the maps now."""
        waits, culprits = dict(self.waits), dict(self.culprits)
        ledger = self._observer.ledger
        delays.merge_waits(waits, self._of_window(ledger.waits, WaitKey, WaitSums))
        delays.merge_culprits(culprits, self._of_window(ledger.culprits, CulpritKey, CulpritSums))
        return waits, culprits

    def _collect(self) -> tuple[tally.Offences, tally.Intruders]:
        """Return this window's detail entries: those drained before, those in the maps now, and those of pieces."""
        offences, intruders = dict(self.offences), dict(self.intruders)
        ledger = self._observer.ledger
        tally.merge_offences(offences, self._of_window(ledger.offenders, OffenceKey, Offence))
        tally.merge_intruders(intruders, self._of_window(ledger.intruders, IntruderKey, IntruderSums))
        tally.merge_offences(offences, self._shares.offences.items())
        tally.merge_intruders(intruders, self._shares.intruders.items())
        for offender, offence in offences.items():
            name = ledger.name(offender.tid, offender.life, offence.last_ns, offence.comm)
            offences[offender] = replace(offence, comm=name)
        for intruder, sums in intruders.items():
            name = ledger.name(intruder.tid, intruder.life, sums.last_ns, sums.comm)
            intruders[intruder] = replace(sums, comm=name)
        return offences, intruders
