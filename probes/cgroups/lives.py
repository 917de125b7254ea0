"""CPU time of cgroups that may be deleted, and made again under their name, while a window is open.

Counters of a new cgroup begin at nothing, and those of a deleted one cannot be read any more: what each used is the
difference of its own last and first reading, and a window's use is the sum over the lives. What a cgroup used between
its last reading and its end, or before its first one where nothing knows when it was made, is in no reading: the
ledger, which goes on through all of it, measures how much that was.
Readings come from whatever makes them (window edges, once a second, before a cgroup is deleted); nothing is read here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from toolkit.host.cgroupfs import CpuStat
from toolkit.model.evidence import ThrottledPeriods

USAGE = ("usage_ns", "system_ns")
COUNTS = tuple(name.name for name in fields(CpuStat) if name.name not in ("at_ns", *USAGE))
ZERO = CpuStat(at_ns=0, usage_ns=0, nr_periods=0, nr_throttled=0, throttled_ns=0, nr_bursts=0, burst_ns=0, system_ns=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of a cgroup's counters. ``ids``: of the directories that usage and throttling were read from."""

    stat: CpuStat
    ids: tuple[int, int]

    @property
    def there(self) -> bool:
        """Whether there was a cgroup."""
        return self.stat.usage_ns is not None


NOTHING = CpuStat(
    at_ns=0, usage_ns=None, nr_periods=None, nr_throttled=None, throttled_ns=None, nr_bursts=None, burst_ns=None
)
GONE = Reading(stat=NOTHING, ids=(0, 0))


def _taken_apart(known: tuple[int, int], found: tuple[int, int]) -> bool:
    """Whether a part of a cgroup that was there is not: it goes in one v1 hierarchy after the other.

    Its directory in the v2 hierarchy may stay (a kubelet before v1.22 leaves the pods'): that counts since it was made,
    not since the window opened. Usage that is read there has a negative number (:func:`cgroupfs.counter_ids`).
    """
    return (known[0] > 0 and found[0] <= 0) or (known[1] != 0 and found[1] == 0)


MAX_STRETCHES = 32
"""Stretches of throttled periods that are kept of one cgroup in a window."""


def with_periods(known: tuple[ThrottledPeriods, ...], found: ThrottledPeriods) -> tuple[ThrottledPeriods, ...]:
    """Add a stretch behind the others: to the last, where it goes on in the same way or where there are too many."""
    if not known:
        return (found,)
    last = known[-1]
    alike = last.last + 1 == found.first and _all(last) == _all(found)
    if not alike and len(known) < MAX_STRETCHES:
        return (*known, found)
    return (*known[:-1], replace(last, last=found.last, throttled=last.throttled + found.throttled))


def _all(one: ThrottledPeriods) -> bool:
    return one.throttled == one.last - one.first + 1


