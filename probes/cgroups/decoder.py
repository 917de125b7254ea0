"""From control files and counters that were read to their parts of the evidence: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from probes.cgroups.bandwidth import MAX_BELOW, Below, bandwidth_use, lineage, throttled_below, unread_use
from probes.cgroups.lives import Account, Ended
from probes.readings import Frame, Part, Reading, Readings, Watched
from probes.switches.decoder import SwitchReading
from toolkit.host.cgroup_pressure import Pressure
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import CgroupFiles, CpuPressure, EndedUse
from toolkit.model.evidence.cgroups import (
    BandwidthCoverage,
    BandwidthEvidence,
    FileCoverage,
    FileEvidence,
    PressureEvidence,
)

MAX_CLAIMS_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading(Reading):
    """The control files of one window.

    :param before: by cgroup, when it was read first.
    :param during: what differed from the reading before, times since the window opened.
    :param gap_ns: the longest time between two readings of all.
    :param unwatched_ns: the longest time in which they were neither read nor known to be unwritten.
    :param dropped: readings that differed and were not kept.
    :param never_at_rest: cgroups that were written to each time while they were read, with how often that was so.
    """

    before: Mapping[str, CgroupFiles] = field(default_factory=dict)
    after: tuple[CgroupFiles, ...] = ()
    during: tuple[CgroupFiles, ...] = ()
    readings: int = 0
    gap_ns: int = 0
    unwatched_ns: int = 0
    dropped: int = 0
    never_at_rest: Mapping[str, int] = field(default_factory=dict)

    def decode(self, readings: Readings) -> Part:
        """Return the files, and how closely they were followed."""
        belongs = _belonging(readings.frame)
        return Part(
            evidence=FileEvidence(
                files_before=tuple(found for cgroup, found in self.before.items() if belongs(cgroup)),
                files_after=tuple(found for found in self.after if belongs(found.cgroup)),
                files_during=tuple(found for found in self.during if belongs(found.cgroup)),
            ),
            coverage=FileCoverage(
                file_readings=self.readings, file_gap_ns=self.gap_ns, file_unwatched_ns=self.unwatched_ns
            ),
            spots=tuple(self._spots(readings.frame)),
        )

    def _spots(self, frame: Frame) -> Iterator[BlindSpot]:
        if self.dropped:
            text = f"{self.dropped} changes of control files were not kept: too many"
            yield BlindSpot(text=text, witnesses=(Witness.FILES,))
        for cgroup, times in self.never_at_rest.items():
            text = f"control files of {cgroup} never stood still while they were read ({times} times)"
            about = [subject.name for subject in frame.claims.values() if cgroup in lineage(subject.claim.cgroup)]
            # Of a cgroup above many claims it is the node's.
            for claim in about if len(about) <= MAX_CLAIMS_NAMED else [None]:
                yield BlindSpot(text=text, witnesses=(Witness.FILES,), claim=claim)


def _belonging(frame: Frame) -> Callable[[str], bool]:
    """Return what says whether a cgroup's files belong here: where claims are alone, only those at and above them."""
    if not frame.strangers:
        own = {cgroup for subject in frame.subjects for cgroup in lineage(subject.claim.cgroup)}
        return own.__contains__
    others = {other.claim.cgroup for other in frame.others}
    return lambda cgroup: cgroup not in others


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthReading(Reading):
    """CPU time and throttling of one window by the kernel's counts.

    :param first_at_ns, last_at_ns: CLOCK_MONOTONIC before the first cgroup's CPU time was read, at both ends; the
        ledger's own moment comes later.
    :param accounts: by cgroup.
    :param base_ns: of claims added while the window was open: what they had used by the ledger when their cgroup's own
        count was first read.
    :param silent: CPUs that nothing interrupts to count what runs there.
    """

    first_at_ns: int
    last_at_ns: int
    accounts: Mapping[str, Account] = field(default_factory=dict)
    base_ns: Mapping[str, int] = field(default_factory=dict)
    silent: CpuSet = EMPTY
    ended: Mapping[int, Ended] = field(default_factory=dict)
    """By ident, of the claims that were watched in this window and are no longer."""
    below: tuple[Below, Below] = field(default_factory=lambda: ({}, {}))
    """What is below the claims at both ends."""

    def decode(self, readings: Readings) -> Part:
        """Return the use of every claim at all levels, beside the ledger's."""
        frame, limits = readings.frame, readings.of(FileReading).before
        switches = next((one for one in readings.all if isinstance(one, SwitchReading)), None)
        used = {} if switches is None else switches.usage_ns(frame)
        rows = [
            row
            for subject in frame.claims.values()
            for row in bandwidth_use(subject.claim, self.accounts, limits, self._by_ledger(frame, subject, used))
        ]
        skew_ns = frame.first.at_ns + frame.first.turn_ns - self.first_at_ns
        skew_ns += frame.last.at_ns + frame.last.turn_ns - self.last_at_ns
        return Part(
            evidence=BandwidthEvidence(
                bandwidth=tuple(rows),
                ended_use=tuple(self._ended_use(frame, limits, used)),
                throttled_below=tuple(row for name in frame.claims for row in throttled_below(name, *self.below)),
            ),
            coverage=BandwidthCoverage(witness_skew_ns=skew_ns),
            spots=tuple(self._spots(frame, used)),
        )

    def _spots(self, frame: Frame, used: Mapping[int, int]) -> Iterator[BlindSpot]:
        """Yield the claims below which too much is, and those of which no ledger says what a life before used."""
        for life in frame.earlier:
            if life.ident not in used:
                text = f"{life.name} began anew: what its life before used at last was not read"
                yield BlindSpot(text=text, witnesses=(Witness.BANDWIDTH,), claim=life.name)
        for name in frame.claims:
            if any(name in below and below[name] is None for below in self.below):
                text = f"{name} has more than {MAX_BELOW} cgroups below it: how these are throttled was not read"
                yield BlindSpot(text=text, witnesses=(Witness.BANDWIDTH,), claim=name)

    def _ended_use(
        self, frame: Frame, limits: Mapping[str, CgroupFiles], used: Mapping[int, int]
    ) -> Iterator[EndedUse]:
        """Yield what the lives used of claims that began anew under their name since."""
        for life in frame.earlier:
            ended = self.ended.get(life.ident)
            if ended is None or life.ident not in used or (ended.account.base is None and not used[life.ident]):
                continue  # it was gone before the window opened, and whatever follows the node has learnt it since
            claim, ledger_ns = life.claim, used[life.ident] - ended.base_ns
            rows = bandwidth_use(claim, {**self.accounts, claim.cgroup: ended.account}, limits, ledger_ns)
            if not rows or rows[0].level or rows[0].window_ns <= 0:
                rows = [unread_use(claim, limits.get(claim.cgroup), ledger_ns), *(row for row in rows if row.level)]
            yield EndedUse(
                claim=claim.name,
                from_ns=max(0, ended.from_ns - frame.start_ns),
                to_ns=ended.to_ns - frame.start_ns,
                levels=tuple(rows),
            )

    def _by_ledger(self, frame: Frame, subject: Watched, used: Mapping[int, int]) -> int | None:
        """Return a claim's CPU time since its cgroup's own count was first read; ``None`` where that is not known.

        While the window is open nothing interrupts a nohz_full CPU to count what runs there.
        """
        if subject.ident not in used or (not frame.closed and self.silent & subject.cpus):
            return None
        return used[subject.ident] - self.base_ns.get(subject.name, 0)


