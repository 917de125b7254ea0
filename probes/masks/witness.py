"""The thread that walks ``/proc``, and the masks of a window."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from probes.loops import Loop
from probes.masks.decoder import MaskReading
from probes.masks.threads import ThreadMasks
from probes.readings import Moment
from probes.subjects import Subject
from probes.windows import Windows
from probes.witness import OpenWindow, Watch, Witness
from toolkit.model import blind_spots


class MaskWatch(Watch[None]):
    """One window."""

    def __init__(self, windows: Windows, window: OpenWindow) -> None:
        options = windows.options
        pause_ns, patience_ns = options.scan_ms * 1_000_000, options.pending_ms * 1_000_000
        self.masks = ThreadMasks(windows.hierarchy, windows.root, window.start_ns, pause_ns, patience_ns)
        self._window, self._threads = window, options.threads

    def ending(self, subject: Subject) -> None:
        """Scan the claim's threads once more."""
        if self._threads:
            self.masks.scan(subject, lambda: self._window.closed)

    def claim_removed(self, subject: Subject, at_ns: int) -> None:
        """Follow a claim no longer."""
        self.masks.end(subject, at_ns)

    def read(self, edge: None, moment: Moment) -> MaskReading:
        """Return the window so far."""
        del edge
        masks = self.masks
        return MaskReading(
            masks=masks.values(),
            scans=masks.scans,
            gaps=masks.gaps(self._window.all_subjects(), moment.at_ns) if self._threads else (),
            dropped=dict(masks.dropped),
        )


class Masks(Witness[None]):
    """The thread masks and policies of every claim."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    def running(self) -> AbstractContextManager[object]:
        """Scan all claims again and again, in a thread of its own."""
        if not self._windows.options.threads:
            return nullcontext()
        return Loop(self._windows, "pinproof-proc", self._scan, (blind_spots.Witness.MASKS,))

    def begin(self, window: OpenWindow, first: None) -> MaskWatch:
        """Begin with a window."""
        del first
        return MaskWatch(self._windows, window)

    def _scan(self, stopped: Callable[[], bool]) -> float:
        windows, window = self._windows, self._windows.window
        if window is not None and not window.closed:
            # Not under the lock: whoever holds it while a window closes must not make a gap.
            subjects = tuple(windows.subjects.values())
            window.watch(MaskWatch).masks.scan_all(subjects, lambda: stopped() or window.closed)
        return windows.options.scan_ms / 1000
