"""One judged window: what was read when it opened, what happened meanwhile, what was read when it closed.

Longer than 300 lines: one object that owns what a window has gathered, and the order in which its ends are read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from probes.actions.reader import Actions
from probes.cgroups.bandwidth import lineage, read_stats
from probes.cgroups.control_files import ControlFiles, empty
from probes.cgroups.lives import Lives, Reading
from probes.clocks import Clock
from probes.interrupts.reader import Interrupts
from probes.masks.threads import ThreadMasks
from probes.memory.pages import PageSampler
from probes.node.system import SystemCounters, read_run_delay, read_softirqs, read_system
from probes.node.untraced import Untraced, read_again, read_counts, untraced
from probes.state import State
from probes.subjects import Subject
from probes.switches import tally
from probes.switches.records import CpuState, Detail, IntruderKey, IntruderSums, Offence, OffenceKey, Piece, Row
from probes.switches.shares import Shares
from probes.switches.usage_slots import Bins
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, HotplugEvent, Transition

MAX_WAITING = 100_000
"""Intervals of one window that may wait for the kernel's word at a time."""


@dataclass(slots=True)
class Edge:
    """Everything read at one end of the window, the ledger's own moment in the middle."""

    at_ns: int
    stats: dict[str, Reading]
    files: dict[str, CgroupFiles]
    before: SystemCounters
    after: SystemCounters
    run_delay: dict[str, dict[int, int]]
    switches: tuple[dict[int, int], dict[int, int]]
    members: frozenset[int]
    process_ns: int
    bpf_ns: int
    missed: int
    states: list[CpuState]
    """Every possible CPU's own counters."""
    members_lost: int
    softirqs: tuple[dict[int, int], dict[int, int]]
    """The kernel's counts by CPU before and after the ledger's own moment; empty where nobody asks."""
    dropped: tuple[int, int]
    """Moves and affinity changes that were not told."""
    stats_at_ns: int = 0
    """Before the first cgroup's CPU time was read; the ledger's own moment comes later."""
    turn_ns: int = 0
    """From ``at_ns`` until the last CPU had been turned over."""
    online: CpuSet = field(default_factory=CpuSet)
    """CPUs that were online when it was turned over."""

    @property
    def lost(self) -> int:
        """Events that no ring had room for, since the programs were loaded."""
        return sum(state.lost_events for state in self.states)

    @property
    def full(self) -> int:
        """Entries that no map had room for, since the programs were loaded."""
        return sum(state.map_full for state in self.states) + self.members_lost


