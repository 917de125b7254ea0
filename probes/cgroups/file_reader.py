"""What a thread reads: control files and counters, and whether a claim's cgroup is the known one.

Control files: all of them once a second where that costs less than :data:`SHARE` of a CPU. On a node with hundreds of
claims it would be a thirtieth of one, so the sweep comes as often as the share allows, each :data:`LONGEST_S` at least,
but only while every write to these files is reported (:mod:`probes.writes`): a cgroup that was written to is then read
at once. Where a program reports them the sweep is through the files of sets alone: all others change by a write only.
What is changed without a write to it comes from above (a hotplug, a partition beside it), so the topmost and those
above several claims are read once a second, and where their sets differ all below are; a cgroup that was just made is
read once a second until all its directories are watched.

A cgroup's counters are read so that something is known of it when it is deleted; the longer ago, the more of its CPU
time only the ledger knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from probes.cgroups.bandwidth import lineage
from probes.cgroups.control_files import ControlFiles
from probes.cgroups.pace import Pace
from probes.cgroups.watched_tree import WatchedTree
from probes.observer import Observer
from probes.subjects import Subject
from probes.window import Window
from probes.witness import OpenWindow
from toolkit.model.blind_spots import Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles

PERIOD_S = 1.0
APART = 0.25
"""Of a period: so much later this thread wakes up by itself than what hears would wake it, and so much earlier than it
is due something is done when it was woken. Both look at one clock, but not at one moment."""
LOOK_S, IDLE_S = 0.1, PERIOD_S * (1 + APART)
"""Between two rounds: where something was written to, and at most where there is nothing to do. What hears looks in
each of its rounds whether there is (:meth:`probes.cgroups.files.Files.chores`), and ends the pause."""
SHARE, LONGEST_S = 0.001, 30.0
"""Of one CPU, and the longest time from one sweep to the next."""
COUNTERS_A_ROUND = 100
"""Claims whose counters are read in one round, with all levels above: dearer than control files, and less urgent. So
is the comparison of a cgroup's id where the kernel side follows the name."""
COUNTERS_SHARE, COUNTERS_LONGEST_S = 0.001, 10.0
"""Of one CPU, and the longest time between two such rounds: those of all claims are read at both ends of a window."""
OF_ALL = 2
"""A cgroup has twice as many control files as files of sets (8 and 4 on v2, 9 and 4 on v1)."""
FRESH_S = 8.0
"""So long a cgroup is new: ``SETUP_NS`` of :mod:`probes.writes.directories`, a look after that, and a reading after it.
"""


