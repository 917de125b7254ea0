"""How each claim's CPU time was spread over time: in slots, which the programs keep and user space reads now and then.

What a claim ran on a CPU in a slot stands in the row of that CPU until it runs there in a later one; then it is added
to what all CPUs ran of it in that slot (``probes/switches/intervals.h``). The kernel has room for :data:`SLOTS` slots,
one after the other, and its numbers only grow. A reading that comes while a CPU hands over what is in its row may miss
that: it is in the next one. So a slot is known when it was over at the reading before this one; none has ever too much.

Read at least once in :data:`HORIZON` slots, no slot is lost. After a longer pause what was run meanwhile is known as a
sum alone.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from probes.bpfsys import Map
from probes.switches.records import SLOTS
from probes.switches.rows import Rows

HORIZON = SLOTS // 2
"""Slots after which a CPU adds nothing any more to what was a claim's time in one."""
EVERY = 25
"""Slots between two readings: each slot is read twice, also where a reading is late by nearly as much."""
_U32 = struct.Struct("=I")
_BYTES = SLOTS * 8
_AT_ONCE = 256
"""Claims that are read in one call."""
_NOTHING = bytes(_BYTES)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the kernel has of a claim: its words, :data:`SLOTS` of them, and by slot what is in no slot yet."""

    words: bytes = _NOTHING
    unslotted: Mapping[int, int] = field(default_factory=dict)


class Spreads:
    """The kernel's slots of all claims, in two windows: the map, and what the rows have of them."""

    def __init__(self, table: Map, rows: Rows, claims: int) -> None:
        """:param claims: for how many there is room in each of the two windows."""
        self._table, self._rows, self._claims = table, rows, claims

    def clear(self, claim: int, window: int) -> None:
        """Zero a claim's slots in the windows of this parity."""
        self._table.update(self._key(claim, window), _NOTHING)

    def read(self, claims: Iterable[int], window: int) -> dict[int, Counted]:
        """Return what the kernel has of these claims, by their place in the rows."""
        wanted = frozenset(claims)
        # Before the rows: what a CPU hands over in between is missed then, not counted twice.
        words = dict(self._words(wanted, window))
        unslotted = self._rows.unslotted(wanted, window)
        return {claim: Counted(own, unslotted.get(claim, {})) for claim, own in words.items()}

    def _words(self, wanted: frozenset[int], window: int) -> Iterator[tuple[int, bytes]]:
        top = max(wanted, default=-1) + 1
        for first in range(0, top, _AT_ONCE):
            count = min(_AT_ONCE, top - first)
            run = self._table.run_words(self._entry(first, window), count)
            for claim in wanted.intersection(range(first, first + count)):
                at = (claim - first) * SLOTS
                own = self._table.words(self._key(claim, window)) if run is None else run[at : at + SLOTS]
                yield claim, own.tobytes()

    def _entry(self, claim: int, window: int) -> int:
        return (window & 1) * self._claims + claim

    def _key(self, claim: int, window: int) -> bytes:
        return _U32.pack(self._entry(claim, window))


@dataclass(slots=True)
class Spread:
    """One claim in one window: what it ran in each slot, without the claims inside it.

    :param first: the number of the first slot that is asked for.
    """

    first: int
    _base: array[int] = field(default_factory=lambda: _numbers(_NOTHING))
    """What the words were when their present slot began."""
    _counted: Counted = Counted()
    """The last reading in which there was anything new."""
    _at: int = 0
    """The slot in which that ended."""
    _most: dict[int, int] = field(default_factory=dict)
    """By slot the most that a reading found: none finds too much."""

    def take(self, counted: Counted, now: int, before: int) -> None:
        """Take a reading.

        :param now: the number of the slot in which it ended. :param before: of that in which the one before it began.
        """
        recent = {number: ns for number, ns in counted.unslotted.items() if now - HORIZON < number <= now}
        if counted.words == self._counted.words and recent == self._counted.unslotted:
            return
        words = self._renew(Counted(counted.words, recent), now, before)
        for number in range(max(self.first, now - HORIZON + 1), now + 1):
            at = number % SLOTS
            ns = words[at] - self._base[at] + recent.get(number, 0)
            if ns > self._most.get(number, 0):
                self._most[number] = ns

    def _renew(self, counted: Counted, now: int, before: int) -> array[int]:
        # The words were still these at the reading before: a slot that was too old by then is complete in them.
        base = _numbers(self._counted.words)
        for number in range(max(0, before - HORIZON + 1), self._at + 1):
            base[number % SLOTS] = self._base[number % SLOTS]
        self._base, self._counted, self._at = base, counted, now
        return _numbers(counted.words)

    def restart(self, counted: Counted, now: int) -> None:
        """Forget what was not taken out: from the slot after this one on it is known again how time was spread."""
        self._base, self._counted = _numbers(counted.words), counted
        self._at, self.first = now, now + 1
        self._most.clear()

    def known(self) -> dict[int, int]:
        """Return what was found so far of the slots that were not taken out."""
        return self._most.copy()

    def taken_out(self, until: int) -> dict[int, int]:
        """Take out the slots before this one in which it ran, with nanoseconds of CPU time."""
        found = {number: ns for number, ns in self._most.items() if number < until}
        for number in found:
            del self._most[number]
        self.first = max(self.first, until)
        return found


def _numbers(words: bytes) -> array[int]:
    return array("Q", words)