@dataclass(slots=True)
class Window:
    """Use :meth:`open`; all methods are called under the lock."""

    state: State
    number: int
    first: Edge
    started_at: str
    masks: ThreadMasks
    shares: Shares
    """What pieces add to the rows."""
    slots: Clock
    """Beats when the running usage slots are closed."""
    files: ControlFiles
    last: Edge | None = None
    offences: tally.Offences = field(default_factory=dict)
    intruders: tally.Intruders = field(default_factory=dict)
    waiting: list[Piece] = field(default_factory=list)
    """Intervals that cannot be cut yet."""
    forgotten: int = 0
    """Moves that had been forgotten when the window opened."""
    pieces_dropped: int = 0
    """Intervals that were not kept because too many waited."""
    bins: dict[str, Bins] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)
    removed: list[Subject] = field(default_factory=list)
    hotplug: list[HotplugEvent] = field(default_factory=list)
    hidden: Untraced | None = None
    """Threads that the kernel hid from the ledger, looked at as soon as the window had closed."""
    lives: Lives = field(default_factory=Lives)
    pages: PageSampler = field(default_factory=PageSampler)
    usage_base: dict[str, int] = field(default_factory=dict)
    """Of claims added while the window was open: what they had used when their cgroup's own count was first read."""
    counted_ns: int = 0
    """When a closed window's counting had ended: every event of it had been sent."""
    final: dict[int, list[Row]] = field(default_factory=dict)
    """Of a closed window: the ledger's rows, by ident. The next window but one takes their place in the kernel."""
    watched_last: list[Subject] = field(default_factory=list)
    """Of a closed window: the claims that were watched when it ended."""

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at which the window opened."""
        return self.first.at_ns

    @property
    def closed(self) -> bool:
        """Whether the window has ended."""
        return self.last is not None

    @classmethod
    def open(cls, state: State, edge: Edge | None = None) -> Window:
        """Open a window now, or at the edge at which the one before it has just been closed: nothing lies between."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        edge = read_edge(state) if edge is None else replace(edge, files=dict(edge.files))
        pause_ns = state.options.scan_ms * 1_000_000
        patience_ns = state.options.pending_ms * 1_000_000
        window = cls(
            state=state,
            number=state.ledger.window,
            first=edge,
            started_at=moment,
            masks=ThreadMasks(state.hierarchy, state.root, edge.at_ns, pause_ns, patience_ns),
            shares=Shares(state.published),
            forgotten=state.trails.forgotten,
            slots=Clock(edge.at_ns),
            files=ControlFiles(state.hierarchy, edge.files, edge.at_ns),
        )
        own = {subject.claim.cgroup for subject in state.subjects.values()}
        for cgroup, reading in edge.stats.items():
            window.lives.start(cgroup, reading, 0 if cgroup in own else None)
        return window

    def close(self) -> None:
        """Close the window now."""
        self.add_bins()
        self.last = read_edge(self.state)
        self.counted_ns = time.monotonic_ns()
        self.watched_last = list(self.state.subjects.values())
        ledger = self.state.ledger
        self.final = {subject.ident: ledger.rows(subject.slot, self.number) for subject in self.watched_last}
        self.hidden = self.untraced(self.last)
        self._take(self.last)
        self.files.end(self.last.at_ns)

    def untraced(self, edge: Edge) -> Untraced:
        """Return the threads that the ledger never saw until now."""
        first, state = self.first, self.state
        return untraced(first.switches, edge.switches, first.members | edge.members, state.root)

    def end(self) -> Edge:
        """Return the closing edge, or one read now where the window is still open."""
        if self.last is not None:
            return self.last
        edge = read_edge(self.state, turn=False)
        self._take(edge)
        return edge

    def _take(self, edge: Edge) -> None:
        """Let what was read at an edge be the last reading of every cgroup that is there."""
        own = {subject.claim.cgroup: subject for subject in self.state.subjects.values()}
        for cgroup, reading in edge.stats.items():
            self.lives.read(cgroup, reading, self.usage_ns(own[cgroup]) if cgroup in own else None)
        for files in edge.files.values():
            self.files.note(files)

    def read_counters(self, subject: Subject, made_ns: int | None) -> None:
        """Read a claim's counters at all levels; ``made_ns``: when its cgroup was made, where that is news."""
        if self.closed:
            return
        used = self.usage_ns(subject)
        for cgroup, reading in read_stats(self.state.hierarchy, [subject.claim], exact=False).items():
            own = cgroup == subject.claim.cgroup
            self.lives.read(cgroup, reading, used if own else None, made_ns if own else None)

    def last_look(self, subject: Subject) -> None:
        """Read a claim's counters and control files, because it ends."""
        if self.closed:
            return
        self.state.ledger.split(self.state.ledger.sampled())
        self.read_counters(subject, None)
        for files in read_claim_files(self.state, [subject.claim]).values():
            self.files.note(files)

    def files_at_end(self, edge: Edge) -> tuple[CgroupFiles, ...]:
        """Return the control files as last read of every cgroup that was watched, also of those that ended."""
        wanted = {level for subject in self.all_subjects() for level in lineage(subject.claim.cgroup)}
        found = []
        for cgroup in sorted(wanted):
            files = edge.files.get(cgroup)
            if files is None or empty(files):
                files = self.files.last(cgroup) or files
            if files is not None:
                found.append(files)
        return tuple(found)

    def rows(self, subject: Subject) -> list[Row]:
        """Return a claim's counters by CPU."""
        rows = self.final.get(subject.ident, subject.rows)
        if rows is None:
            rows = self.state.ledger.rows(subject.slot, self.number)
        return self.shares.added_to(subject.ident, rows)

    def all_subjects(self) -> list[Subject]:
        """Return every claim watched during the window, also those removed meanwhile."""
        return [*self.removed, *self.present()]

    def present(self) -> list[Subject]:
        """Return every claim that is watched now, or was when the window ended."""
        return self.watched_last if self.closed else list(self.state.subjects.values())

    def usage_ns(self, subject: Subject) -> int:
        """Return a claim's CPU time so far, nested claims included."""
        inside = subject.claim.cgroup.rstrip("/") + "/"
        return sum(
            row.ns
            for other in self.all_subjects()
            if other is subject or other.claim.cgroup.startswith(inside)
            for row in self.rows(other)
        )

    def usage_since_first_read(self, subject: Subject) -> int | None:
        """Return a claim's CPU time since its cgroup's own count was first read; ``None`` where that is not known.

        While the window is open nobody interrupts a nohz_full CPU to count what runs there.
        """
        silent = self.state.ledger.online() - self.state.ledger.sampled()
        if not self.closed and silent & subject.cpus:
            return None
        return self.usage_ns(subject) - self.usage_base.get(subject.name, 0)

    def collect(self) -> tuple[tally.Offences, tally.Intruders]:
        """Return this window's detail entries: those drained before, those in the maps now, and those of pieces."""
        offences, intruders = dict(self.offences), dict(self.intruders)
        ledger = self.state.ledger
        theirs = ((OffenceKey.decode(key), Offence.decode(value)) for key, value in ledger.offenders.items())
        tally.merge_offences(offences, ((k, v) for k, v in theirs if tally.in_window(k.epoch, self.number)))
        found = ((IntruderKey.decode(key), IntruderSums.decode(value)) for key, value in ledger.intruders.items())
        tally.merge_intruders(intruders, ((k, v) for k, v in found if tally.in_window(k.epoch, self.number)))
        tally.merge_offences(offences, self.shares.offences.items())
        tally.merge_intruders(intruders, self.shares.intruders.items())
        for offender, offence in offences.items():
            name = ledger.name(offender.tid, offender.life, offence.last_ns, offence.comm)
            offences[offender] = replace(offence, comm=name)
        for intruder, sums in intruders.items():
            name = ledger.name(intruder.tid, intruder.life, sums.last_ns, sums.comm)
            intruders[intruder] = replace(sums, comm=name)
        return offences, intruders

    def settle(self, pieces: list[Piece]) -> list[Detail]:
        """Cut the intervals whose word has come, or will not come any more; returns the times outside among them."""
        state, found, still = self.state, [], []
        for piece in [*self.waiting, *pieces]:
            stays = state.trails.cut(piece, state.ledger.heard_ns)
            if stays is None:
                still.append(piece)
            else:
                found += self.shares.add(piece, stays)
        self.pieces_dropped += max(0, len(still) - MAX_WAITING)
        self.waiting = still[:MAX_WAITING]
        return found

    def add_bins(self) -> None:
        """Close the running usage slot of every claim."""
        if self.closed:
            return
        self.state.ledger.split(self.state.ledger.sampled())
        moment = time.monotonic_ns()
        self.slots.beat(moment)
        now = moment - self.start_ns
        for subject in self.state.subjects.values():
            self.bins.setdefault(subject.name, Bins(subject.name)).add(now, self.usage_ns(subject))

    def claim_added(self, subject: Subject, since_ns: int) -> None:
        """Note that a claim is watched from now on."""
        readings = read_stats(self.state.hierarchy, [subject.claim])
        self.state.ledger.split(self.state.ledger.sampled())
        used = self.usage_base[subject.name] = self.usage_ns(subject)
        for cgroup, reading in readings.items():
            # A claim's own account is begun anew: its cgroup may have been another claim's, or made anew.
            if cgroup == subject.claim.cgroup or cgroup not in self.lives.accounts:
                self.lives.start(cgroup, reading, used if cgroup == subject.claim.cgroup else None)
        for cgroup, files in read_claim_files(self.state, [subject.claim]).items():
            self.first.files.setdefault(cgroup, files)
            self.files.note(files)
        self.bins[subject.name] = Bins(subject.name, since_ns - self.start_ns)
        self.changed(subject, "claim-added", since_ns, time.monotonic_ns(), None, subject.cpus, "toolkit")

    def claim_removed(self, subject: Subject, start_ns: int) -> None:
        """Keep what a claim did before its slot is used again."""
        if not self.closed:
            subject.rows = self.state.ledger.rows(subject.slot, self.number)
            self.removed.append(subject)
            self.masks.end(subject, start_ns)
        self.changed(subject, "claim-removed", start_ns, time.monotonic_ns(), subject.cpus, None, "toolkit")

    def changed(
        self,
        subject: Subject,
        what: str,
        start_ns: int,
        end_ns: int,
        before: CpuSet | None,
        after: CpuSet | None,
        cause: str,
    ) -> None:
        """Note a change of a claim."""
        judged = subject.claim.cpus is not None
        self.transitions.append(
            Transition(
                claim=subject.name,
                what=what,
                start_at_ns=start_ns - self.start_ns,
                end_at_ns=end_ns - self.start_ns,
                cpus_before=before if judged else None,
                cpus_after=after if judged else None,
                cause=cause,
            )
        )


