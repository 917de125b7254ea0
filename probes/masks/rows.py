"""The distinct masks that were seen in a window: a row for each, with how often and from when to when.

A fork storm makes a new one for each child that was met, so there is a limit; what is beyond it is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from probes.masks.status import Masks
from probes.masks.thread import Thread
from toolkit.model.evidence import ThreadMask

MAX_KEPT = 100_000
"""Distinct (thread, mask) pairs kept."""
EACH_ALONE = 4_000
"""Of so many each has a row of its own in the evidence, for people. The ten thousand threads of a full node are a half
of all that is written and judged, and those of a process differ in their ids alone."""
_Key = tuple[str, int, str, int, int, int, str]
"""Claim, thread, name, masks, epoch, policy."""


@dataclass(slots=True)
class Row:
    """How often a thread was seen with some masks, and when."""

    pid: int
    masks: Masks
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


class Rows:
    """The rows of a window. Times are nanoseconds since it opened."""

    def __init__(self) -> None:
        self._seen: dict[_Key, Row] = {}
        self.dropped: dict[str, int] = {}
        """By claim: distinct masks that were not kept because there were too many."""

    def keep(self, claim: str, thread: Thread, at_ns: int, epoch: int) -> Row | None:
        """Take a reading; returns its row, or ``None`` where there is no room for one more."""
        # A mask is judged by the set of its epoch, so the same mask in another epoch is another row.
        masks = thread.masks
        key = (claim, thread.tid, thread.comm, masks.cpus.mask, masks.mems.mask, epoch, thread.policy)
        row = self._seen.get(key)
        if row is not None:
            row.again(at_ns)
        elif len(self._seen) >= MAX_KEPT:
            self.dropped[claim] = self.dropped.get(claim, 0) + 1
        else:
            row = self._seen[key] = Row(thread.pid, masks, at_ns, at_ns)
        return row

    def values(self) -> tuple[ThreadMask, ...]:
        """Return what was seen: of thousands of threads those of a process together of which all was the same."""
        seen = tuple(self._seen.items())
        together = len(seen) > EACH_ALONE
        tids: dict[tuple[object, ...], list[int]] = {}
        found: list[tuple[_Key, Row, list[int]]] = []
        for key, row in seen:
            claim, tid, *same = key
            group = (claim, row.pid, row.times, row.first_ns, row.last_ns, *same) if together else key
            others = tids.get(group)
            if others is None:
                tids[group] = others = []
                found.append((key, row, others))
            others.append(tid)
        return tuple(_row(key, row, sorted(others)) for key, row, others in found)


def _row(key: _Key, row: Row, tids: list[int]) -> ThreadMask:
    claim, _, comm, _, _, epoch, policy = key
    return ThreadMask(
        claim=claim,
        pid=row.pid,
        tid=tids[0],
        comm=comm,
        cpus_allowed=row.masks.cpus,
        mems_allowed=row.masks.mems,
        times_seen=row.times,
        first_at_ns=row.first_ns,
        last_at_ns=row.last_ns,
        epoch=epoch,
        policy=policy,
        alike=tuple(tids[1:]),
    )
