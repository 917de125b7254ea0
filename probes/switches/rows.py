"""The rows of the ledger: a claim's counters by CPU, of this window and of the one before it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

from probes.bpfsys import Map
from probes.switches.records import Row

_U32 = struct.Struct("=I")
_WORDS = Row.LAYOUT.size // 8
_CALL_BYTES = 1 << 18
"""Copied in one call: many times what a call costs, little enough to stay in a cache while it is decoded."""
_NOTHING = Row(*[0] * _WORDS)
_NS, _SLOTTED, _SLOT = ([field.name for field in fields(Row)].index(name) for name in ("ns", "slotted_ns", "slot"))


class Rows:
    """One per-CPU map, by slot and parity of the window.

    A per-CPU map has a value for every *possible* CPU, often hundreds where few are plugged in: one that was never
    online has counted nothing, and is not decoded.
    """

    def __init__(self, table: Map, slots: int, each: int = 1) -> None:
        """:param slots: that there are in each of the two windows.

        :param each: how many of the slots of time that rows are kept in make one of :meth:`unslotted`.
        """
        self._table, self._slots, self._each = table, slots, each
        self._bytes = table.value_size * table.copies
        self._zero = bytes(self._bytes)
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
        found = list[int]()
        for first, count, words in self._runs(max(slots, default=-1) + 1, window):
            if words is None:
                found += (self.ns(slot, window) for slot in range(first, first + count))
            else:
                step = self._bytes // 8
                by_cpu = [words[cpu * _WORDS + _NS :: step].tolist() for cpu in range(self._cpus)]
                found += map(sum, zip(*by_cpu, strict=True)) if by_cpu else [0] * count
        return found

    def unslotted(self, slots: Iterable[int], window: int) -> dict[int, dict[int, int]]:
        """Return by slot of a claim the CPU time that is in none of its slots of time yet, by these slots' numbers."""
        wanted, found = frozenset(slots), dict[int, dict[int, int]]()
        for slot, ns, slotted_ns, number in self._times(max(wanted, default=-1) + 1, window):
            if ns != slotted_ns and slot in wanted:
                of_claim = found.setdefault(slot, {})
                whole = number // self._each
                of_claim[whole] = of_claim.get(whole, 0) + ns - slotted_ns
        return found

    def _times(self, slots: int, window: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield of each row below this slot its slot, and the words about CPU time."""
        step, length = self._bytes // 8, self._cpus * _WORDS
        for first, count, words in self._runs(slots, window):
            claims = range(first, first + count)
            if words is None:
                for slot in claims:
                    own = self._table.words(self._key(slot, window)).tolist()
                    for at in range(0, length, _WORDS):
                        yield slot, own[at + _NS], own[at + _SLOTTED], own[at + _SLOT]
                continue
            for at in range(0, length, _WORDS):
                yield from zip(
                    claims, *(words[at + one :: step].tolist() for one in (_NS, _SLOTTED, _SLOT)), strict=True
                )

    def of_each(self, slots: Sequence[int], window: int) -> list[list[Row]]:
        """Return the rows of slots: what :meth:`of` says of each. Most claims of a full node have none that counted."""
        wanted, found = frozenset(slots), dict[int, list[Row]]()
        step, length = self._bytes // 8, self._cpus * _WORDS
        for first, count, words in self._runs(max(slots, default=-1) + 1, window):
            for slot in wanted.intersection(range(first, first + count)):
                at = (slot - first) * step
                found[slot] = self.of(slot, window) if words is None else self._rows_in(words[at : at + length])
        return [found[slot] for slot in slots]

    def _runs(self, slots: int, window: int) -> Iterator[tuple[int, int, memoryview | None]]:
        """Read the slots below this number, many in one call: yields the first of them, how many, and their words.

        Words are good until the next. ``None``: this kernel reads each alone.
        """
        most = max(1, _CALL_BYTES // self._bytes)
        for first in range(0, slots, most):
            count = min(most, slots - first)
            yield first, count, self._table.run_words(self._entry(first, window), count)

    @property
    def _cpus(self) -> int:
        return min(self._reach, self._bytes // 8 // _WORDS)

    def _entry(self, slot: int, window: int) -> int:
        return (window & 1) * self._slots + slot

    def _key(self, slot: int, window: int) -> bytes:
        return _U32.pack(self._entry(slot, window))