def read_claim_files(state: State, claims: list[Claim]) -> dict[str, CgroupFiles]:
    """Read the control files of every claim's cgroup and its ancestors."""
    wanted = {level for claim in claims for level in lineage(claim.cgroup)}
    return {cgroup: cgroupfs.read_files(state.hierarchy, cgroup, time.monotonic_ns()) for cgroup in sorted(wanted)}


def read_edge(state: State, turn: bool = True) -> Edge:
    """Read everything at one end of a window, in the same order at both ends.

    :param turn: turn the ledger's window over; otherwise what is running is only counted up to now.
    """
    ledger, hierarchy, root = state.ledger, state.hierarchy, state.root
    claims = [subject.claim for subject in state.subjects.values()]
    files = read_claim_files(state, claims)
    members = {claim.name: cgroupfs.tids(hierarchy, claim.cgroup) for claim in claims}
    delays = {name: read_run_delay(tids, root) for name, tids in members.items()}
    if turn:
        ledger.prepare_window()
    # At the end only those that the ledger never saw: nobody else is looked up there.
    counts = read_counts(root, lambda tid: not ledger.seen(tid)) if turn else {}
    late: dict[int, int] = {}
    stats_at_ns = time.monotonic_ns()
    stats = read_stats(hierarchy, claims)
    counting = ledger.side(Interrupts).counts_softirqs
    soft_before = read_softirqs(root) if counting else {}
    before = read_system(root)
    now = time.monotonic_ns()
    if turn:
        ledger.new_window()
    else:
        ledger.split(ledger.sampled())
    turned = time.monotonic_ns()
    # What an open window has counted goes on: like the turn it lies between the kernel's two readings.
    live = None if turn else ledger.states()
    after = read_system(root)
    soft_after = read_softirqs(root) if counting else {}
    if turn:
        # Read on both sides of the kernel's total: what moved in between is how far the sum may be off.
        late = read_again(root, counts)
    return Edge(
        at_ns=now,
        stats=stats,
        files=files,
        before=before,
        after=after,
        run_delay=delays,
        switches=(counts, late),
        members=frozenset(tid for tids in members.values() for tid in tids),
        process_ns=time.process_time_ns(),
        bpf_ns=ledger.run_time_ns(),
        missed=ledger.missed_runs(),
        states=ledger.states() if live is None else live,
        members_lost=ledger.members_lost,
        softirqs=(soft_before, soft_after),
        dropped=ledger.side(Actions).dropped(),
        stats_at_ns=stats_at_ns,
        turn_ns=turned - now,
        online=ledger.online(),
    )