@dataclass(slots=True)
class Account:
    """One name's counters through all its lives in the window."""

    base: Reading | None
    last: Reading | None
    ledger_ns: int | None
    """CPU time by the ledger when ``last`` was read; ``None``: it does not count this cgroup."""
    done: CpuStat = ZERO
    """Sums of the lives that have ended; ``at_ns`` is their length."""
    lives: int = 1
    unread_ns: int = 0
    """By the ledger: used between last readings and the ends of cgroups."""
    ended: Reading | None = None
    """The last reading of the life before."""
    periods: int = 0
    """Bandwidth periods of all lives that have been read."""
    throttled_in: tuple[ThrottledPeriods, ...] = ()

    def read(self, found: Reading, ledger_ns: int | None, made_ns: int | None) -> None:
        """Take a reading; ``made_ns``: when the present cgroup was made, where that is known."""
        if ledger_ns is None and self.ledger_ns is not None:
            return  # made on behalf of a claim below this one: readings of its own come with the ledger's
        known = self.last or self.ended
        if known is not None and _taken_apart(known.ids, found.ids):
            found = GONE
        if self.last is not None and found.there and found.ids == self.last.ids:
            self._count_periods(self.last.stat, found.stat)
            self.last, self.ledger_ns = found, ledger_ns
            return
        if self.last is not None:
            self._end()
        fresh_ns = 0
        if found.there:
            self.base = self._begin(found, made_ns)
            self._count_periods(self.base.stat, found.stat)
            fresh_ns = (found.stat.usage_ns or 0) - (self.base.stat.usage_ns or 0)
            self.last = found
            self.lives += 1
        if ledger_ns is not None and self.ledger_ns is not None:
            self.unread_ns += max(0, ledger_ns - self.ledger_ns - fresh_ns)
        self.ledger_ns = ledger_ns

    def _count_periods(self, before: CpuStat, now: CpuStat) -> None:
        """Note which periods were throttled since the reading before."""
        more, throttled = _minus(now.nr_periods, before.nr_periods) or 0, _minus(now.nr_throttled, before.nr_throttled)
        if throttled and more:
            found = ThrottledPeriods(first=self.periods + 1, last=self.periods + more, throttled=min(throttled, more))
            self.throttled_in = with_periods(self.throttled_in, found)
        self.periods += more

    def pair(self) -> tuple[CpuStat, CpuStat] | None:
        """Return two readings whose difference is the use in the window; ``None``: it was never read."""
        if self.lives == 1 and self.base is not None and self.last is not None:
            return self.base.stat, self.last.stat
        if self.base is None:
            return None
        return ZERO, self.done if self.last is None else _sum(self.done, self._now())

    def _now(self) -> CpuStat:
        assert self.base is not None
        assert self.last is not None
        return _difference(self.base.stat, self.last.stat)

    def _end(self) -> None:
        self.done = _sum(self.done, self._now())
        self.ended, self.last = self.last, None

    def _begin(self, found: Reading, made_ns: int | None) -> Reading:
        """A new cgroup counts from nothing, since it was made. Where that is not known, or where one of two directories
        (v1 hierarchies side by side) is the old one, whose count went on meanwhile, it is counted from this reading on:
        what was used belongs to the time in which it was.
        """
        went_on = self.ended is not None and any(old == new for old, new in zip(self.ended.ids, found.ids, strict=True))
        if made_ns is None or went_on:
            return found
        return Reading(stat=replace(ZERO, at_ns=min(found.stat.at_ns, made_ns)), ids=found.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A claim's account when it was watched no longer.

    :param account: of its own cgroup. :param base_ns: as :attr:`BandwidthReading.base_ns`.
    :param from_ns, to_ns: when it was watched (CLOCK_MONOTONIC).
    """

    account: Account
    base_ns: int
    from_ns: int
    to_ns: int


@dataclass(slots=True)
class Lives:
    """The accounts of a window, by cgroup."""

    accounts: dict[str, Account] = field(default_factory=dict)

    def start(self, cgroup: str, first: Reading, ledger_ns: int | None) -> None:
        """Begin an account with a first reading."""
        there = first if first.there else None
        self.accounts[cgroup] = Account(base=there, last=there, ledger_ns=ledger_ns)

    def read(self, cgroup: str, found: Reading, ledger_ns: int | None, made_ns: int | None = None) -> None:
        """Take one more reading, of a cgroup that may be another one than before, or gone."""
        if cgroup not in self.accounts:
            self.start(cgroup, found, ledger_ns)
        else:
            self.accounts[cgroup].read(found, ledger_ns, made_ns)


def _difference(first: CpuStat, last: CpuStat) -> CpuStat:
    values = {name: _minus(getattr(last, name), getattr(first, name)) for name in (*USAGE, *COUNTS)}
    return CpuStat(at_ns=last.at_ns - first.at_ns, **values)


def _minus(last: int | None, first: int | None) -> int | None:
    return last - first if first is not None and last is not None and last >= first else None


def _sum(one: CpuStat, other: CpuStat) -> CpuStat:
    values = {}
    for name in (*USAGE, *COUNTS):
        a, b = getattr(one, name), getattr(other, name)
        values[name] = None if a is None or b is None else a + b
    return CpuStat(at_ns=one.at_ns + other.at_ns, **values)
