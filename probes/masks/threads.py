"""The mask of every thread of a claim, again and again, from ``/proc/<tid>/status``: the ledger's second witness.

A thread may be allowed a CPU for long before it runs there; only its mask shows it. Distinct masks are kept, not
readings. What lies between two readings is not known, so the longest time that a thread of a claim went unread is kept
(:class:`~toolkit.model.blind_spots.ScanGap`), and what is the most that it may be.

A reading is dropped when the claim's mask was being changed meanwhile, or when the thread was not (any more, or not yet
for long enough) a member of the cgroup: it says nothing about the claim.

Source: proc(5) (Cpus_allowed_list, Mems_allowed_list); docs/facts.md K10, K12.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from probes.clocks import Clock
from probes.masks.joining import Joining
from probes.masks.status import Masks, Read, comm_of, parsed
from probes.masks.strays import Stray, Strays
from probes.subjects import Subject
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.kernel_file import read_record
from toolkit.model.blind_spots import ScanGap
from toolkit.model.evidence import ThreadMask

MAX_KEPT = 100_000
"""Distinct (thread, mask) pairs kept; a fork storm makes a new one for each child that was met."""
WAIT_NS = 500_000_000
"""How long our own wait for a CPU may make a gap: behind up to 40 runnable tasks of one 3 ms slice each it is 120 ms,
as for the positive control, and a scan sleeps four times (its pause, twice for the interpreter's lock, the grace of a
mask that looks too wide): 480 ms, rounded up."""
CPU_SHARE = 4
"""Two scans, the one that a thread was read in first and the one that it was read in last, each on half a CPU: so much
longer than the CPU time of one may they take."""

_POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
"""Source: include/uapi/linux/sched.h."""


def policy_of(tid: int) -> str:
    """Return a thread's scheduling policy by name; empty if it is gone, or the policy is none that is known."""
    try:
        # The flag that children get the default policy is no policy.
        return _POLICIES.get(os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK, "")
    except OSError:
        return ""


@dataclass(slots=True)
class _Row:
    """How often a thread was seen with some masks."""

    pid: int
    masks: Masks
    first_ns: int
    last_ns: int
    times: int = 1


class UnreadableError(Exception):
    """The masks could not be read although the threads are there."""


