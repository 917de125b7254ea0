"""Who became a member of a claim, and when: decides what the ledger had to leave open.

The kernel moves the threads of a process into a cgroup first and tells afterwards (``cgroup_attach_task``, for the
leader). An interval outside that ended in between comes from a task not known as a member. If the word of its joining
follows, the interval is transition; if none follows, the task was there without anybody's having moved it in, and the
interval is a violation. A second attach of a member is no joining (the program leaves it out).

Source: kernel/cgroup/cgroup.c, ``cgroup_migrate_execute`` and ``cgroup_attach_task``.
"""

from __future__ import annotations

import errno
from collections import deque
from enum import Enum
from pathlib import Path

from probes.bpfsys import BPF_NOEXIST, Map
from probes.records import DETAIL_JOIN_PROCESS, Detail, Member, Offence
from toolkit.host import procfs

KEEP_NS = 60_000_000_000
"""How long a joining is remembered: far longer than any migration takes, shorter than pids take to come round."""


class Resolution(Enum):
    """What an undecided interval turned out to be."""

    WAIT = "wait"
    TRANSITION = "transition"
    VIOLATION = "violation"


class JoinLog:
    """The joinings of the last minute, as the programs told them."""

    def __init__(self) -> None:
        self._joins: deque[Detail] = deque()
        self._last: dict[tuple[bool, int, int], int] = {}

    def add(self, detail: Detail) -> None:
        """Remember one ``DETAIL_JOIN_*`` record."""
        whole = detail.kind == DETAIL_JOIN_PROCESS
        self._joins.append(detail)
        key = (whole, detail.tgid if whole else detail.tid, detail.ident)
        self._last[key] = max(detail.end_ns, self._last.get(key, 0))
        while self._joins and self._joins[0].end_ns < detail.end_ns - KEEP_NS:
            old = self._joins.popleft()
            whole = old.kind == DETAIL_JOIN_PROCESS
            key = (whole, old.tgid if whole else old.tid, old.ident)
            if self._last.get(key, 0) <= old.end_ns:
                self._last.pop(key, None)

    def resolve(self, tid: int, offence: Offence, now_ns: int, patience_ns: int) -> Resolution:
        """Say what the undecided intervals of a thread on one CPU were.

        :param patience_ns: how long to wait for the kernel's word after the last of them ended.
        """
        joined = max(
            self._last.get((True, offence.tgid, offence.ident), 0), self._last.get((False, tid, offence.ident), 0)
        )
        if joined >= offence.last_ns:
            return Resolution.TRANSITION
        return Resolution.WAIT if now_ns - offence.last_ns < patience_ns else Resolution.VIOLATION


def record_members(threads: Map, tids: tuple[int, ...], ident: int, since_ns: int) -> bool:
    """Write down who is in a cgroup when its claim is added; what a program wrote later than ``since_ns`` stays.

    Returns ``False`` where the map is full.
    """
    value = Member(ident, 0, since_ns)
    data = Member.LAYOUT.pack(value.ident, value.pad, value.at_ns)
    for tid in tids:
        key = tid.to_bytes(4, "little")
        try:
            if not threads.update(key, data, BPF_NOEXIST):
                found = threads.lookup(key)
                if found is None or Member.decode(found).at_ns < since_ns:
                    threads.update(key, data)
        except OSError as error:
            if error.errno == errno.E2BIG:
                return False
            raise
    return True


def drop_dead(tables: tuple[Map, ...], limit: int, root: Path) -> None:
    """Forget tasks that are gone, once a table is half full: leaders that died before their threads leave a record."""
    for table in tables:
        keys = tuple(table.keys())
        if len(keys) < limit // 2:
            continue
        for key in keys:
            if procfs.start_time(int.from_bytes(key, "little"), root) is None:
                table.delete(key)
