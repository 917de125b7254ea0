"""From what was read of the switch ledger to its part of the evidence: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.readings import Frame, Part, Reading, Readings
from probes.switches import delays, tally
from probes.switches.nesting import with_nested
from probes.switches.owners import classify
from probes.switches.records import CpuState, Row
from probes.switches.spreads import HORIZON
from probes.switches.timeline import KEPT_NS
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Delay, Intruder, TimelineBins, UsageBin
from toolkit.model.evidence.switches import SwitchCoverage, SwitchEvidence
from toolkit.model.nesting import nested


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchEdge:
    """Every possible CPU's own counters, and how often user space could not write a membership down.

    :param lost_before, full_before: :attr:`lost` and :attr:`full` as they were before the ledger's moment.
    """

    states: tuple[CpuState, ...] = ()
    members_lost: int = 0
    lost_before: int = 0
    full_before: int = 0

    @property
    def lost(self) -> int:
        """Events that no ring had room for, since the programs were loaded."""
        return sum(state.lost_events for state in self.states)

    @property
    def full(self) -> int:
        """Entries that no map had room for, since the programs were loaded."""
        return sum(state.map_full for state in self.states) + self.members_lost


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchReading(Reading):
    """The ledger of one window.

    :param rows: by ident: a claim's counters, one row for each CPU.
    :param cuts: by ident and CPU: how often a task came or went while it ran there.
    :param joinings: by ident, process, and when it joined: what it ran outside before it had joined the v1 cpuset, too.
    :param cgroups: paths of the intruders' cgroups, by id. :param gone: those of pods that were deleted by now.
    :param slot_gap: the longest time between two readings of the slots of CPU time, and when it began (ns).
    :param waits, culprits: long waits by ident and CPU, and what had the CPU meanwhile.
    :param timeline_bins: what claims ran and waited for in short bins, where these are kept.
    :param timeline_gap: as ``slot_gap``, of those.
    :param dropped: intervals and moves that were not kept.
    :param observer_pid: whose tasks are the toolkit's.
    :param blind_spots: what cannot be seen on this kernel.
    """

    first: SwitchEdge
    last: SwitchEdge
    rows: Mapping[int, list[Row]] = field(default_factory=dict)
    cuts: Mapping[tuple[int, int], int] = field(default_factory=dict)
    joinings: Mapping[tuple[int, int, int], tally.Joined] = field(default_factory=dict)
    offences: tally.Offences = field(default_factory=dict)
    intruders: tally.Intruders = field(default_factory=dict)
    cgroups: Mapping[int, str] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()
    waits: delays.Waits = field(default_factory=dict)
    culprits: delays.Culprits = field(default_factory=dict)
    bins: tuple[UsageBin, ...] = ()
    slot_gap: tuple[int, int] = (0, 0)
    timeline_bins: tuple[TimelineBins, ...] = ()
    timeline_gap: tuple[int, int] = (0, 0)
    dropped: int = 0
    observer_pid: int = 0
    blind_spots: tuple[str, ...] = ()

    def usage_ns(self, frame: Frame) -> dict[int, int]:
        """Return every claim's CPU time in the window by ident, nested claims included."""
        claims = (*frame.subjects, *frame.others)
        own = {one.ident: sum(row.ns for row in self.rows.get(one.ident, ())) for one in claims}
        return with_nested(own, nested((one.ident, one.claim.cgroup) for one in claims))

    def decode(self, readings: Readings) -> Part:
        """Return what ran where for how long, and how complete that is."""
        frame = readings.frame
        use, waited, cuts = [], list[Delay](), dict[int, dict[int, int]]()
        for (ident, cpu), count in self.cuts.items():
            cuts.setdefault(ident, {})[cpu] = count
        for subject in frame.subjects:
            rows = self.rows.get(subject.ident, [])
            use += tally.cpu_use(subject.name, rows, frame.sampled, cuts.get(subject.ident, {}))
            waited += delays.delays(subject.name, subject.ident, rows, self.waits, frame.start_ns)
        names = {ident: name for ident, name in frame.names.items() if frame.is_about(name)}
        first, last = self.first.states, self.last.states
        standstill = {cpu: last[cpu].standstill_ns - first[cpu].standstill_ns for cpu in frame.sampled}
        return Part(
            evidence=SwitchEvidence(
                cpu_use=tuple(use),
                offenders=tally.offenders(self.offences, names, frame.start_ns),
                joinings=tuple(tally.joinings(self.joinings, names, frame.start_ns)),
                intruders=self._intruders(frame) if frame.strangers else (),
                usage_bins=tuple(row for row in self.bins if frame.is_about(row.claim)),
                delays=tuple(waited),
                culprits=delays.culprits(self.culprits, names, frame.names, self.cgroups, self.observer_pid),
                timeline_bins=tuple(row for row in self.timeline_bins if frame.is_about(row.claim)),
                standstill_by_cpu_ns=standstill or None,
            ),
            coverage=self._coverage(frame),
            spots=(
                *(BlindSpot(text=text) for text in self.blind_spots),
                *_unsampled(frame.last.online - frame.sampled),
                *self._slots(frame),
                *self._bins(frame),
            ),
        )

    def _coverage(self, frame: Frame) -> SwitchCoverage:
        number = frame.number
        if frame.closed:
            counts = {cpu: one.closed_judged for cpu, one in enumerate(self.last.states) if one.closed_window == number}
            # Nothing can say to a CPU that went offline that the window ends.
            gone = (
                CpuSet.of(cpu for cpu, one in enumerate(self.last.states) if one.window == number) - frame.last.online
            )
            counts |= {cpu: self.last.states[cpu].judged for cpu in gone}
        else:
            counts = {cpu: one.judged for cpu, one in enumerate(self.last.states) if one.window == number}
        return SwitchCoverage(
            switches_judged=sum(counts.values()),
            # From before the first moment to after the last: what is lost while an edge is read may be of either
            # window, and is a doubt of both.
            lost_events=self.last.lost - self.first.lost_before,
            map_full=self.last.full - self.first.full_before + self.dropped,
            cpus_seen=CpuSet.of(counts),
            cpus_online=frame.last.online,
            cpus_unsampled=frame.last.online - frame.sampled,
            sampler_hz=frame.options.sampler_hz,
            window_skew_ns=frame.last.turn_ns,
        )

    def _intruders(self, frame: Frame) -> tuple[Intruder, ...]:
        rows = [
            tally.intruder(
                key,
                sums,
                classify(sums, self.observer_pid, key),
                self.cgroups.get(key.cgroup, ""),
                frame.start_ns,
                frame.names.get(key.origin or sums.ident, ""),
                gone=key.cgroup in self.gone,
            )
            for key, sums in self.intruders.items()
            if sums.ns or sums.switches  # one that was found in its v1 cpuset and has not run since
        ]
        return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.cpu, row.tid)))

    def _bins(self, frame: Frame) -> list[BlindSpot]:
        longest_ns, from_ns = self.timeline_gap
        return [_unbinned(longest_ns, max(0, from_ns - frame.start_ns))] if longest_ns > KEPT_NS else []

    def _slots(self, frame: Frame) -> list[BlindSpot]:
        longest_ns, from_ns = self.slot_gap
        if longest_ns < (HORIZON - 1) * frame.options.bin_ms * 1_000_000:
            return []
        at_ns = max(0, from_ns - frame.start_ns)
        return [
            BlindSpot(
                text=f"the observer stood still for {longest_ns / 1e9:.2f} s (from {at_ns / 1e9:.2f} s on): the kernel "
                "counted on and kept its events, but how CPU time was spread in that time is not known",
                witnesses=(Witness.SLOTS,),
                start_at_ns=at_ns,
                end_at_ns=at_ns + longest_ns,
            )
        ]


def _unbinned(longest_ns: int, from_ns: int) -> BlindSpot:
    # No rule asks for the bins: they show when, and the sums say how much.
    return BlindSpot(
        text=f"the observer stood still for {longest_ns / 1e9:.2f} s (from {from_ns / 1e9:.2f} s on): the timeline "
        "has a hole there"
    )


def _unsampled(cpus: CpuSet) -> list[BlindSpot]:
    # Nothing is missing from the switch ledger: the end of the window cuts the interval of whatever runs there. That
    # a budget for noise needs the sampler is the rule's own matter: it knows these CPUs by their number.
    text = f"CPUs {cpus} carry no sampler: a task that never switches there is seen when the window ends"
    return [BlindSpot(text=text, cpus=cpus)] if cpus else []
