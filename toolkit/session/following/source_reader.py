"""A source that is read in a thread of its own: when something changes, when something asks, and when it is time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolkit.errors import PinproofError
from toolkit.session.following.layer_history import LayerHistory
from toolkit.session.following.lives import Lives
from toolkit.sources.changes import Changes
from toolkit.sources.live_source import LiveSource, SourceReading
from toolkit.text.names import printable

MORE_WRITES_S = 0.05
"""So long more writes are awaited: a change is seldom alone, a container is made by several."""
MAX_WORDS = 200
"""So much of an unforeseen error's words is written down."""


class SourceReader:
    """Read a source again and again from :meth:`start` to :meth:`stop`.

    :param lives: of the node: what a reading lists is completed by them.
    :param history: where what it states is written down.
    """

    def __init__(self, source: LiveSource, lives: Lives, history: LayerHistory) -> None:
        self._source, self._lives, self._history = source, lives, history
        self._latest: SourceReading | None = None
        self._latest_ns, self._begun_ns, self._read_ns = 0, 0, 0
        """When a reading began (CLOCK_MONOTONIC): the latest one that was answered, the latest of all, the last that is
        over, with an answer or without.
        """
        self._changes: Changes | None = None
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.wake: Callable[[], None] = lambda: None
        """Called when a reading is there; by the thread that reads."""

    def first(self) -> SourceReading:
        """Read for the first time.

        :raises InputError: there is nothing to follow.
        """
        began_ns = time.monotonic_ns()
        return self._read(began_ns)

    def start(self) -> None:
        """Read from now on."""
        self._changes = Changes()
        self._thread = threading.Thread(target=self._follow, name="pinproof-follow", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()
        changes, self._changes = self._changes, None
        if changes is not None and self._thread is not None:
            changes.wake()
            self._thread.join()
            changes.close()

    def latest(self) -> tuple[SourceReading | None, int]:
        """Return what was read and is not applied yet, if anything, and when the latest reading began."""
        with self._lock:
            return self._latest, self._latest_ns

    def applied(self, reading: SourceReading) -> None:
        """Note that a reading was applied."""
        with self._lock:
            self._latest = None if self._latest is reading else self._latest

    def ask(self, in_s: float) -> Callable[[], bool]:
        """Have it read once more, in a moment; returns whether such a reading is over: ask again and again."""
        due_ns = time.monotonic_ns() + int(in_s * 1e9)
        changes = self._changes
        if changes is None:
            return lambda: True

        def heard() -> bool:
            # One that is under way by then is what was asked for.
            if self._begun_ns < due_ns <= time.monotonic_ns() and not self._asked.is_set():
                self._asked.set()
                changes.wake()
            return self._read_ns >= due_ns

        return heard

    def _follow(self) -> None:
        changes = self._changes
        assert changes is not None
        while not self._stop.is_set():
            self._try(lambda: changes.follow(self._source.signs()))
            if not self._try(lambda: self._await(changes)):
                self._stop.wait(self._source.every_s)
            if not self._stop.is_set():
                self._begun_ns = time.monotonic_ns()
                self._try(lambda: self._read(self._begun_ns))
                self._read_ns = self._begun_ns

    def _await(self, changes: Changes) -> None:
        """Wait until something changes, something asks, or it is time."""
        end_s = time.monotonic() + self._source.every_s
        while not self._stop.is_set() and (left_s := end_s - time.monotonic()) > 0:
            if changes.wait(left_s):
                if not self._asked.is_set():
                    self._stop.wait(MORE_WRITES_S)
                break
        self._asked.clear()

    def _read(self, began_ns: int) -> SourceReading:
        reading = self._lives.of(self._source.read(), began_ns)
        self._history.read(reading, time.monotonic_ns())
        with self._lock:
            self._latest, self._latest_ns = reading, began_ns
        self.wake()
        return reading

    def _try(self, step: Callable[[], object]) -> bool:
        """Take a step; whatever it raises is written down, and the thread goes on: without it every later window would
        rest on what was read before. Returns whether it was taken.
        """
        try:
            step()
            return True
        except (PinproofError, OSError) as error:
            self._history.failed(str(error), time.monotonic_ns())
        except Exception as error:
            words = printable(str(error))[:MAX_WORDS]
            self._history.failed(f"could not be read: {type(error).__name__}: {words}", time.monotonic_ns())
        return False
