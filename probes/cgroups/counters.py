"""CPU time and throttling of a window: next to the ledger's moment, and whenever a cgroup may come or go."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from probes.cgroups.bandwidth import Below, CgroupCounters, lineage
from probes.cgroups.decoder import BandwidthReading
from probes.cgroups.lives import Ended, Lives, Reading
from probes.observer import Observer
from probes.subjects import Subject
from probes.switches.watch import SwitchWatch
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.model.claims import Claim

TURN_NS = 500_000_000
"""A cgroup above several claims that was read less than so long ago is not read again for the next of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatEdge:
    """``at_ns``: before the first of them was read, but for those below the claims."""

    at_ns: int
    stats: Mapping[str, Reading] = field(default_factory=dict)
    below: Below = field(default_factory=dict)


class BandwidthWatch(Watch):
    """One window."""

    def __init__(self, observer: Observer, counters: CgroupCounters, window: OpenWindow, first: StatEdge) -> None:
        self._observer, self._counters, self._window, self._first = observer, counters, window, first
        self._lives = Lives()
        self._base_ns: dict[str, int] = {}
        self._ended: dict[int, Ended] = {}
        self._read_ns: dict[str, int] = {}
        """When a cgroup above a claim was read last in turn."""
        self._used: Mapping[int, int] = {}
        self._asked_ns = 0
        self._below: Below = dict(first.below)
        """CPU time of all claims by the ledger, by ident, and when it was asked for."""
        own = {subject.claim.cgroup for subject in observer.subjects.values()}
        for cgroup, reading in first.stats.items():
            self._lives.start(cgroup, reading, 0 if cgroup in own and observer.ledger.observed else None)

    def claim_added(self, subject: Subject) -> None:
        """Begin an account of a claim, with what the ledger has counted of it by then."""
        readings = self._counters.read_all([subject.claim])
        self._below = {**self._below, **self._counters.read_below([subject.claim])}
        self._observer.ledger.split(self._observer.ledger.sampled())
        used = self._usage_ns(subject)
        if used is not None:
            self._base_ns[subject.name] = used
        for cgroup, reading in readings.items():
            # A claim's own account is begun anew: its cgroup may have been another claim's, or made anew.
            if cgroup == subject.claim.cgroup or cgroup not in self._lives.accounts:
                self._lives.start(cgroup, reading, used if cgroup == subject.claim.cgroup else None)

    def last_look(self, subject: Subject) -> None:
        """Read its counters once more."""
        self._observer.ledger.split(self._observer.ledger.sampled())
        self.cgroup_changed(subject, None)

    def claim_removed(self, subject: Subject, at_ns: int) -> None:
        """Keep its account: the next claim of its name, or in its cgroup, begins one of its own."""
        account = self._lives.accounts.get(subject.claim.cgroup)
        if account is not None:
            self._ended[subject.ident] = Ended(
                account=replace(account),
                base_ns=self._base_ns.get(subject.name, 0),
                from_ns=subject.watched_ns,
                to_ns=at_ns,
            )

    def cgroup_changed(self, subject: Subject, made_ns: int | None) -> None:
        """Read a claim's counters at all levels; ``made_ns``: when its cgroup was made, where that is news."""
        used = self._usage_ns(subject)
        for cgroup, reading in self._counters.read_all([subject.claim], current=()).items():
            own = cgroup == subject.claim.cgroup
            self._lives.read(cgroup, reading, used if own else None, made_ns if own else None)

    def again(self, subject: Subject) -> None:
        """Read a claim's counters at all levels, if it has run since: else they say what they said. Levels that it
        shares with others are read once for all whose turn it is.
        """
        cgroup, now_ns = subject.claim.cgroup, time.monotonic_ns()
        if now_ns - self._asked_ns >= TURN_NS:  # once for all whose turn it is
            self._used, self._asked_ns = self._usages_ns(), now_ns
        account = self._lives.accounts.get(cgroup)
        counted_ns = self._used.get(subject.ident)
        if account is not None and account.last is not None and account.ledger_ns == counted_ns is not None:
            return
        used = self._usage_ns(subject)
        for level in lineage(cgroup)[1:]:
            if now_ns - self._read_ns.get(level, 0) >= TURN_NS:
                self._lives.read(level, self._counters.read(level), None)
                self._read_ns[level] = now_ns
        self._lives.read(cgroup, self._counters.read(cgroup), used)

    def close(self, edge: Edge) -> None:
        """Take the last reading."""
        self._take(edge.of(StatEdge))

    def read(self, edge: Edge) -> BandwidthReading:
        """Return the window so far."""
        last = edge.of(StatEdge)
        if not self._window.closed:
            self._take(last)
        ledger = self._observer.ledger
        return BandwidthReading(
            first_at_ns=self._first.at_ns,
            last_at_ns=last.at_ns,
            accounts={cgroup: replace(account) for cgroup, account in self._lives.accounts.items()},
            base_ns=dict(self._base_ns),
            ended=dict(self._ended),
            below=(self._below, last.below),
            silent=ledger.online() - ledger.sampled(),
        )

    def _usage_ns(self, subject: Subject) -> int | None:
        """Return its CPU time by the ledger; ``None``: nothing is loaded that counts it."""
        return self._window.watch(SwitchWatch).usage_of_ns(subject) if self._observer.ledger.observed else None

    def _usages_ns(self) -> Mapping[int, int]:
        """Return by ident what :meth:`_usage_ns` says of each, where it is known."""
        return self._window.watch(SwitchWatch).usage_ns() if self._observer.ledger.observed else {}

    def _take(self, edge: StatEdge) -> None:
        """Let what was read at an edge be the last reading of every cgroup that exists."""
        own = {subject.claim.cgroup: subject for subject in self._observer.subjects.values()}
        used = self._usages_ns()
        for cgroup, reading in edge.stats.items():
            self._lives.read(cgroup, reading, used.get(own[cgroup].ident) if cgroup in own else None)


