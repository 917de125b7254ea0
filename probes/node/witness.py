"""The node at both ends of a window: its counters, its threads, and what we cost it."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from probes.node.decoder import OwnEdge, OwnReading, SystemEdge, SystemReading, ThreadReading
from probes.node.system import read_system
from probes.node.untraced import Untraced, read_again, read_counts, untraced
from probes.node.waits import Inside, Waits
from probes.observer import Observer
from probes.subjects import Subject
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.host import cgroupfs


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEdge:
    """What the kernel says of threads.

    :param delays: claim -> thread -> time that it waited (ns).
    :param switches: thread -> how often it was switched out, before and after the kernel's total was read.
    :param members: the processes of all claims, and the threads of claims whose processes are not whole.
    """

    delays: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    switches: tuple[dict[int, int], dict[int, int]] = ({}, {})
    members: frozenset[int] = frozenset()


class ThreadWatch(Watch):
    """One window."""

    def __init__(self, observer: Observer, first: ThreadEdge) -> None:
        self._observer, self._first = observer, first
        self._hidden: Untraced | None = None

    def close(self, edge: Edge) -> None:
        """Look at the threads that the ledger never saw as soon as the window has closed: they may be gone later."""
        self._hidden = self._untraced(edge.of(ThreadEdge))

    def read(self, edge: Edge) -> ThreadReading:
        """Return the window so far."""
        last = edge.of(ThreadEdge)
        hidden = self._hidden or self._untraced(last)
        return ThreadReading(first=self._first.delays, last=last.delays, untraced=hidden)

    def _untraced(self, edge: ThreadEdge) -> Untraced:
        first = self._first
        return untraced(first.switches, edge.switches, first.members | edge.members, self._observer.root)


class Threads(Witness):
    """How long claims' threads waited; threads that the kernel hides from its tracepoints."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._waits: Waits | None = None

    def begin(self, window: OpenWindow, first: Edge) -> ThreadWatch:
        """Begin with a window."""
        del window
        return ThreadWatch(self._observer, first.of(ThreadEdge))

    def edge(self, turn: bool) -> Generator[None, None, ThreadEdge]:
        """Read every thread's counters on both sides of the kernel's total, and last how long claims' threads waited.

        What moved in between is how far the sum may be off. At the end only those that the ledger never saw: nothing
        else is looked up there. One that it saw first in between is not hidden: what it did is judged.
        """
        observer, root, ledger = self._observer, self._observer.root, self._observer.ledger
        subjects = list(observer.subjects.values())
        inside, claimed = self._members(subjects)
        # A thread of a claim is never excused, so nothing asks for its switches: on a full node they are most threads.
        whole = {pid for pids in inside.values() for pid in pids or ()}
        # Where nothing is loaded it saw none of them: then the question is not asked.
        asked = turn and ledger.observed
        counts = read_counts(root, lambda tid: tid not in claimed and not ledger.seen(tid), whole) if asked else {}
        yield
        again = {tid: count for tid, count in read_again(root, counts).items() if not ledger.seen(tid)}
        yield
        # The window that has ended has counted everything that ran in it.
        if self._waits is None:
            self._waits = Waits(root, observer.hierarchy, ledger)
        delays = self._waits.read(subjects, inside, ledger.window - turn)
        return ThreadEdge(delays=delays, switches=(counts, again), members=claimed | whole)

    def _members(self, subjects: Sequence[Subject]) -> tuple[Inside, frozenset[int]]:
        """Return by ident the processes that are in its cgroup with all threads, and the threads of the others."""
        hierarchy, kept = self._observer.hierarchy, self._observer.kept_counters
        inside = {one.ident: cgroupfs.whole_processes(hierarchy, one.claim.cgroup, kept) for one in subjects}
        others = (one for one in subjects if inside[one.ident] is None)
        return inside, frozenset(tid for one in others for tid in cgroupfs.tids(hierarchy, one.claim.cgroup))


class SystemWatch(Watch):
    """One window."""

    def __init__(self, first: SystemEdge) -> None:
        self._first = first

    def read(self, edge: Edge) -> SystemReading:
        """Return both ends."""
        return SystemReading(first=self._first, last=edge.of(SystemEdge))


class System(Witness):
    """The kernel's own counters: next to the ledger's moment, on both sides."""

    def __init__(self, observer: Observer) -> None:
        self._root = observer.root

    def begin(self, window: OpenWindow, first: Edge) -> SystemWatch:
        """Begin with a window."""
        del window
        return SystemWatch(first.of(SystemEdge))

    def edge(self, turn: bool) -> Generator[None, None, SystemEdge]:
        """Read ``/proc/stat`` twice."""
        del turn
        before = read_system(self._root)
        yield
        return SystemEdge(before=before, after=read_system(self._root))


class OwnWatch(Watch):
    """One window."""

    def __init__(self, first: OwnEdge) -> None:
        self._first = first

    def read(self, edge: Edge) -> OwnReading:
        """Return both ends."""
        return OwnReading(first=self._first, last=edge.of(OwnEdge))


class OwnCost(Witness):
    """What we cost, and what our programs missed."""

    def __init__(self, observer: Observer) -> None:
        self._ledger = observer.ledger

    def begin(self, window: OpenWindow, first: Edge) -> OwnWatch:
        """Begin with a window."""
        del window
        return OwnWatch(first.of(OwnEdge))

    def edge(self, turn: bool) -> Generator[None, None, OwnEdge]:
        """Ask for the time of the process and of every program."""
        del turn
        ledger = self._ledger
        missed_before = ledger.missed_runs()
        yield
        return OwnEdge(
            process_ns=time.process_time_ns(),
            bpf_ns=ledger.run_time_ns(),
            missed=ledger.missed_runs(),
            missed_before=missed_before,
        )
