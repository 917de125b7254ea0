"""What an observer did not see in a window, each with the witnesses whose evidence is incomplete by it.

The complete list: what the parts of the observer note themselves (:class:`Blindness`), and what each witness's reading
of a window shows (its ``decode``, composed by :mod:`probes.build`). Loss that is a number of its own in the coverage
(events, map entries, program runs, switches, CPUs never seen) is not repeated here;
``validators.credibility.trust`` weighs both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.model.blind_spots import EVERY_WITNESS, BlindSpot, Witness

SAME_NS = 1_000_000_000
MAX_NOTES = 256


@dataclass(slots=True)
class _Note:
    text: str
    witnesses: tuple[Witness, ...]
    start_ns: int | None
    end_ns: int | None

    def widen(self, start_ns: int | None, end_ns: int | None) -> None:
        """Let it be of this time, too: threads note in any order."""
        self.start_ns = None if self.start_ns is None or start_ns is None else min(self.start_ns, start_ns)
        self.end_ns = None if self.end_ns is None or end_ns is None else max(self.end_ns, end_ns)


class Blindness:
    """What the parts of an observer noted while it watched; any thread may note."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: list[_Note] = []

    def note(self, text: str, witnesses: Iterable[Witness], start_ns: int | None, end_ns: int | None) -> None:
        """Note something. ``start_ns``, ``end_ns``: CLOCK_MONOTONIC; ``None``: from ever, for ever."""
        kinds = tuple(witnesses)
        with self._lock:
            for old in self._notes:
                if (old.text, old.witnesses) == (text, kinds) and _touch(old, start_ns, end_ns):
                    old.widen(start_ns, end_ns)
                    return
            if len(self._notes) >= MAX_NOTES:
                # Too many kinds of trouble to name each: what is left is that there was trouble.
                text, kinds, last = "more went wrong than could be noted", EVERY_WITNESS, self._notes[-1]
                if last.text == text:
                    last.widen(start_ns, end_ns)
                    return
            self._notes.append(_Note(text, kinds, start_ns, end_ns))

    def end(self, text: str, at_ns: int) -> None:
        """Note that what was noted without an end is seen again from this moment on."""
        with self._lock:
            for note in self._notes:
                if note.text == text and note.end_ns is None:
                    note.end_ns = at_ns

    def within(self, start_ns: int, end_ns: int) -> tuple[BlindSpot, ...]:
        """Return what concerns a window, with times since it opened."""
        with self._lock:
            return tuple(
                BlindSpot(
                    text=note.text,
                    witnesses=note.witnesses,
                    start_at_ns=None if note.start_ns is None else max(0, note.start_ns - start_ns),
                    end_at_ns=None if note.end_ns is None else max(0, min(note.end_ns, end_ns) - start_ns),
                )
                for note in self._notes
                if (note.start_ns is None or note.start_ns <= end_ns)
                and (note.end_ns is None or note.end_ns >= start_ns)
            )

    def forget(self, before_ns: int) -> None:
        """Drop what ended before a moment."""
        with self._lock:
            self._notes = [note for note in self._notes if note.end_ns is None or note.end_ns >= before_ns]


def _touch(old: _Note, start_ns: int | None, end_ns: int | None) -> bool:
    """Whether no window of a sensible length fits between the two."""
    after = old.end_ns is None or (start_ns is not None and start_ns - old.end_ns <= SAME_NS)
    before = end_ns is None or old.start_ns is None or old.start_ns - end_ns <= SAME_NS
    return after and before
