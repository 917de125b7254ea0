"""CPU time of a claim in slots of the observation, bounded however long the observation lasts."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.evidence import UsageBin

MAX_BINS = 4096
"""For one claim; when it is reached neighbours are joined, and slots become twice as long."""


@dataclass(slots=True)
class Bins:
    """The slots of one claim. Times are nanoseconds since the window was opened."""

    claim: str
    _edge_ns: int = 0
    _sum_ns: int = 0
    _done: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, at_ns: int, total_ns: int) -> None:
        """Close the running slot: the claim has used ``total_ns`` since the window was opened."""
        if at_ns <= self._edge_ns:
            return
        self._done.append((self._edge_ns, at_ns - self._edge_ns, total_ns - self._sum_ns))
        self._edge_ns, self._sum_ns = at_ns, total_ns
        if len(self._done) >= MAX_BINS:
            pairs = zip(self._done[::2], self._done[1::2], strict=True)
            self._done = [(a[0], a[1] + b[1], a[2] + b[2]) for a, b in pairs]

    def values(self) -> tuple[UsageBin, ...]:
        """Return the closed slots."""
        return tuple(
            UsageBin(claim=self.claim, start_at_ns=start, length_ns=length, usage_ns=used)
            for start, length, used in self._done
        )
