"""From the records of the iterator's passes to the rows of a window.

A record is a few bytes, and the same bytes in every pass as long as nothing about its thread changes; those of a
container's threads follow one another. So what such a chunk means is worked out once for a claim's CPUs and memory
nodes: where all of it is inside them, a reading is one more look-up. Where it changes within a window its threads are
looked up one by one. What is outside is never taken from here: it goes to the caller, which reads ``/proc``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from probes.masks.iterator import Piece
from probes.masks.records import Chunk, Known, TaskMasks
from probes.masks.rows import Row, Rows
from probes.masks.thread import Thread
from probes.subjects import Subject
from toolkit.model.cpuset import CpuSet

_WORD = 4


class Outside(NamedTuple):
    """A thread whose masks are wider than its claim, by the iterator, and when it was met at the latest."""

    subject: Subject
    tid: int
    looked_ns: int


class Terms(NamedTuple):
    """What a claim's threads are held to, as long as its epoch lasts."""

    ident: int
    epoch: int
    cpus: CpuSet
    mems: CpuSet | None

    @classmethod
    def of(cls, subject: Subject) -> Terms:
        """Return those of a claim at present."""
        return cls(subject.ident, subject.epoch, subject.cpus, subject.claim.mems)

    def hold(self, thread: Thread) -> bool:
        """Return whether a thread has no more than that."""
        return thread.masks.within(self.cpus, self.mems)


@dataclass(slots=True)
class _Seat:
    """A claim, and those around it that are judged by its threads too; ``terms``: what the rest is good for."""

    subjects: tuple[Subject, ...]
    terms: tuple[Terms, ...]
    inside: dict[bytes, tuple[Row, ...]] = field(default_factory=dict)
    """By record."""
    whole: dict[bytes, tuple[Row, ...]] = field(default_factory=dict)
    """By chunk."""
    met: set[int] = field(default_factory=set)
    """The threads in these: one that is met in another chunk, too, is kept by itself there."""

    def holds(self, chunk: Chunk) -> bool:
        """Return whether all threads of a chunk are inside, and none of them is about to end."""
        return not chunk.exiting and all(one.hold(group[0]) for one in self.terms for group in chunk.groups)


class Passes:
    """What passes said in a window that opened at ``start_ns``."""

    def __init__(self, known: Known, rows: Rows, start_ns: int) -> None:
        self._known, self._size, self._rows, self._start_ns = known, known.layout.size, rows, start_ns
        self._seats: dict[int, _Seat] = {}

    def take(self, pieces: Iterable[Piece], subjects: Collection[Subject], terms: Mapping[int, Terms]) -> list[Outside]:
        """Keep what is inside; returns the rest.

        :param terms: by ident: of the claims that did not change while the pass went on.
        """
        self._seats = seats = self._seated(subjects, terms)
        outside: list[Outside] = []
        size = self._size
        for looked_ns, data in pieces:
            end = 0
            for ident, same in groupby(self._column(data, 0)):
                begin, end = end, end + sum(1 for _ in same)
                seat = seats.get(ident)
                if seat is None:
                    continue
                records = data[begin * size : end * size]
                rows = seat.whole.get(records)
                if rows is not None:
                    for row in rows:
                        row.again(looked_ns - self._start_ns)
                elif not self._whole(seat, records, looked_ns):
                    self._each(seat, records, looked_ns, outside)
        return outside

    def _whole(self, seat: _Seat, records: bytes, looked_ns: int) -> bool:
        """Keep a chunk that was not met before; returns whether it could be kept as one."""
        tids, rows = self._column(records, 1), self._rows
        if not (rows.has_room(len(tids) * len(seat.subjects)) and seat.met.isdisjoint(tids)):
            return False
        chunk = self._known.chunk(records)
        if not seat.holds(chunk):
            return False
        seat.met.update(tids)
        seat.whole[records] = tuple(
            rows.keep_all(subject.name, chunk, looked_ns - self._start_ns, terms.epoch)
            for subject, terms in zip(seat.subjects, seat.terms, strict=True)
        )
        return True

    def _each(self, seat: _Seat, records: bytes, looked_ns: int, outside: list[Outside]) -> None:
        """Keep the threads of a chunk one by one."""
        size = self._size
        for at in range(0, len(records), size):
            record = records[at : at + size]
            rows = seat.inside.get(record)
            if rows is None:
                self._first(seat, record, looked_ns, outside)
                continue
            for row in rows:
                row.again(looked_ns - self._start_ns)

    def _seated(self, subjects: Collection[Subject], terms: Mapping[int, Terms]) -> dict[int, _Seat]:
        by_path = {subject.claim.cgroup: subject for subject in subjects}
        seats = {}
        for subject in subjects:
            judged = tuple(one for one in _at_and_above(subject, by_path) if one.ident in terms)
            theirs = tuple(terms[one.ident] for one in judged)
            seat = self._seats.get(subject.ident)
            seats[subject.ident] = seat if seat is not None and seat.terms == theirs else _Seat(judged, theirs)
        return seats

    def _first(self, seat: _Seat, record: bytes, looked_ns: int, outside: list[Outside]) -> None:
        task, rows = self._known.decode(record), []
        if task.exiting:
            return  # A change of its cgroup's masks no longer reaches it.
        for subject, terms in zip(seat.subjects, seat.terms, strict=True):
            if not terms.hold(task.thread):
                outside.append(Outside(subject, task.thread.tid, looked_ns))
                continue
            row = self._rows.keep(subject.name, task.thread, looked_ns - self._start_ns, terms.epoch)
            rows += [] if row is None else [row]
        if len(rows) == len(seat.subjects):
            seat.inside[record] = tuple(rows)

    def find(self, pieces: Iterable[Piece], tids: Collection[int]) -> dict[tuple[int, int], TaskMasks]:
        """Return what the pass that was taken last says of these threads, by claim (ident) and thread id."""
        size, found = self._size, {}
        for _, data in pieces:
            idents = self._column(data, 0)
            for at, tid in enumerate(self._column(data, 1)):
                if tid in tids and (seat := self._seats.get(idents[at])) is not None:
                    task = self._known.decode(data[at * size : at * size + size])
                    found.update({(subject.ident, tid): task for subject in seat.subjects})
        return found

    def _column(self, data: bytes, word: int) -> list[int]:
        return memoryview(data).cast("I")[word :: self._size // _WORD].tolist()


def _at_and_above(subject: Subject, by_path: Mapping[str, Subject]) -> list[Subject]:
    """Return a claim, and those around it: their threads are its threads, too."""
    found, path = [subject], subject.claim.cgroup
    while path := path.rpartition("/")[0]:
        if path in by_path:
            found.append(by_path[path])
    return found
