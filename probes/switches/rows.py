"""The rows of the ledger: a claim's counters by CPU, of this window and of the one before it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import fields

from probes.bpfsys import Map
from probes.switches.records import Row

_U32 = struct.Struct("=I")
_WORDS = Row.LAYOUT.size // 8
_BATCH_BYTES = 4096
"""Of one slot's rows: a batch copies those of both windows, which where there are more costs more than a call each."""
_NOTHING = Row(*[0] * _WORDS)
_NS = [field.name for field in fields(Row)].index("ns")


class Rows:
    """One per-CPU map, by slot and parity of the window.

    A per-CPU map has a value for every *possible* CPU, often hundreds where few are plugged in: one that was never
    online has counted nothing, and is not decoded.
    """

    def __init__(self, table: Map) -> None:
        self._table = table
        self._zero = bytes(table.value_size * table.copies)
        self._reach = 0

    def reach(self, cpus: int) -> None:
        """Read the CPUs below this number from now on; one that has been online once is read ever after."""
        self._reach = max(self._reach, cpus)

    def clear(self, slot: int, window: int) -> None:
        """Zero a slot in the windows of this parity."""
        self._table.update(self._key(slot, window), self._zero)

    def of(self, slot: int, window: int) -> list[Row]:
        """Return a slot's rows by CPU, in this window or the one closed last."""
        return self._rows_in(self._table.words(self._key(slot, window))[: self._cpus * _WORDS])

    @staticmethod
    def _rows_in(words: memoryview) -> list[Row]:
        """Make rows of words; where nothing was counted, on most CPUs of most claims, they are all one and the same."""
        own = words.tolist()
        if not any(own):
            return [_NOTHING] * (len(own) // _WORDS)
        each = (own[first : first + _WORDS] for first in range(0, len(own), _WORDS))
        return [Row(*values) if any(values) else _NOTHING for values in each]

    def ns(self, slot: int, window: int) -> int:
        """Return a slot's CPU time, all CPUs together, without making rows."""
        words = self._table.words(self._key(slot, window))
        return sum(words[_NS : self._reach * _WORDS : _WORDS])

    def all_ns(self, slots: Iterable[int], window: int) -> list[int]:
        """Return by slot the CPU time of all up to the highest of these: what :meth:`ns` says of each."""
        count = max(slots, default=-1) + 1
        words = self._first_words(count)
        if words is None:
            return [self.ns(slot, window) for slot in range(count)]
        first, step = self._place(0, window) + _NS, self._place(1, 0)
        by_cpu = [words[first + cpu * _WORDS :: step].tolist() for cpu in range(self._cpus)]
        return list(map(sum, zip(*by_cpu, strict=True))) if by_cpu else [0] * count

    def of_each(self, slots: Sequence[int], window: int) -> list[list[Row]]:
        """Return the rows of slots: what :meth:`of` says of each. Most claims of a full node have none that counted."""
        words = self._first_words(max(slots, default=-1) + 1)
        if words is None:
            return [self.of(slot, window) for slot in slots]
        places, length = [self._place(slot, window) for slot in slots], self._cpus * _WORDS
        return [self._rows_in(words[at : at + length]) for at in places]

    def _first_words(self, slots: int) -> memoryview | None:
        """Read the slots below this number in one call; ``None``: there are none, or each had better be read alone."""
        batched = slots and self._table.value_size * self._table.copies <= _BATCH_BYTES
        return self._table.first_words(slots * 2) if batched else None

    def _place(self, slot: int, window: int) -> int:
        """Return where a slot's rows begin in that."""
        return (slot * 2 + (window & 1)) * self._table.value_size * self._table.copies // 8

    @property
    def _cpus(self) -> int:
        return min(self._reach, self._table.value_size * self._table.copies // 8 // _WORDS)

    @staticmethod
    def _key(slot: int, window: int) -> bytes:
        return _U32.pack(slot * 2 + (window & 1))
