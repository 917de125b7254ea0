"""The distinct masks that were seen in a window: a row for each, with how often and from when to when.

A fork storm makes a new one for each child that was met, so there is a limit; what is beyond it is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from probes.masks.records import Chunk
from probes.masks.thread import Thread
from toolkit.model.evidence import ThreadMask

MAX_KEPT = 100_000
"""Distinct (thread, mask) pairs kept."""
EACH_ALONE = 4_000
"""Of so many each has a row of its own in the evidence, for people. The ten thousand threads of a full node are a half
of all that is written and judged, and those of a process differ in their ids alone."""


@dataclass(slots=True)
class Row:
    """How often something was seen, and when: a thread with some masks, or a chunk of them."""

    first_ns: int
    last_ns: int
    times: int = 1

    def again(self, at_ns: int) -> None:
        """Count another reading; of two witnesses, the one that is heard later may have looked earlier."""
        self.times += 1
        if at_ns > self.last_ns:
            self.last_ns = at_ns
        elif at_ns < self.first_ns:
            self.first_ns = at_ns

    def __add__(self, other: Row) -> Row:
        """Return a row with the readings of both."""
        first_ns, last_ns = min(self.first_ns, other.first_ns), max(self.last_ns, other.last_ns)
        return Row(first_ns, last_ns, self.times + other.times)


class _Key(NamedTuple):
    """What a row is of; masks as integers, which are compared at a third of the cost."""

    claim: str
    tid: int
    pid: int
    comm: str
    cpus: int
    mems: int
    epoch: int
    policy: str

    @classmethod
    def of(cls, claim: str, thread: Thread, epoch: int) -> _Key:
        """Return that of a thread."""
        masks = thread.masks
        return cls(claim, thread.tid, thread.pid, thread.comm, masks.cpus.mask, masks.mems.mask, epoch, thread.policy)


Groups = tuple[tuple[Thread, ...], ...]
"""Threads of a chunk that are alike (:func:`probes.masks.thread.alike`)."""


class Rows:
    """The rows of a window. Times are nanoseconds since it opened."""

    def __init__(self) -> None:
        self._seen: dict[_Key, tuple[Thread, Row]] = {}
        self._chunks: list[tuple[str, Chunk, int, Row]] = []
        """Claim, threads, epoch, and when they were seen together."""
        self._room = MAX_KEPT
        """For threads in chunks."""
        self.dropped: dict[str, int] = {}
        """By claim: distinct masks that were not kept because there were too many."""

    def keep(self, claim: str, thread: Thread, at_ns: int, epoch: int) -> Row | None:
        """Take a reading; returns its row, or ``None`` where there is no room for one more."""
        # A mask is judged by the set of its epoch, so the same mask in another epoch is another row.
        key = _Key.of(claim, thread, epoch)
        known = self._seen.get(key)
        if known is not None:
            known[1].again(at_ns)
            return known[1]
        if len(self._seen) >= MAX_KEPT:
            self.dropped[claim] = self.dropped.get(claim, 0) + 1
            return None
        row = Row(at_ns, at_ns)
        self._seen[key] = thread, row
        return row

    def has_room(self, threads: int) -> bool:
        """Return whether so many can be kept in chunks; each by itself has room of its own."""
        return threads <= self._room

    def keep_all(self, claim: str, chunk: Chunk, at_ns: int, epoch: int) -> Row:
        """Take a reading of threads that are seen together; what sees the same ones again counts it in the row."""
        row = Row(at_ns, at_ns)
        self._chunks.append((claim, chunk, epoch, row))
        self._room -= len(chunk.tasks)
        return row

    def values(self) -> tuple[ThreadMask, ...]:
        """Return what was seen: of thousands of threads those of a process together of which all was the same."""
        alone, chunks = self._apart()
        together = len(alone) + sum(len(group) for *_, groups in chunks for group in groups) > EACH_ALONE
        groups: dict[tuple[object, ...], list[Thread]] = {}
        found: list[tuple[str, int, Row, list[Thread]]] = []
        for key, (thread, row) in alone.items():
            same = (row.times, row.first_ns, row.last_ns, *key[2:]) if together else key[1:]
            others = groups.get((key.claim, *same))
            if others is None:
                groups[key.claim, *same] = others = []
                found.append((key.claim, key.epoch, row, others))
            others.append(thread)
        masks = [_mask(claim, epoch, row, sorted(threads)) for claim, epoch, row, threads in found]
        for claim, epoch, row, parts in chunks:
            alike = parts if together else ((thread,) for part in parts for thread in part)
            masks += [_mask(claim, epoch, row, part) for part in alike]
        return tuple(masks)

    def _apart(self) -> tuple[dict[_Key, tuple[Thread, Row]], list[tuple[str, int, Row, Groups]]]:
        """Return the rows of single threads, and those of groups of which nothing was seen in another way, too."""
        alone, chunks = dict(self._seen), list(self._chunks)
        times = Counter(claim for claim, *_ in chunks)
        single: dict[str, set[int]] = {}
        for key in alone:
            single.setdefault(key.claim, set()).add(key.tid)
        found: list[tuple[str, int, Row, Groups]] = []
        for claim, chunk, epoch, row in chunks:
            tids, several = single.get(claim, ()), times[claim] > 1
            if not tids and not several:
                found.append((claim, epoch, row, chunk.groups))
                continue
            rest = [[one for one in group if not several and one.tid not in tids] for group in chunk.groups]
            found.append((claim, epoch, row, tuple(tuple(group) for group in rest if group)))
            for thread in (one for group in chunk.groups for one in group if several or one.tid in tids):
                key = _Key.of(claim, thread, epoch)
                known = alone.get(key)
                alone[key] = thread, row if known is None else known[1] + row
        return alone, found


def _mask(claim: str, epoch: int, row: Row, threads: Sequence[Thread]) -> ThreadMask:
    first = threads[0]
    return ThreadMask(
        claim=claim,
        pid=first.pid,
        tid=first.tid,
        comm=first.comm,
        cpus_allowed=first.masks.cpus,
        mems_allowed=first.masks.mems,
        times_seen=row.times,
        first_at_ns=row.first_ns,
        last_at_ns=row.last_ns,
        epoch=epoch,
        policy=first.policy,
        alike=tuple(one.tid for one in threads[1:]),
    )