Pressures = Mapping[str, Pressure | str]
"""By cgroup; a string says why there is nothing to read."""
OPEN = "it is read when the window ends"
ENDED = "the claim, or its cgroup, ended before the window did"
ANEW = "the cgroup is not the one that it was when it was read first"


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureReading(Reading):
    """``cpu.pressure`` of the claims' cgroups at both ends of a window."""

    first: Pressures = field(default_factory=dict)
    last: Pressures = field(default_factory=dict)

    def decode(self, readings: Readings) -> Part:
        """Return how long tasks of each claim waited by it."""
        rows = (self._row(subject, readings.frame) for subject in readings.frame.claims.values())
        return Part(evidence=PressureEvidence(pressure=tuple(rows)))

    def _row(self, subject: Watched, frame: Frame) -> CpuPressure:
        cgroup = subject.claim.cgroup
        missing = ENDED if frame.closed else OPEN
        first, last = self.first.get(cgroup, missing), self.last.get(cgroup, missing)
        for one in (first, last):
            if isinstance(one, str):
                return CpuPressure(claim=subject.name, unread=one)
        assert isinstance(first, Pressure)
        assert isinstance(last, Pressure)
        if first.inode != last.inode or last.some_us < first.some_us:
            return CpuPressure(claim=subject.name, unread=ANEW)
        fulls = first.full_us, last.full_us
        ends = ((frame.first, first), (frame.last, last))
        return CpuPressure(
            claim=subject.name,
            window_ns=last.at_ns - first.at_ns,
            some_us=last.some_us - first.some_us,
            full_us=None if fulls[0] is None or fulls[1] is None else max(0, fulls[1] - fulls[0]),
            skew_ns=sum(max(0, moment.at_ns + moment.turn_ns - one.at_ns) for moment, one in ends),
        )