class Bandwidth(Witness):
    """CPU time and throttling by the kernel's own counts."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._counters: CgroupCounters | None = None

    @property
    def counters(self) -> CgroupCounters:
        """Reads them."""
        if self._counters is None:
            self._counters = CgroupCounters(self._observer.hierarchy, self._observer.kept_counters)
        return self._counters

    def begin(self, window: OpenWindow, first: Edge) -> BandwidthWatch:
        """Begin with a window."""
        return BandwidthWatch(self._observer, self.counters, window, first.of(StatEdge))

    def edge(self, turn: bool) -> Generator[None, None, StatEdge]:
        """Read every level of every claim."""
        del turn
        below = self.counters.read_below(self._claims())
        at_ns = time.monotonic_ns()
        stats = self.counters.read_all(self._claims(), self._ran())
        yield
        return StatEdge(at_ns=at_ns, stats=stats, below=below)

    def _ran(self) -> frozenset[str] | None:
        """Return the cgroups in or below which something ran in this window, by the ledger; ``None``: not known.

        Listing the processes of all, and asking each for its clock, costs a third of reading the counters. What begins
        to run in these milliseconds is charged up to one tick late, which two witnesses may differ by in any case. On a
        CPU that is not interrupted ticks are rare, and what runs there for the whole window is not counted by its end.
        """
        observer, ledger = self._observer, self._observer.ledger
        if observer.window is None or ledger.online() - ledger.sampled():
            return None
        subjects = list(observer.subjects.values())
        ran = ledger.rows.all_ns((one.slot for one in subjects), ledger.window)
        return frozenset(level for one in subjects if ran[one.slot] for level in lineage(one.claim.cgroup))

    def forget_old(self) -> None:
        """Close the files of cgroups that nothing watches any more."""
        self.counters.keep(self._claims())

    def _claims(self) -> list[Claim]:
        return [subject.claim for subject in self._observer.subjects.values()]
