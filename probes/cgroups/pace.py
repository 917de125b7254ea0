"""How often something dear is done: as often as was asked for, or else as a share of one CPU allows. Pure.

A node with hundreds of containers has a thousand cgroups, and a sweep through their files costs tens of milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """When it is due again. Times are seconds of one clock.

    :param last_s: when it began last.
    :param period_s: from one beginning to the next, where that costs less than ``share`` of a CPU.
    :param longest_s: the longest that it may become by its cost.
    """

    last_s: float
    period_s: float
    share: float
    longest_s: float
    costs_s: tuple[float, float] = (0.0, 0.0)
    """CPU time of the last two: the cheaper counts, for one may have met what seldom is."""

    def pause_s(self, *, at_once: bool = False) -> float:
        """Return the time from the last beginning to the next. :param at_once: whatever it costs."""
        if at_once:
            return self.period_s
        return max(self.period_s, min(min(self.costs_s) / self.share, self.longest_s))

    @property
    def slow(self) -> bool:
        """Whether it costs too much to be done as often as was asked for."""
        return self.pause_s() > self.period_s

    def due_s(self, *, at_once: bool = False) -> float:
        """Return when its time comes."""
        return self.last_s + self.pause_s(at_once=at_once)

    def due(self, now_s: float, *, at_once: bool = False) -> bool:
        """Say whether its time has come."""
        return now_s >= self.due_s(at_once=at_once)

    def done(self, began_s: float, cost_s: float) -> None:
        """Note that it was done."""
        self.last_s, self.costs_s = began_s, (self.costs_s[1], cost_s)
