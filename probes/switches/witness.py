"""The ledger of switches, heard and read: every event goes to the window that it was for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from probes.bpfsys import Map
from probes.observer import Observer
from probes.records import comm
from probes.subjects import Subject, Violation
from probes.switches import delays, tally, timeline
from probes.switches.decoder import SwitchEdge
from probes.switches.members import Dead
from probes.switches.owners import CgroupNames
from probes.switches.records import (
    EVENT_OUTSIDE,
    EVENT_PIECE,
    CulpritKey,
    CulpritSums,
    Detail,
    IntruderKey,
    IntruderSums,
    MoveEvent,
    Offence,
    OffenceKey,
    Piece,
    WaitKey,
    WaitSums,
)
from probes.switches.spreads import EVERY
from probes.switches.watch import SwitchWatch
from probes.witness import Chore, Edge, OpenWindow, Witness
from toolkit.model import blind_spots

Key = TypeVar("Key", OffenceKey, IntruderKey, WaitKey, CulpritKey)
EVENTS_S = 5.0
"""How long a window that has closed waits for its last events: they take milliseconds unless this machine is jammed."""
HOUSEKEEPING_S = 2.0


class Switches(Witness):
    """The last of the witnesses: its own counters are read next to the ledger's moment."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._pieces: deque[Piece] = deque()
        self._details: deque[tuple[int, Detail]] = deque()
        """With when they were heard. Whatever hears waits for no lock: what comes meanwhile needs room in the rings."""
        self._reporting = threading.RLock()
        """Taken before the observer's lock."""
        self._heard: dict[int, list[Piece]] = {}
        """Pieces by window; of two windows one after the other they come mixed, each CPU reporting its own."""
        self._cgroups = CgroupNames(observer.hierarchy)
        self._dead: tuple[Dead, Dead] | None = None

    def running(self) -> AbstractContextManager[None]:
        """Hear the ledger's events."""
        return self._hearing()

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        self._observer.ledger.on_event = self.event
        try:
            yield
        finally:
            self._observer.ledger.on_event = None

    def chores(self) -> tuple[Chore, ...]:
        """Cut intervals, read slots, forget what is dead."""
        return (
            Chore(0.0, self.cut, self._idle),
            Chore(EVERY * self._observer.options.bin_ms / 1000, self._look, may_wait=self._judges_none),
            Chore(HOUSEKEEPING_S, self._housekeeping),
            *([Chore(timeline.EVERY_S, self._look_at_bins)] if self._observer.options.timeline else []),
        )

    def claiming(self, subject: Subject) -> None:
        """Know its cgroup by name, for what ran there before it was a claim's."""
        self._cgroups.note(subject.cgroup_id, subject.path)

    def begin(self, window: OpenWindow, first: Edge) -> SwitchWatch:
        """Begin with a window."""
        return SwitchWatch(self._observer, self._cgroups, window, first.of(SwitchEdge))

    def edge(self, turn: bool) -> Generator[None, None, SwitchEdge]:
        """Read every CPU's counters.

        An open window goes on counting: it is read at once, between the kernel's two readings. One that has ended
        stands still, and whatever is done between the two readings makes switches.
        """
        ledger = self._observer.ledger
        before, members_before = ledger.read_states(), ledger.members_lost
        yield
        if turn:
            yield
        after, members_after = ledger.read_states(), ledger.members_lost
        earlier = SwitchEdge(states=tuple(ledger.states(before)), members_lost=members_before)
        return SwitchEdge(
            states=tuple(ledger.states(after)),
            members_lost=members_after,
            lost_before=earlier.lost,
            full_before=earlier.full,
        )

    def wait_for(self, window: OpenWindow) -> None:
        """Wait until what was sent before the window closed is heard and cut."""
        observer, watch = self._observer, window.watch(SwitchWatch)
        patience_ns = observer.options.joining_ms * 1_000_000
        # However long the counting took: the patience begins when it has ended.
        deadline = time.monotonic() + EVENTS_S + patience_ns / 1e9
        while True:
            # What hears may wait for long, and may have begun to before the window ended; then it begins to once more.
            observer.ledger.wake()
            # Before it: what is heard after the cut is not cut.
            heard_ns = observer.ledger.heard_ns
            self.cut()
            with observer.lock:
                if heard_ns > window.counted_ns and not watch.waiting:
                    return
            if time.monotonic() > deadline:
                text = f"events were still unread {EVENTS_S:g} s after the window closed"
                # Not up to its very end: there the next window may begin.
                end_ns = window.end_ns - 1
                observer.blind(text, blind_spots.Witness.SWITCHES, start_ns=window.start_ns, end_ns=end_ns)
                return
            time.sleep(0.002)

    def cut(self) -> None:
        """Cut the intervals whose time has come, and report what was heard."""
        # Whatever comes second has everything reported, too, that the first has taken: a window must not end before.
        with self._reporting:
            if self._pieces or self._heard or self._details or not self._idle():
                for violation in self._due():
                    self._observer.report(violation)

    def _idle(self) -> bool:
        """Whether no interval waits for a word, and no window for its last events."""
        return self._observer.closing is None and not any(watch.waiting for watch in self._live())

    def _due(self) -> list[Violation]:
        with self._observer.lock:
            found = [detail for watch in self._live() for detail in watch.cut(self._taken(watch.window.number))]
            # Under the lock: the window of each is there by now, also of one that has just begun.
            now_ns = time.monotonic_ns()
            violations = [
                *(self._violation(*self._details.popleft()) for _ in range(len(self._details))),
                *(self._violation(now_ns, detail) for detail in found),
            ]
        return [violation for violation in violations if violation is not None]

    def forget_old(self) -> None:
        """Empty the detail maps of what belongs to windows that were closed and read."""
        self._drain()
        self._cgroups.next_window(subject.cgroup_id for subject in self._observer.subjects.values())

    def event(self, record: bytes) -> None:
        """Take a record of the ledger's ring."""
        try:
            self._take(record)
        except Exception as error:  # called from C, where it would only be printed
            # It may be as old as the last look; which window it was for is not known.
            text, heard_ns = (
                f"an event was not handled: {error or type(error).__name__}",
                self._observer.ledger.heard_ns,
            )
            end_ns = time.monotonic_ns()
            self._observer.blind(text, blind_spots.Witness.SWITCHES, start_ns=heard_ns, end_ns=end_ns)

    def _take(self, record: bytes) -> None:
        kind = int.from_bytes(record[:4], "little")
        if kind == EVENT_OUTSIDE:
            self._details.append((time.monotonic_ns(), Detail.decode(record)))
        elif kind == EVENT_PIECE:
            self._pieces.append(Piece.decode(record))
        else:
            self._observer.trails.add(MoveEvent.decode(record))

    def _live(self) -> list[SwitchWatch]:
        return [window.watch(SwitchWatch) for window in self._observer.live()]

    def _taken(self, window: int) -> list[Piece]:
        """Take the pieces of a window that were heard; those of windows that are finished are no claim's any more."""
        while self._pieces:
            piece = self._pieces.popleft()
            self._heard.setdefault(piece.window, []).append(piece)
        found = self._heard.pop(window, [])
        oldest = min((live.number for live in self._observer.live()), default=window)
        for number in [number for number in self._heard if number < oldest]:
            del self._heard[number]
        return found

    def _violation(self, heard_ns: int, detail: Detail) -> Violation | None:
        observer = self._observer
        window = next((live for live in observer.live() if live.number == detail.window), None)
        name = observer.names.get(detail.ident)
        if window is None or name is None:
            return None
        return Violation(
            claim=name,
            tid=detail.tid,
            tgid=detail.tgid,
            comm=comm(detail.comm),
            cpu=detail.cpu,
            first_at_ns=max(0, detail.start_ns - window.start_ns),
            reported_at_ns=heard_ns - window.start_ns,
            ns=detail.end_ns - detail.start_ns,
            window=window.number,
        )

    def _judges_none(self) -> bool:
        window = self._observer.window
        return window is None or not window.watch(SwitchWatch).slots.judged

    def _look(self) -> None:
        observer = self._observer
        with observer.lock:
            if observer.window is not None:
                watch = observer.window.watch(SwitchWatch)
                watch.slots.look(watch)

    def _look_at_bins(self) -> None:
        observer = self._observer
        with observer.lock:
            if observer.window is not None and not observer.window.closed:
                observer.window.watch(SwitchWatch).look_at_bins()

    def _housekeeping(self) -> None:
        """Forget tasks that are dead; move detail entries to user space before a map is full."""
        observer, ledger, options = self._observer, self._observer.ledger, self._observer.options
        with observer.lock:
            limits = options.max_tasks, options.max_settled
            self._dead = self._dead or (Dead(limits[0], observer.root), Dead(limits[1], observer.root))
            members, settled = self._dead
            members.drop((ledger.processes, ledger.threads))
            settled.drop((ledger.settled,))
            if observer.window is None or observer.window.closed:
                return
            sizes = (
                (ledger.offenders, options.max_offenders),
                (ledger.intruders, options.max_intruders),
                (ledger.waits, options.max_waits),
                (ledger.culprits, options.max_culprits),
            )
            if any(table.count() >= size // 2 for table, size in sizes):
                ledger.next_epoch()
                self._drain()

    def _drain(self) -> None:
        """Take what no program writes any more out of the maps, each entry into its own window."""
        for key, data, owner in self._ended(self._observer.ledger.offenders, OffenceKey):
            tally.merge_offences(owner.offences, [(key, Offence.decode(data))])
        for intruder, data, owner in self._ended(self._observer.ledger.intruders, IntruderKey):
            tally.merge_intruders(owner.intruders, [(intruder, IntruderSums.decode(data))])
        for wait, data, owner in self._ended(self._observer.ledger.waits, WaitKey):
            delays.merge_waits(owner.waits, [(wait, WaitSums.decode(data))])
        for culprit, data, owner in self._ended(self._observer.ledger.culprits, CulpritKey):
            delays.merge_culprits(owner.culprits, [(culprit, CulpritSums.decode(data))])

    def _ended(self, table: Map, kind: type[Key]) -> Iterator[tuple[Key, bytes, SwitchWatch]]:
        """Yield the entries of epochs that have ended, with their window; all of these are taken out of the map."""
        watches = {watch.window.number & 0xFFFFFF: watch for watch in self._live()}
        ledger = self._observer.ledger
        running = (ledger.window << 8 | ledger.epoch) & 0xFFFFFFFF
        for raw, data in tuple(table.items()):
            key = kind.decode(raw)
            if key.epoch == running:
                continue
            owner = watches.get(key.epoch >> 8)
            if owner is not None:
                yield key, data, owner
            table.delete(raw)
