"""The windows of an observer: the open one, the one before it while it is finished, and who gets what is told.

Stands on :mod:`probes.state`. The threads and the parts that follow claims get this object.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from probes.actions.reader import Actions
from probes.bpfsys import Map
from probes.interrupts.reader import Interrupts
from probes.records import comm
from probes.state import State
from probes.subjects import Violation
from probes.switches import tally
from probes.switches.ledger import Ledger
from probes.switches.members import drop_dead
from probes.switches.records import (
    EVENT_OUTSIDE,
    EVENT_PIECE,
    Detail,
    IntruderKey,
    IntruderSums,
    MoveEvent,
    Offence,
    OffenceKey,
    Piece,
)
from probes.window import Window
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Transition

Key = TypeVar("Key", OffenceKey, IntruderKey)
EVENTS_S = 5.0
"""How long a window that has closed waits for its last events: they take milliseconds unless this machine is jammed."""


class Windows(State):
    """The open window and the one being finished; every event of the programs goes to the one it was for."""

    def __init__(
        self,
        claims: ClaimSet,
        root: Path,
        ledger: Ledger,
        on_violation: Callable[[Violation], None] | None,
    ) -> None:
        super().__init__(claims, root, ledger)
        self.window: Window | None = None
        self.closing: Window | None = None
        """The window before, until its evidence has been put together."""
        self._on_violation = on_violation
        self._found: deque[Violation] = deque()
        self._news = threading.Condition()
        self._pieces: deque[Piece] = deque()
        self._heard: dict[int, list[Piece]] = {}
        """Pieces by window; of two windows one after the other they come mixed, each CPU telling its own."""

    def live(self) -> tuple[Window, ...]:
        """Return the windows that still take something in, in their order: the one being finished, the open one."""
        return tuple(window for window in (self.closing, self.window) if window is not None)

    def poll(self, timeout_s: float = 0.0) -> tuple[Violation, ...]:
        """Return the violations reported since the last call; waits for the first at most ``timeout_s``."""
        with self._news:
            if not self._found and timeout_s > 0:
                self._news.wait_for(lambda: bool(self._found), timeout_s)
            found = tuple(self._found)
            self._found.clear()
        return found

    def violations(self) -> tuple[Violation, ...]:
        """Return the violations reported since the last call, without waiting."""
        return self.poll()

    def read_last(self, name: str) -> None:
        """Read a claim's counters and control files now, because its cgroup is about to be deleted."""
        with self.lock:
            if self.window is not None and name in self.subjects:
                self.window.last_look(self.subjects[name])

    def record_transition(self, transition: Transition) -> None:
        """Add a transition that somebody else saw (times relative to the window)."""
        if self.window is not None:
            self.window.transitions.append(transition)

    def housekeeping(self) -> None:
        """Forget what is dead; called by the listener every few seconds."""
        with self.lock:
            drop_dead((self.ledger.processes, self.ledger.threads), self.options.max_tasks, self.root)
            if self.window is not None and not self.window.closed:
                self._drain_if_half_full()

    def settle(self) -> None:
        """Cut the intervals whose time has come; called by the listener, and by who waits for the end of a window."""
        with self.lock:
            details = [detail for window in self.live() for detail in window.settle(self.pieces(window.number))]
        for detail in details:
            self._report(detail)

    def _wait_for_events(self, window: Window) -> None:
        """Wait until what was sent before the window closed is heard and settled; not under the lock."""
        patience_ns = self.options.pending_ms * 1_000_000
        deadline = time.monotonic() + EVENTS_S + 2 * patience_ns / 1e9
        while True:
            self.settle()
            with self.lock:
                if self.ledger.heard_ns > window.counted_ns and not window.waiting:
                    return
            if time.monotonic() > deadline:
                text = f"events were still unread {EVENTS_S:g} s after the window closed"
                # Not up to its very end: there the next window may begin.
                self.blind(text, Witness.SWITCHES, start_ns=window.start_ns, end_ns=window.end().at_ns - 1)
                return
            time.sleep(0.002)

    def _drain_if_half_full(self) -> None:
        """Move detail entries to user space before a map is full."""
        ledger, options = self.ledger, self.options
        sizes = ((ledger.offenders, options.max_offenders), (ledger.intruders, options.max_intruders))
        if not any(len(tuple(table.keys())) >= size // 2 for table, size in sizes):
            return
        ledger.next_epoch()
        self._drain()

    def _drop_old_entries(self) -> None:
        """Empty the detail maps of what belongs to windows that were closed and read."""
        self._drain()
        self.ledger.side(Interrupts).drop_old(self.ledger.window)
        self.ledger.side(Actions).drop_old(self.ledger.window)

    def _drain(self) -> None:
        """Take what no program writes any more out of the maps, each entry into its own window."""
        for key, data, owner in self._ended(self.ledger.offenders, OffenceKey):
            tally.merge_offences(owner.offences, [(key, Offence.decode(data))])
        for intruder, data, owner in self._ended(self.ledger.intruders, IntruderKey):
            tally.merge_intruders(owner.intruders, [(intruder, IntruderSums.decode(data))])

    def _ended(self, table: Map, kind: type[Key]) -> Iterator[tuple[Key, bytes, Window]]:
        """Yield the entries of epochs that have ended, with their window; all of these are taken out of the map."""
        windows = {window.number & 0xFFFFFF: window for window in self.live()}
        running = (self.ledger.window << 8 | self.ledger.epoch) & 0xFFFFFFFF
        for raw, data in tuple(table.items()):
            key = kind.decode(raw)
            if key.epoch == running:
                continue
            owner = windows.get(key.epoch >> 8)
            if owner is not None:
                yield key, data, owner
            table.delete(raw)

    def _event(self, record: bytes) -> None:
        try:
            self._take(record)
        except Exception as error:  # called from C, where it would only be printed
            # It may be as old as the last look; which window it was for is not known.
            text, heard_ns = f"an event was not handled: {error or type(error).__name__}", self.ledger.heard_ns
            self.blind(text, Witness.SWITCHES, start_ns=heard_ns, end_ns=time.monotonic_ns())

    def _take(self, record: bytes) -> None:
        kind = int.from_bytes(record[:4], "little")
        if kind == EVENT_OUTSIDE:
            self._report(Detail.decode(record))
        elif kind == EVENT_PIECE:
            self._pieces.append(Piece.decode(record))
        else:
            self.trails.add(MoveEvent.decode(record))

    def pieces(self, window: int) -> list[Piece]:
        """Take the pieces of a window that were heard; those of windows that are finished are nobody's any more."""
        while self._pieces:
            piece = self._pieces.popleft()
            self._heard.setdefault(piece.window, []).append(piece)
        found = self._heard.pop(window, [])
        oldest = min((live.number for live in self.live()), default=window)
        for number in [number for number in self._heard if number < oldest]:
            del self._heard[number]
        return found

    def _report(self, detail: Detail) -> None:
        heard_ns = time.monotonic_ns()
        with self.lock:  # what belongs to a window that is just being opened waits until it is there
            window = next((live for live in self.live() if live.number == detail.window), None)
            name = self.names.get(detail.ident)
        if window is None or name is None:
            return
        violation = Violation(
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
        with self._news:
            self._found.append(violation)
            self._news.notify_all()
        if self._on_violation is not None:
            self._on_violation(violation)

    def _window(self) -> Window:
        if self.window is None:
            raise RuntimeError("no window is open")
        return self.window
