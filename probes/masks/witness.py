"""The thread that reads all threads' masks, and the masks of a window."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from probes.loops import Loop
from probes.masks.decoder import MaskReading
from probes.masks.iterator import TaskIterator
from probes.masks.sample import Sample
from probes.masks.scan_method import ScanMethod
from probes.masks.strays import Strays
from probes.masks.thread import UnreadableError
from probes.masks.threads import ThreadMasks
from probes.observer import Observer
from probes.subjects import Subject
from probes.switches.members import Joiners
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.model import blind_spots

RESTED_NS = 500_000_000
"""A window does not end so long after its last scan: what came since then, and is put back, would never be seen."""
LAST_CPU_NS = 100_000_000
"""Unless a scan takes more CPU time than that, a third of a percent of a window of 30 s."""


class MaskWatch(Watch):
    """One window."""

    def __init__(
        self, observer: Observer, window: OpenWindow, pause_ns: int, method: ScanMethod, joiners: Joiners
    ) -> None:
        options = observer.options
        # Where nothing is loaded that knows of joinings each may take as long as one that is known.
        patience_ns = (options.pending_ms if observer.ledger.observed else options.joining_ms) * 1_000_000
        moving = observer.ledger.moving.begun_ns
        where = (observer.hierarchy, observer.root, window.start_ns)
        self.masks = ThreadMasks(*where, pause_ns, patience_ns, moving, method, joiners.may_complete)
        self.window, self._threads = window, observer.options.threads

    def ending(self, subject: Subject) -> None:
        """Scan the claim's threads once more."""
        if self._threads:
            self.masks.scan(subject, lambda: self.window.closed)

    def before_end(self) -> None:
        """Scan once at least, for a window may be shorter than the pause between two scans of a large node; and once
        more where the pause was long and a scan is short.
        """
        masks, now_ns = self.masks, time.monotonic_ns()
        late = now_ns - masks.scanned_ns > RESTED_NS and masks.dearest_ns <= LAST_CPU_NS
        if self._threads and (late or not masks.scans):
            # The lock is held: a last scan that is not the only one waits for nothing, whatever has our CPU meanwhile.
            until_ns = now_ns + 2 * LAST_CPU_NS
            with suppress(OSError, UnreadableError):  # what is not read is a gap
                masks.scan_all(self.window.present(), lambda: masks.scans > 0 and time.monotonic_ns() > until_ns)

    def claim_removed(self, subject: Subject, at_ns: int) -> None:
        """Follow a claim no longer."""
        self.masks.end(subject, at_ns)

    def read(self, edge: Edge) -> MaskReading:
        """Return the window so far."""
        masks = self.masks
        return MaskReading(
            masks=masks.values(),
            scans=masks.scans,
            gaps=masks.gaps(self.window.all_subjects(), edge.moment.at_ns) if self._threads else (),
            dropped=dict(masks.rows.dropped),
            doubts={name: tuple(texts.values()) for name, texts in tuple(masks.doubts.items())},
            strays={name: tuple(rows.values()) for name, rows in tuple(masks.strays.items())},
        )


class Masks(Witness):
    """The thread masks and policies of every claim."""

    SIDE = TaskIterator

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._pause_ns = observer.options.scan_ms * 1_000_000
        self._watch: MaskWatch | None = None
        """Of the latest window."""
        self._joiners = Joiners(observer.ledger, observer.options.joining_ms * 1_000_000)
        hierarchy, root = observer.hierarchy, observer.root
        self._method = ScanMethod(
            Strays(hierarchy, root), Sample(hierarchy, root), observer.ledger.side(TaskIterator), self._pause_ns
        )

    def running(self) -> AbstractContextManager[object]:
        """Scan all claims again and again, in a thread of its own."""
        if not self._observer.options.threads:
            return nullcontext()
        return Loop(self._observer, "pinproof-proc", self._scan, (blind_spots.Witness.MASKS,))

    def begin(self, window: OpenWindow, first: Edge) -> MaskWatch:
        """Begin with a window."""
        del first
        self._method.begin()
        self._watch = MaskWatch(self._observer, window, self._pause_ns, self._method, self._joiners)
        return self._watch

    def _scan(self, stopped: Callable[[], bool]) -> float:
        observer, watch = self._observer, self._watch
        if watch is not None and not (window := watch.window).closed:
            # Not under the lock: whatever holds it while a window closes must not make a gap.
            subjects = tuple(observer.subjects.values())
            masks = watch.masks
            took_ns = masks.scan_all(subjects, lambda: stopped() or window.closed)
            self._pause_ns = max(observer.options.scan_ms * 1_000_000, self._method.pause_ns(took_ns))
            masks.pause_ns = max(masks.pause_ns, self._pause_ns)
        return self._pause_ns / 1e9
