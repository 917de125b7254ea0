"""Scans of all threads by the kernel's list of tasks, and what of them is read from ``/proc`` all the same.

What is inside its claim is taken from the list; of each scan a sample is compared with ``/proc``. Whatever has more
than its claim, by the list or by the sample, is read there: what is kept against a claim is what ``/proc`` says, after
the same grace and of complete members alone, whichever way a scan goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from probes.masks.iterator import Piece, TaskIterator
from probes.masks.joining import Joining
from probes.masks.passes import Outside, Passes, Terms
from probes.masks.rows import Rows
from probes.masks.sample import Lists
from probes.masks.scan_method import ScanMethod
from probes.masks.thread import Proc, Thread
from probes.subjects import Subject
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy

GRACE_S = 0.002
"""A thread that is being moved in has its masks by then: the scheduler's own grace."""


class Listed:
    """Those of a window that opened at ``start_ns``."""

    def __init__(
        self,
        tasks: TaskIterator,
        method: ScanMethod,
        rows: Rows,
        joining: Joining,
        start_ns: int,
        proc: Proc,
    ) -> None:
        self._tasks, self._method, self._rows, self._joining, self._proc = tasks, method, rows, joining, proc
        self._passes = Passes(tasks.known, rows, start_ns)
        self._start_ns, self._taken = start_ns, False
        self.doubts: dict[str, dict[int, str]] = {}
        """By claim and thread: where the list and ``/proc`` disagree."""

    def scan(self, subjects: Sequence[Subject], stop: Callable[[], bool]) -> tuple[frozenset[int], Lists] | None:
        """Read every thread once; ``None``: it was cut short.

        Returns the idents of the claims that did not change meanwhile: of these everything was kept; and the lists of
        claims' threads that were read.

        :raises OSError: the kernel refuses.
        :raises UnreadableError: /proc is not there.
        """
        terms = {subject.ident: Terms.of(subject) for subject in subjects if not subject.changing}
        due = self._method.sample.due(subjects)
        before = [(subject, found) for subject, tid in due.threads if (found := self._proc.thread(tid)) is not None]
        if due.threads and not before:
            self._proc.check()
        sampled_ns = time.monotonic_ns()
        pieces = self._pass()
        if stop():
            return None
        # What was read before this is of these terms, whatever begins to change now.
        terms = {one.ident: terms[one.ident] for one in subjects if _unchanged(one, terms)}
        outside = self._take(pieces, subjects, terms)
        outside += self._compare(before, sampled_ns, pieces, terms)
        if not self._settle({(one.subject.ident, one.tid): one for one in outside}, terms, stop):
            return None
        return frozenset(one.ident for one in subjects if _unchanged(one, terms)), due.lists

    def _pass(self) -> list[Piece]:
        began_ns = time.thread_time_ns()
        pieces = self._tasks.read()
        self._method.pass_ns = time.thread_time_ns() - began_ns
        self._method.threads = sum(len(data) for _, data in pieces) // self._tasks.known.layout.size
        return pieces

    def _take(self, pieces: Iterable[Piece], subjects: Sequence[Subject], terms: Mapping[int, Terms]) -> list[Outside]:
        began_ns = time.thread_time_ns()
        outside = self._passes.take(pieces, subjects, terms)
        if not self._taken:
            self._taken, self._method.once_ns = True, time.thread_time_ns() - began_ns
        return outside

    def _compare(
        self,
        before: Sequence[tuple[Subject, Thread]],
        at_ns: int,
        pieces: Iterable[Piece],
        terms: Mapping[int, Terms],
    ) -> list[Outside]:
        """Compare the sample with a pass; returns those in it that have more than their claim."""
        tasks = self._passes.find(pieces, {thread.tid for _, thread in before})
        outside = []
        for subject, thread in before:
            held_to = terms.get(subject.ident)
            if held_to is None:
                continue
            task = tasks.get((subject.ident, thread.tid))
            doubt = self._method.sample.doubt(subject, thread, task, self._proc.thread, self._tasks.known.layout)
            if doubt:
                self.doubts.setdefault(subject.name, {})[thread.tid] = doubt
            if held_to.hold(thread):
                self._rows.keep(subject.name, thread, at_ns - self._start_ns, held_to.epoch)
            else:
                outside.append(Outside(subject, thread.tid, at_ns))
        return outside

    def _settle(
        self, outside: Mapping[tuple[int, int], Outside], terms: Mapping[int, Terms], stop: Callable[[], bool]
    ) -> bool:
        """Keep what ``/proc`` says of those that looked as if they had too much; returns whether all were read."""
        self._joining.only(outside)
        if outside:
            time.sleep(GRACE_S)
        for (ident, tid), (subject, _, looked_ns) in outside.items():
            if stop():
                return False
            if not self._joining.is_complete(subject, tid, looked_ns):
                continue
            found = self._proc.thread(tid)
            if found is not None and _unchanged(subject, terms):
                self._rows.keep(subject.name, found, time.monotonic_ns() - self._start_ns, terms[ident].epoch)
        return True


def _unchanged(subject: Subject, terms: Mapping[int, Terms]) -> bool:
    return not subject.changing and subject.ident in terms and subject.epoch == terms[subject.ident].epoch


def lists_of_strays(hierarchy: Hierarchy, subjects: Iterable[Subject], lists: Lists, method: ScanMethod) -> Lists:
    """Return the lists that were read, and those of the claims of which a stray thread was met."""
    read = {subject.ident for subject, _ in lists}
    missing = (one for one in subjects if method.strays.waiting(one) and one.ident not in read)
    return [*lists, *((one, cgroupfs.tids(hierarchy, one.claim.cgroup)) for one in missing)]
