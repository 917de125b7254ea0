"""CPU time of a claim in slots of the observation, bounded however long the observation lasts.

Slots in which it did not run and which follow each other are one slot: of a stretch without use no rule asks more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from toolkit.model.evidence import UsageBin

MAX_BINS = 4096
"""For one claim; when it is reached short neighbours are joined, and slots become twice as long."""


@dataclass(slots=True)
class Bins:
    """The slots of one claim. Times are nanoseconds since the window was opened."""

    claim: str
    _edge_ns: int = 0
    _sum_ns: int = 0
    _done: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def edge_ns(self) -> int:
        """Up to where slots are closed."""
        return self._edge_ns

    @property
    def total_ns(self) -> int:
        """What the closed slots hold."""
        return self._sum_ns

    def copy(self) -> Bins:
        """Return the same slots, to be added to apart."""
        return replace(self, _done=self._done.copy())

    def slept(self, until_ns: int) -> None:
        """Close the running slot: nothing was used."""
        self.add(until_ns, self._sum_ns)

    def add(self, at_ns: int, total_ns: int) -> None:
        """Close the running slot: the claim has used ``total_ns`` since the window was opened."""
        if at_ns <= self._edge_ns:
            return
        begin_ns, used_ns = self._edge_ns, total_ns - self._sum_ns
        if not used_ns and self._done and not self._done[-1][2]:
            # Slots without use say the same together as apart: most claims of a node sleep most of the time.
            begin_ns = self._done.pop()[0]
        self._done.append((begin_ns, at_ns - begin_ns, used_ns))
        self._edge_ns, self._sum_ns = at_ns, total_ns
        if len(self._done) >= MAX_BINS:
            self._shorten()

    def _shorten(self) -> None:
        """Join short neighbours until half of the room is free; long stretches without use stay by themselves."""
        limit_ns = 5 * sorted(length for _, length, _ in self._done)[len(self._done) // 2] // 2
        while len(self._done) > MAX_BINS // 2:
            joined = self._done[:1]
            for start, length, used in self._done[1:]:
                before = joined[-1]
                if before[1] + length <= limit_ns:  # two of the usual length, not three
                    joined[-1] = (before[0], before[1] + length, before[2] + used)
                else:
                    joined.append((start, length, used))
            self._done = joined
            limit_ns *= 2

    def values(self) -> tuple[UsageBin, ...]:
        """Return the closed slots."""
        return tuple(
            UsageBin(claim=self.claim, start_at_ns=start, length_ns=length, usage_ns=used)
            for start, length, used in self._done
        )
