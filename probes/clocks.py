"""What the observer does again and again, and how long at most it did not: a stopped or starved observer shows here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """The longest time between two beats. Times are CLOCK_MONOTONIC nanoseconds."""

    last_ns: int
    longest_ns: int = 0
    longest_from_ns: int = 0
    beats: int = 0

    def beat(self, now_ns: int, *, since_ns: int | None = None, counts: bool = True) -> None:
        """Note that it was done.

        :param since_ns: when this time began; what it looks at is known from then on. ``None``: it takes no time.
        :param counts: ``False``: nothing was done, but from here on nothing is missing either.
        """
        if now_ns - self.last_ns > self.longest_ns:
            self.longest_ns, self.longest_from_ns = now_ns - self.last_ns, self.last_ns
        self.last_ns = now_ns if since_ns is None else since_ns
        self.beats += counts

    def until(self, now_ns: int) -> tuple[int, int]:
        """Return the longest time and when it began, the time since the last beat included."""
        if now_ns - self.last_ns > self.longest_ns:
            return now_ns - self.last_ns, self.last_ns
        return self.longest_ns, self.longest_from_ns