class FileReader:
    """The work of a ``Loop``: one that meets an error is a doubt of the windows that it falls in, and is done again.

    :param files_of: the control files of a window.
    :param forget: told which cgroups may be others now.
    :param written: returns the cgroups that were written to since it was asked last; ``None``: not all are known.
    :param period_s: seconds from one reading to the next, to ``LOOK_S``, where that costs little.
    :param misses_none: says whether ``written`` knows of every write in whatever way it is made: then a rare sweep is
        through sets alone.
    """

    WITNESSES = (Witness.FILES, Witness.BANDWIDTH)
    """What is missing where it fails; a cgroup's identity is compared with what was known before, however late."""

    def __init__(
        self,
        observer: Observer,
        files_of: Callable[[OpenWindow], ControlFiles],
        forget: Callable[[Iterable[str]], None] = lambda _cgroups: None,
        written: Callable[[], frozenset[str] | None] = lambda: None,
        period_s: float = PERIOD_S,
        *,
        misses_none: Callable[[], bool] = lambda: False,
    ) -> None:
        self._misses_none = misses_none
        self._observer, self._files_of, self._forget, self._written = observer, files_of, forget, written
        now_s = time.monotonic()
        self._sweep = Pace(now_s, period_s, SHARE, LONGEST_S)
        self._often = Pace(now_s, period_s, SHARE, period_s)
        """What costs little however many claims there are; all of it in one round, which wakes this thread once."""
        self._counters = Pace(now_s, period_s, COUNTERS_SHARE, COUNTERS_LONGEST_S)
        self._turn = 0
        self._tree = WatchedTree()
        self._subjects: Sequence[Subject] = ()
        self._ids: dict[int, int] = {}
        """The claims of the round before, and the cgroup of each by ident."""
        self._fresh: dict[int, float] = {}
        """Until when a claim's cgroup is new."""
        self._heard: tuple[int, frozenset[str]] = (0, frozenset())
        """Until when (CLOCK_MONOTONIC) all writes were heard in the round before, and whose files they were."""
        self._owed: set[str] = set()
        """Cgroups that were written to in rounds before this one, and not read since."""
        self._window: Window | None = None
        """The window of the round before."""
        self._read_ns: dict[str, int] = {}
        """When the cgroups were read that were owed in that window."""
        self.rests = False
        """Whether its pause may be ended, because there was nothing to do. May be asked by any thread."""
        self.beaten = False
        """Set by the hearing thread once a period: what is about to be due is done then. Without it, a little later."""
        self._apart_s = period_s * APART

    def round(self, stopped: Callable[[], bool]) -> float:
        """Look what is there; read what is due; return the pause (s) until the next round."""
        del stopped
        self.rests = False
        beaten, self.beaten = self.beaten, False
        observer = self._observer
        with observer.lock:
            observer.look()
            subjects = list(observer.subjects.values())
        # In this order: what was heard until then is among what was written.
        heard_ns, written = observer.ledger.heard_ns, self._written()
        # What writes one file often writes another: they are read in the next round.
        until_ns, before = self._heard
        self._heard = (0, frozenset()) if written is None else (heard_ns, written)
        self._owed |= before
        now_s = time.monotonic()
        with observer.lock:
            window = observer.window
            if window is None or window.closed:
                return LOOK_S
            files = self._files_of(window)
        self._know(subjects, now_s)
        self._begun(window, files, now_s)
        by_writes = written is not None and self._sweep.slow
        due_s = now_s + (self._apart_s if beaten else 0.0)
        if self._sweep.due(due_s, at_once=written is None):
            self._sweep_through(files, now_s, sets_only=by_writes and self._misses_none())
        often = self._often.due(due_s)
        if by_writes:
            self._read_some(files, subjects, often=often)
            if not window.closed:  # what was read is the next one's, which has not got it yet
                files.looked(until_ns if written else heard_ns)
        if often:
            self._often.done(now_s, 0.0)
            self._verify(window, subjects, now_s, counts=self._counters.due(due_s))
        if written or self._owed:
            return LOOK_S
        self.rests = True
        return self._idle_s(at_once=written is None)

    def _idle_s(self, *, at_once: bool) -> float:
        """Return the time until something is due by itself: what hears has said so a little before."""
        due_s = min(self._sweep.due_s(at_once=at_once), self._often.due_s()) + self._apart_s
        return max(LOOK_S, min(IDLE_S, due_s - time.monotonic()))

    def _know(self, subjects: Sequence[Subject], now_s: float) -> None:
        """Note which claims there are, and whose cgroup is new."""
        if subjects != self._subjects or [one.cgroup_id for one in subjects] != list(self._ids.values()):
            ids = {subject.ident: subject.cgroup_id for subject in subjects}
            new = [subject for subject in subjects if self._ids.get(subject.ident) != subject.cgroup_id]
            self._fresh |= {subject.ident: now_s + FRESH_S for subject in new}
            self._forget(level for subject in new for level in lineage(subject.claim.cgroup))
            self._tree = WatchedTree.of(subject.claim.cgroup for subject in subjects)
            self._subjects, self._ids = subjects, ids
        if self._fresh:
            ids = self._ids
            self._fresh = {ident: until for ident, until in self._fresh.items() if until > now_s and ident in ids}

    def _begun(self, window: Window, files: ControlFiles, now_s: float) -> None:
        """Owe a window that has just begun what was read for the one before after the edge between them had been read.

        A window turns over while others go on reading: the files at its edge are read early, the moment comes later.
        All of them were read there: where sweeps are rare the next one is due that much later.
        """
        if window is self._window:
            return
        if self._sweep.slow:
            self._sweep.last_s = now_s
        if self._read_ns:
            at_edge = {cgroup: files.last(cgroup) for cgroup in self._read_ns}
            self._owed |= {
                cgroup for cgroup, edge in at_edge.items() if edge is None or edge.at_ns <= self._read_ns[cgroup]
            }
        self._window, self._read_ns = window, {}

    def _paid(self) -> None:
        self._read_ns |= dict.fromkeys(self._owed, time.monotonic_ns())
        self._owed.clear()

    def _sweep_through(self, files: ControlFiles, now_s: float, *, sets_only: bool) -> None:
        began_s = time.thread_time()
        files.read(self._tree.cgroups, rare=self._sweep.slow, sets_only=sets_only)
        cost_s = time.thread_time() - began_s
        # Not before it: what could not be read is read again in the next round, not a period later.
        self._sweep.done(now_s, cost_s * OF_ALL if sets_only else cost_s)
        if not sets_only:
            self._paid()

    def _read_some(self, files: ControlFiles, subjects: Iterable[Subject], *, often: bool) -> None:
        """Read those that were written to, and once a second those above several claims and those that are new."""
        wanted = dict.fromkeys(self._owed.intersection(self._tree.cgroups)) if self._owed else {}
        if often:
            wanted |= dict.fromkeys(self._tree.above)
            new = (one for one in subjects if one.ident in self._fresh) if self._fresh else ()
            wanted |= dict.fromkeys(level for one in new for level in lineage(one.claim.cgroup))
        for cgroup in wanted:
            before = files.last(cgroup)
            files.look(cgroup)
            if before is not None and _sets(files.last(cgroup) or before) != _sets(before):
                for below in self._tree.below(cgroup):
                    files.look(below)
        self._paid()

    def _verify(self, window: Window, subjects: Sequence[Subject], now_s: float, *, counts: bool) -> None:
        """Compare cgroups with the known ones, in turn; the lock is held for one claim at a time.

        :param counts: also read counters.
        """
        observer, count = self._observer, len(subjects)
        with observer.lock:
            observer.verify_pods()
        turn: dict[int, Subject] = {}
        if counts and count:
            first, self._turn = self._turn, (self._turn + COUNTERS_A_ROUND) % count
            places = ((first + step) % count for step in range(min(count, COUNTERS_A_ROUND)))
            turn = {subjects[place].ident: subjects[place] for place in places}
        began_s = time.thread_time()
        looked_at = turn | {one.ident: one for one in subjects if not one.reported or one.ident in self._fresh}
        for ident, subject in looked_at.items():
            with observer.lock:
                if window.closed or observer.subjects.get(subject.name) is not subject:
                    continue
                observer.verify(subject)
                if ident in turn and not subject.gone:
                    window.again(subject)
        if counts:
            self._counters.done(now_s, time.thread_time() - began_s)


def _sets(files: CgroupFiles) -> tuple[CpuSet | None, ...]:
    return files.cpus, files.cpus_effective, files.mems, files.mems_effective
