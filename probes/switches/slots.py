"""The slots of CPU time of one window: short ones where a claim is judged by how its time was spread, else long ones.

Short ones are the kernel's (:mod:`probes.switches.spreads`), as long as the options say; they are read every few
seconds. Long ones are sums, taken every :data:`SELDOM_NS`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from probes.clocks import Clock
from probes.observer import Observer
from probes.subjects import Subject
from probes.switches.bins import Bins
from probes.switches.shares import Shares
from probes.switches.spreads import HORIZON, Spread
from probes.witness import OpenWindow
from toolkit.model.claims import Claim
from toolkit.model.evidence import UsageBin

SELDOM_NS = 5_000_000_000
"""The length of slots in which no claim's bandwidth, and no share of contended CPU time, was promised."""
_FOREVER = 1 << 62


class Times(Protocol):
    """What knows how long claims ran. Given to each call that asks: the two would keep each other in memory."""

    def usage_ns(self) -> dict[int, int]:
        """Return every claim's CPU time so far by ident, nested claims included."""

    def inside(self) -> dict[int, tuple[int, ...]]:
        """Return the claims inside each claim, by ident."""


class Slots:
    """Of all claims in one window. Called under the lock.

    :param shares: what pieces add, by slot.
    """

    def __init__(self, observer: Observer, window: OpenWindow, shares: Shares) -> None:
        self._observer, self._window, self._shares = observer, window, shares
        self._slot_ns = observer.options.bin_ms * 1_000_000
        self._looks = Clock(window.start_ns)
        first = self._number(window.start_ns) - 1  # what a CPU ran that turned over before the others
        subjects = observer.subjects.values()
        self._judged = {subject.ident for subject in subjects if _is_judged(subject.claim)}
        self._spreads = {subject.ident: Spread(first) for subject in subjects}
        self._names = {subject.ident: subject.name for subject in subjects}
        self._bins: dict[int, Bins] = {}
        """By ident, of claims that ran."""
        self._summed_ns = 0
        """Up to when, since the window began, slots are closed: of a claim that slept, when it runs again."""
        self._before: int | None = first
        """The kernel's slot in which the last reading of its slots began; ``None``: sums were taken since."""
        self._whole = self._finished = False

    def _number(self, at_ns: int) -> int:
        return at_ns // self._slot_ns

    @property
    def judged(self) -> bool:
        """Whether it is judged of any claim how its CPU time was spread."""
        return bool(self._judged)

    def claim_added(self, subject: Subject) -> None:
        """Begin a claim's slots at the moment from which on it is watched."""
        ident = subject.ident
        self._names[ident] = subject.name
        self._bins[ident] = Bins(subject.name, subject.since_ns - self._window.start_ns)
        self._spreads[ident] = Spread(self._number(subject.since_ns) - 1)
        self.promised(subject)

    def promised(self, subject: Subject) -> None:
        """Have short slots from now on where they are needed; how long those before were is over."""
        if _is_judged(subject.claim):
            self._judged.add(subject.ident)
        else:
            self._judged.discard(subject.ident)

    def claim_removed(self, subject: Subject) -> None:
        """Read a claim's slots before its place is another's; its CPUs count nothing for it any more."""
        if self._judged:
            self._take([subject])
        self._judged.discard(subject.ident)
        self._slept([subject])

    def look(self, times: Times) -> None:
        """Read the kernel's slots, or take sums if the running slot is long enough."""
        if self._window.closed:
            return
        if self._judged:
            self._follow(times)
        elif time.monotonic_ns() - self._window.start_ns - self._summed_ns >= SELDOM_NS:
            self._observer.ledger.split(self._observer.ledger.sampled())
            self._sum_up(times, time.monotonic_ns() - self._window.start_ns)
        self._looks.beat(time.monotonic_ns())

    def close(self) -> None:
        """Read what stands still now: the window has ended."""
        self._whole = bool(self._judged) and self._take(self._window.present())

    def finish(self, times: Times) -> None:
        """Close the last slots of a window that has ended, and of which everything was heard."""
        if self._finished:
            return
        self._finished = True
        end_ns = self._window.end_ns - self._window.start_ns
        if self._whole:
            self._settle(times, _FOREVER, end_ns)
            return
        present = {subject.ident for subject in self._window.present()}
        for ident in self._spreads.keys() - present:  # read when they were removed
            used = self._spreads[ident].taken_out(_FOREVER)
            self._bins[ident] = self._added_to(self._bins_of(ident), used, end_ns)
        self._sum_up(times, end_ns)

    def _follow(self, times: Times) -> None:
        ledger, before = self._observer.ledger, self._before
        ledger.split(ledger.sampled())  # what runs now, and has run since the sampler's last tick
        began = self._number(time.monotonic_ns())
        if before is not None and self._take(self._observer.subjects.values()):
            self._settle(times, before, max(0, before * self._slot_ns - self._window.start_ns))
        else:
            self._sum_up(times, time.monotonic_ns() - self._window.start_ns)
            self._take(self._observer.subjects.values(), restart=True)
        self._before = began

    def _take(self, subjects: Iterable[Subject], *, restart: bool = False) -> bool:
        """Read the kernel's slots of claims. ``False``: too late, some had been given up before they were read."""
        at = {subject.slot: self._spreads[subject.ident] for subject in subjects}
        counted = self._observer.ledger.spreads.read(at, self._window.number)
        now, before = self._number(time.monotonic_ns()), self._before
        if restart:
            for slot, spread in at.items():
                spread.restart(counted[slot], now)
            self._shares.spread(now + 1)
        elif before is None or now - before >= HORIZON:
            return False
        else:
            for slot, spread in at.items():
                spread.take(counted[slot], now, before)
        return True

    def _settle(self, times: Times, until: int, until_ns: int) -> None:
        """Close the kernel's slots before this one; ``until_ns``: where that is in the window."""
        own = {ident: spread.taken_out(until) for ident, spread in self._spreads.items()}
        for ident, used in _whole(own, self._shares.spread(until), times.inside()).items():
            self._bins[ident] = self._added_to(self._bins_of(ident), used, until_ns)
        self._summed_ns = max(self._summed_ns, until_ns)

    def _added_to(self, bins: Bins, used: Mapping[int, int], until_ns: int) -> Bins:
        """Return a claim's slots with these behind them, up to a moment of the window."""
        start_ns = self._window.start_ns
        # CPUs turn over one after the other: some just before the moment that is the window's, some just after it.
        first, last = self._number(start_ns + bins.edge_ns), self._number(start_ns + until_ns - 1)
        inside = dict[int, int]()
        for number, ns in used.items():
            _add(inside, {min(max(number, first), last): ns})
        for number in sorted(inside):
            begin_ns = number * self._slot_ns - start_ns
            bins.slept(begin_ns)
            bins.add(min(begin_ns + self._slot_ns, until_ns), bins.total_ns + inside[number])
        return bins

    def _bins_of(self, ident: int) -> Bins:
        return self._bins.get(ident) or Bins(self._names[ident])

    def _sum_up(self, times: Times, now_ns: int) -> None:
        """Close one slot up to now, which is since the window began."""
        used = times.usage_ns()
        for subject in self._window.present():
            total_ns = used[subject.ident]
            bins = self._bins_of(subject.ident)
            if total_ns != bins.total_ns:
                self._bins[subject.ident] = bins
                bins.slept(self._summed_ns)
                bins.add(now_ns, max(total_ns, bins.total_ns))
        self._summed_ns, self._before = now_ns, None

    def read(self, times: Times, at_ns: int) -> tuple[UsageBin, ...]:
        """Return the slots up to a moment (CLOCK_MONOTONIC): those of an open window as they are known by now."""
        if self._window.closed:
            self.finish(times)
        elif self._judged:
            self._follow(times)
        self._slept(self._window.present())
        bins = self._bins
        if self._judged and not self._finished:
            known = {ident: spread.known() for ident, spread in self._spreads.items()}
            running = _whole(known, self._shares.slots, times.inside())
            until_ns = at_ns - self._window.start_ns
            bins = bins | {
                ident: self._added_to(self._bins_of(ident).copy(), used, until_ns) for ident, used in running.items()
            }
        return tuple(row for one in bins.values() for row in one.values())

    def _slept(self, subjects: Iterable[Subject]) -> None:
        """Close the slots of claims that have not run since."""
        for subject in subjects:
            bins = self._bins.get(subject.ident)
            if bins is not None:
                bins.slept(self._summed_ns)

    def gap(self, at_ns: int) -> tuple[int, int]:
        """Return the longest time between two looks and when it began (CLOCK_MONOTONIC)."""
        return self._looks.until(at_ns)


def _whole(
    own: dict[int, dict[int, int]], more: Mapping[int, Mapping[int, int]], inside: Mapping[int, tuple[int, ...]]
) -> dict[int, dict[int, int]]:
    """Return what claims ran in each slot, by ident: what was added, and the claims inside them, included."""
    for ident, used in more.items():
        _add(own.setdefault(ident, {}), used)
    found = {ident: dict(used) for ident, used in own.items() if used}
    for ident, inner in inside.items():
        for one in inner:
            _add(found.setdefault(ident, {}), own.get(one, {}))
    return found


def _add(to: dict[int, int], more: Mapping[int, int]) -> None:
    for number, ns in more.items():
        to[number] = to.get(number, 0) + ns


def _is_judged(claim: Claim) -> bool:
    """Whether a bandwidth was promised, or a share of contended CPU time."""
    return (claim.quota_us or 0) > 0 or claim.divided