class ThreadMasks:
    """Distinct masks seen so far in the window.

    :param start_ns: when the window opened.
    :param patience_ns: how long the v1 cpuset of a task may follow its identity.
    :param moving: returns when the moves between cgroups began (CLOCK_MONOTONIC) that the kernel has not ended.
    :param strays: what earlier windows know of threads that are not in the claims' v1 cgroups.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        root: Path,
        start_ns: int = 0,
        pause_ns: int = 0,
        patience_ns: int = 0,
        moving: Callable[[], tuple[int, ...]] = tuple,
        strays: Strays | None = None,
    ) -> None:
        self._hierarchy, self._root = hierarchy, root
        self._proc = str(root / "proc")
        self._joining = Joining(root, patience_ns, moving)
        self._looks = Strays(hierarchy, root) if strays is None else strays
        self.pause_ns = pause_ns
        """The longest pause between two scans in this window."""
        self._start_ns = start_ns
        self._seen: dict[tuple[str, int, str, bytes, bytes, int, str], _Row] = {}
        """By claim, thread, name, masks as they were read, epoch, policy."""
        self._clocks: dict[int, Clock] = {}  # by ident: a name may come again
        self._ended: dict[int, int] = {}
        self.dearest_ns = 0
        """CPU time of the dearest scan."""
        self.scans = 0
        self.scanned_ns = 0
        """When the last whole scan ended (CLOCK_MONOTONIC)."""
        self.strays: dict[str, dict[tuple[str, int], Stray]] = {}
        """By claim: threads that its v1 cgroups do not hold, by controller and thread id."""
        self.dropped: dict[str, int] = {}
        """By claim: distinct masks that were not kept because there were too many."""

    def scan_all(self, subjects: Iterable[Subject], stop: Callable[[], bool]) -> int:
        """Read every thread of every claim once; returns the CPU time (ns) that it took.

        :raises OSError: the kernel refuses (no descriptors left, ...): what was not read counts as a gap.
        :raises UnreadableError: /proc is not there.
        """
        # CPU time: how long others keep us from running has its own allowance (WAIT_NS).
        began = time.thread_time_ns()
        try:
            for subject in subjects:
                if stop():
                    break
                self.scan(subject, stop)
        finally:
            took_ns = time.thread_time_ns() - began
            self.dearest_ns = max(self.dearest_ns, took_ns)
        if not stop():
            self.scans += 1
            self.scanned_ns = time.monotonic_ns()
        return took_ns

    def scan(self, subject: Subject, stop: Callable[[], bool]) -> None:
        """Read every thread of the claim once."""
        began_ns = time.monotonic_ns()
        epoch = subject.epoch
        whole = self._scan(subject, stop)
        if stop():
            return
        if subject.changing or subject.epoch != epoch:
            # The time of a change is the transition's: nothing of it is kept, and nothing of it is missing.
            self._clock(subject).beat(time.monotonic_ns(), counts=False)
        elif whole:
            self._clock(subject).beat(time.monotonic_ns(), since_ns=began_ns)

    def _scan(self, subject: Subject, stop: Callable[[], bool]) -> bool:
        tids = cgroupfs.tids(self._hierarchy, subject.claim.cgroup)
        gone = 0
        self._joining.keep(subject, tids)
        for stray in self._looks.look(subject, tids):
            self.strays.setdefault(subject.name, {})[stray.controller, stray.tid] = stray
        for tid in tids:
            if stop():
                return False
            # Taken before the mask is read: a change that began and ended since then shows in nothing else.
            epoch = subject.epoch
            if subject.changing:
                return False
            looked_ns, found = time.monotonic_ns(), self._read(tid)
            if found is not None and not found[2].within(subject):
                # Being moved in: the list of threads is ahead of the masks until the kernel is done. A second look
                # after a grace period of the scheduler's own decides; a real escaper is still outside.
                time.sleep(0.002)
                if not self._joining.is_complete(subject, tid, looked_ns):
                    continue
                found = self._read(tid)
            else:
                self._joining.inside(subject, tid)
            if found is None:
                gone += 1
                continue
            if subject.changing or subject.epoch != epoch:
                return False
            self._keep(subject, tid, found, time.monotonic_ns() - self._start_ns, epoch)
        # Threads that end look like a /proc that shows nothing; process 1 is always there.
        if gone and not (self._root / "proc/1/status").exists():
            raise UnreadableError(f"{self._root / 'proc'} cannot be read")
        return True

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
        self._looks.forget(subject)
        self._ended[subject.ident] = now_ns

    def _clock(self, subject: Subject) -> Clock:
        return self._clocks.setdefault(subject.ident, Clock(max(self._start_ns, subject.watched_ns)))

    def values(self) -> tuple[ThreadMask, ...]:
        """Return what was seen."""
        return tuple(
            ThreadMask(
                claim=claim,
                pid=row.pid,
                tid=tid,
                comm=comm,
                cpus_allowed=row.masks.cpus,
                mems_allowed=row.masks.mems,
                times_seen=row.times,
                first_at_ns=row.first_ns,
                last_at_ns=row.last_ns,
                epoch=epoch,
                policy=policy,
            )
            for (claim, tid, comm, _, _, epoch, policy), row in tuple(self._seen.items())
        )

    def _keep(self, subject: Subject, tid: int, found: Read, at_ns: int, epoch: int) -> None:
        # A mask is judged by the set of its epoch, so the same mask in another epoch is another row.
        name, tgid, masks = found
        key = (subject.name, tid, comm_of(name), masks.cpus_text, masks.mems_text, epoch, policy_of(tid))
        row = self._seen.get(key)
        if row is not None:
            row.times += 1
            row.last_ns = at_ns
        elif len(self._seen) >= MAX_KEPT:
            self.dropped[subject.name] = self.dropped.get(subject.name, 0) + 1
        else:
            self._seen[key] = _Row(int(tgid), masks, at_ns, at_ns)

    def _read(self, tid: int) -> Read | None:
        data = read_record(f"{self._proc}/{tid}/status")
        return None if data is None else parsed(data)
