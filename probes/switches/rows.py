"""The rows of the ledger: a claim's counters by CPU, of this window and of the one before it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import fields

from probes.bpfsys import Map
from probes.switches.records import Row

_U32 = struct.Struct("=I")
_WORDS = Row.LAYOUT.size // 8
_BATCH_BYTES = 4096
"""Of one slot's rows: a batch copies those of both windows, which where there are more costs more than a call each."""
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
        data = self._table.lookup(self._key(slot, window)) or b""
        return [Row(*values) for values in Row.LAYOUT.iter_unpack(data[: self._reach * Row.LAYOUT.size])]

    def ns(self, slot: int, window: int) -> int:
        """Return a slot's CPU time, all CPUs together, without making rows."""
        words = self._table.words(self._key(slot, window))
        return sum(words[_NS : self._reach * _WORDS : _WORDS])

    def all_ns(self, slots: Iterable[int], window: int) -> list[int]:
        """Return by slot the CPU time of all up to the highest of these: what :meth:`ns` says of each."""
        count = max(slots, default=-1) + 1
        size = self._table.value_size * self._table.copies
        words = self._table.first_words(count * 2) if count and size <= _BATCH_BYTES else None
        if words is None:
            return [self.ns(slot, window) for slot in range(count)]
        first, step = (window & 1) * size // 8 + _NS, 2 * size // 8
        by_cpu = [words[first + cpu * _WORDS :: step].tolist() for cpu in range(min(self._reach, size // 8 // _WORDS))]
        return list(map(sum, zip(*by_cpu, strict=True))) if by_cpu else [0] * count

    @staticmethod
    def _key(slot: int, window: int) -> bytes:
        return _U32.pack(slot * 2 + (window & 1))
