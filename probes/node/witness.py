"""The node at both ends of a window: its counters, its threads, and what we cost it."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from probes.node.decoder import OwnEdge, OwnReading, SystemEdge, SystemReading, ThreadReading
from probes.node.system import read_run_delay, read_system
from probes.node.untraced import Untraced, read_again, read_counts, untraced
from probes.readings import Moment
from probes.windows import Windows
from probes.witness import OpenWindow, Watch, Witness
from toolkit.host import cgroupfs


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEdge:
    """What the kernel says of threads.

    :param delays: claim -> thread -> time that it waited (ns).
    :param switches: thread -> how often it was switched out, before and after the kernel's total was read.
    :param members: the threads of all claims.
    """

    delays: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    switches: tuple[dict[int, int], dict[int, int]] = ({}, {})
    members: frozenset[int] = frozenset()


class ThreadWatch(Watch[ThreadEdge]):
    """One window."""

    def __init__(self, windows: Windows, first: ThreadEdge) -> None:
        self._windows, self._first = windows, first
        self._hidden: Untraced | None = None

    def close(self, edge: ThreadEdge, moment: Moment) -> None:
        """Look at the threads that the ledger never saw as soon as the window has closed: they may be gone later."""
        del moment
        self._hidden = self._untraced(edge)

    def read(self, edge: ThreadEdge, moment: Moment) -> ThreadReading:
        """Return the window so far."""
        del moment
        hidden = self._hidden or self._untraced(edge)
        return ThreadReading(first=self._first.delays, last=edge.delays, untraced=hidden)

    def _untraced(self, edge: ThreadEdge) -> Untraced:
        first = self._first
        return untraced(first.switches, edge.switches, first.members | edge.members, self._windows.root)


class Threads(Witness[ThreadEdge]):
    """How long claims' threads waited; threads that the kernel hides from its tracepoints."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    def begin(self, window: OpenWindow, first: ThreadEdge) -> ThreadWatch:
        """Begin with a window."""
        del window
        return ThreadWatch(self._windows, first)

    def edge(self, turn: bool) -> Generator[None, None, ThreadEdge]:
        """Read every thread's counters on both sides of the kernel's total.

        What moved in between is how far the sum may be off. At the end only those that the ledger never saw: nobody
        else is looked up there. One that it saw first in between is not hidden: what it did is judged.
        """
        windows, root, ledger = self._windows, self._windows.root, self._windows.ledger
        claims = [subject.claim for subject in windows.subjects.values()]
        members = {claim.name: cgroupfs.tids(windows.hierarchy, claim.cgroup) for claim in claims}
        delays = {name: read_run_delay(tids, root) for name, tids in members.items()}
        # A thread of a claim is never excused, so nobody asks for its switches: on a full node they are most threads.
        claimed = frozenset(tid for tids in members.values() for tid in tids)
        counts = read_counts(root, lambda tid: tid not in claimed and not ledger.seen(tid)) if turn else {}
        yield
        again = {tid: count for tid, count in read_again(root, counts).items() if not ledger.seen(tid)}
        return ThreadEdge(delays=delays, switches=(counts, again), members=claimed)


class SystemWatch(Watch[SystemEdge]):
    """One window."""

    def __init__(self, first: SystemEdge) -> None:
        self._first = first

    def read(self, edge: SystemEdge, moment: Moment) -> SystemReading:
        """Return both ends."""
        del moment
        return SystemReading(first=self._first, last=edge)


class System(Witness[SystemEdge]):
    """The kernel's own counters: next to the ledger's moment, on both sides."""

    def __init__(self, windows: Windows) -> None:
        self._root = windows.root

    def begin(self, window: OpenWindow, first: SystemEdge) -> SystemWatch:
        """Begin with a window."""
        del window
        return SystemWatch(first)

    def edge(self, turn: bool) -> Generator[None, None, SystemEdge]:
        """Read ``/proc/stat`` twice."""
        del turn
        before = read_system(self._root)
        yield
        return SystemEdge(before=before, after=read_system(self._root))


class OwnWatch(Watch[OwnEdge]):
    """One window."""

    def __init__(self, first: OwnEdge) -> None:
        self._first = first

    def read(self, edge: OwnEdge, moment: Moment) -> OwnReading:
        """Return both ends."""
        del moment
        return OwnReading(first=self._first, last=edge)


class OwnCost(Witness[OwnEdge]):
    """What we cost, and what our programs missed."""

    def __init__(self, windows: Windows) -> None:
        self._ledger = windows.ledger

    def begin(self, window: OpenWindow, first: OwnEdge) -> OwnWatch:
        """Begin with a window."""
        del window
        return OwnWatch(first)

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
