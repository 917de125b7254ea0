"""The mask of every thread of a claim, again and again: the ledger's second witness.

Each is read from ``/proc/<tid>/status``, or all by the kernel's list of tasks (``listed.py``): see ``scan_method.py``.

A thread may be allowed a CPU for long before it runs there; only its mask shows it. Distinct masks are kept, not
readings. What lies between two readings is not known, so the longest time that a thread of a claim went unread is kept
(:class:`~toolkit.model.blind_spots.ScanGap`), and what is the most that it may be.

A reading is dropped when the claim's mask was being changed meanwhile, or when the thread was not (any more, or not yet
for long enough) a member of the cgroup: it says nothing about the claim.

Source: proc(5) (Cpus_allowed_list, Mems_allowed_list); docs/facts.md K10, K12.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from probes.clocks import Clock
from probes.masks.iterator import TaskIterator
from probes.masks.joining import Joining, MayComplete
from probes.masks.listed import GRACE_S, Listed, lists_of_strays
from probes.masks.passes import Terms
from probes.masks.rows import Rows
from probes.masks.sample import Sample
from probes.masks.scan_method import ScanMethod
from probes.masks.strays import Stray, Strays
from probes.masks.thread import Proc
from probes.subjects import Subject
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.model.blind_spots import ScanGap
from toolkit.model.evidence import ThreadMask

WAIT_NS = 500_000_000
"""How long our own wait for a CPU may make a gap: behind up to 40 runnable tasks of one 3 ms slice each it is 120 ms,
as for the positive control, and a scan sleeps four times (its pause, twice for the interpreter's lock, the grace of a
mask that looks too wide): 480 ms, rounded up."""
CPU_SHARE = 4
"""Two scans, the one that a thread was read in first and the one that it was read in last, each on half a CPU: so much
longer than the CPU time of one may they take."""


class ThreadMasks:
    """Distinct masks seen so far in the window.

    :param start_ns: when the window opened.
    :param patience_ns: how long the v1 cpuset of a task may follow its identity.
    :param moving: returns when the moves between cgroups began (CLOCK_MONOTONIC) that the kernel has not ended.
    :param may_complete: as of :class:`Joining`.
    :param method: how threads are read, and what earlier windows know of them; ``None``: from ``/proc`` alone.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        root: Path,
        start_ns: int = 0,
        pause_ns: int = 0,
        patience_ns: int = 0,
        moving: Callable[[], tuple[int, ...]] = tuple,
        method: ScanMethod | None = None,
        may_complete: MayComplete = lambda ident, tgid, tid: False,
    ) -> None:
        self._hierarchy, self._proc = hierarchy, Proc(root)
        self._joining = Joining(root, patience_ns, moving, may_complete)
        self._method = ScanMethod(Strays(hierarchy, root), Sample(hierarchy, root)) if method is None else method
        self._listed: Listed | None = None
        self.pause_ns = pause_ns
        """The longest pause between two scans in this window."""
        self._start_ns = start_ns
        self.rows = Rows()
        self._met = 0
        self._clocks: dict[int, Clock] = {}  # by ident: a name may come again
        self._ended: dict[int, int] = {}
        self.dearest_ns = 0
        """CPU time of the dearest scan."""
        self.scans = 0
        self.scanned_ns = 0
        """When the last whole scan ended (CLOCK_MONOTONIC)."""
        self.strays: dict[str, dict[tuple[str, int], Stray]] = {}
        """By claim: threads that its v1 cgroups do not hold, by controller and thread id."""

    def scan_all(self, subjects: Iterable[Subject], stop: Callable[[], bool]) -> int:
        """Read every thread of every claim once; returns the CPU time (ns) that it took.

        What is done once in a window is left out: it says nothing about the next scan.

        :raises OSError: the kernel refuses (no descriptors left, ...): what was not read counts as a gap.
        :raises UnreadableError: /proc is not there.
        """
        # CPU time: how long others keep us from running has its own allowance (WAIT_NS).
        began = time.thread_time_ns()
        subjects = tuple(subjects)
        try:
            tasks = self._method.next(lambda: sum(len(self._tids(subject)) for subject in subjects))
            if tasks is not None:
                self._scan_listed(tasks, subjects, stop)
            else:
                self._scan_each(subjects, stop)
        finally:
            took_ns = time.thread_time_ns() - began
            self.dearest_ns = max(self.dearest_ns, took_ns)
        if not stop():
            self.scans += 1
            self.scanned_ns = time.monotonic_ns()
        return took_ns - self._method.once_ns

    def _scan_each(self, subjects: Sequence[Subject], stop: Callable[[], bool]) -> None:
        self._met = 0
        for subject in subjects:
            if stop():
                return
            self.scan(subject, stop)
        self._method.threads = self._met

    def scan(self, subject: Subject, stop: Callable[[], bool]) -> None:
        """Read every thread of the claim once."""
        began_ns = time.monotonic_ns()
        epoch = subject.epoch
        whole = self._scan(subject, stop)
        if stop():
            return
        changed = subject.changing or subject.epoch != epoch
        if changed or whole:
            self._beat(subject, time.monotonic_ns(), began_ns, changed)

    def _beat(self, subject: Subject, now_ns: int, began_ns: int, changed: bool) -> None:
        if changed:
            # The time of a change is the transition's: nothing of it is kept, and nothing of it is missing.
            self._clock(subject).beat(now_ns, counts=False)
        else:
            self._clock(subject).beat(now_ns, since_ns=began_ns)

    def _scan(self, subject: Subject, stop: Callable[[], bool]) -> bool:
        tids = self._tids(subject)
        gone = 0
        self._met += len(tids)
        self._joining.keep(subject, tids)
        self._note(subject, self._method.strays.look(subject, tids))
        for tid in tids:
            if stop():
                return False
            # Taken before the mask is read: a change that began and ended since then shows in nothing else.
            epoch = subject.epoch
            if subject.changing:
                return False
            looked_ns, found = time.monotonic_ns(), self._proc.thread(tid)
            if found is not None and not Terms.of(subject).hold(found):
                # Being moved in: the list of threads is ahead of the masks until the kernel is done. A second look
                # after a grace period of the scheduler's own decides; a real escaper is still outside.
                time.sleep(GRACE_S)
                if not self._joining.is_complete(subject, tid, looked_ns):
                    continue
                found = self._proc.thread(tid)
            else:
                self._joining.inside(subject, tid)
            if found is None:
                gone += 1
                continue
            if subject.changing or subject.epoch != epoch:
                return False
            self.rows.keep(subject.name, found, time.monotonic_ns() - self._start_ns, epoch)
        if gone:
            self._proc.check()
        return True

    def _tids(self, subject: Subject) -> tuple[int, ...]:
        return cgroupfs.tids(self._hierarchy, subject.claim.cgroup)

    def _note(self, subject: Subject, strays: Iterable[Stray]) -> None:
        for stray in strays:
            self.strays.setdefault(subject.name, {})[stray.controller, stray.tid] = stray

    def _scan_listed(self, tasks: TaskIterator, subjects: Sequence[Subject], stop: Callable[[], bool]) -> None:
        """Let the kernel list all threads."""
        if self._listed is None:
            self._listed = Listed(tasks, self._method, self.rows, self._joining, self._start_ns, self._proc)
        began_ns = time.monotonic_ns()
        found = self._listed.scan(subjects, stop)
        if found is None:
            return
        whole, lists = found
        now_ns = time.monotonic_ns()
        for subject in subjects:
            self._beat(subject, now_ns, began_ns, subject.ident not in whole)
        for subject, tids in lists_of_strays(self._hierarchy, subjects, lists, self._method):
            self._note(subject, self._method.strays.look(subject, tids, every=1))

    def gaps(self, subjects: Iterable[Subject], end_ns: int) -> tuple[ScanGap, ...]:
        """Return how closely each claim was followed until ``end_ns`` (or until it was removed)."""
        allowed = self.pause_ns + CPU_SHARE * self.dearest_ns + WAIT_NS
        rows = []
        for subject in subjects:
            clock = self._clock(subject)
            longest, begun = clock.until(self._ended.get(subject.ident, end_ns))
            rows.append(
                ScanGap(
                    claim=subject.name,
                    scans=clock.beats,
                    longest_ns=longest,
                    at_ns=max(0, begun - self._start_ns),
                    allowed_ns=allowed,
                )
            )
        return tuple(rows)

    def end(self, subject: Subject, now_ns: int) -> None:
        """Note that a claim is not watched any more."""
        self._method.strays.forget(subject)
        self._ended[subject.ident] = now_ns

    def _clock(self, subject: Subject) -> Clock:
        return self._clocks.setdefault(subject.ident, Clock(max(self._start_ns, subject.watched_ns)))

    def values(self) -> tuple[ThreadMask, ...]:
        """Return what was seen."""
        return self.rows.values()

    @property
    def doubts(self) -> dict[str, dict[int, str]]:
        """By claim and thread: where the kernel's list of tasks and ``/proc`` disagree."""
        return {} if self._listed is None else self._listed.doubts
