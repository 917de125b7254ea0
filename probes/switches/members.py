"""The kernel's records of what is a member of a claim: written when a claim is added, tidied up when tasks die.

The programs keep them up to date (``probes/switches/membership.h``); only what was there before the claim comes from
here.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, replace
from pathlib import Path

from probes.bpfsys import BPF_NOEXIST, Map
from probes.programs import Programs
from probes.switches.records import CPUSET_SPACE, FOREVER_NS, SETTLED, Member
from toolkit.host import procfs


def record_members(threads: Map, tids: Iterable[int], ident: int, since_ns: int, joining: Collection[int] = ()) -> bool:
    """Write down which threads are in a cgroup when its claim is added; what a program wrote after ``since_ns`` stays.

    Returns ``False`` where the map is full.

    :param joining: those of them that are not in the claim's v1 cpuset: something may be moving them in just now.
    """
    complete = Member(ident=ident, incomplete=0, at_ns=since_ns, joined_ns=since_ns)
    records = [Member.LAYOUT.pack(*astuple(replace(complete, incomplete=incomplete))) for incomplete in (0, 1)]
    for tid in tids:
        key, data = tid.to_bytes(4, "little"), records[tid in joining]
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


def record_settled(settled: Map, by_cgroup: Mapping[int, Iterable[int]], now_ns: int, from_ns: int) -> bool:
    """Write down which processes are in a v1 cpuset, by its id, when its claim is added, or the cgroup of all pods.

    What a program wrote stays. Returns ``False`` where the map is full.

    :param from_ns: when each of them is held by the cpuset: something may be moving it in just now.
    """
    for cgroup, pids in by_cgroup.items():
        data = SETTLED.pack(0, 0, 0, cgroup | CPUSET_SPACE, now_ns, from_ns)
        try:
            for pid in pids:
                settled.update(pid.to_bytes(4, "little"), data, BPF_NOEXIST)
        except OSError as error:
            if error.errno == errno.E2BIG:
                return False
            raise
    return True


class Joiners:
    """Which threads the programs know between their two joinings. May be asked by any thread.

    :param limit_ns: how long the second may take.
    """

    def __init__(self, loaded: Programs, limit_ns: int) -> None:
        # Maps of its own: one that is shared takes one question at a time.
        size = Member.LAYOUT.size
        self._processes, self._threads = loaded.table("processes", 4, size), loaded.table("threads", 4, size)
        self._limit_ns, self._asking = limit_ns, threading.Lock()

    def may_complete(self, ident: int, tgid: int, tid: int) -> bool:
        """Return whether a thread joined a claim's identity a short time ago, and its v1 cpuset not yet."""
        with self._asking:
            found = self._processes.lookup(tgid.to_bytes(4, "little")), self._threads.lookup(tid.to_bytes(4, "little"))
        # The later of the two counts. One that is being written at this moment says nothing yet.
        records = [one for one in (Member.decode(data) for data in found if data) if one.at_ns != FOREVER_NS]
        last = max(records, key=lambda one: one.at_ns, default=None)
        if last is None or last.ident != ident or not last.incomplete:
            return False
        return time.monotonic_ns() - last.joined_ns <= self._limit_ns


class Dead:
    """Forgets tasks that are gone, once a table is half full: leaders that died before their threads leave a record.

    Counting walks through the whole table. What is in it was there at the last count, or is of a task that lived then
    or was made since: until so many were made none can be half full.
    """

    def __init__(self, limit: int, root: Path) -> None:
        self._half, self._root = limit // 2, root
        self._until: int | None = None
        """How many tasks must have been made since boot before a table can be half full; ``None``: not known."""

    def drop(self, tables: tuple[Map, ...]) -> None:
        """Look whether a table is half full, if one can be."""
        tasks = procfs.made_and_there(self._root)
        if tasks is not None and self._until is not None and tasks[0] < self._until:
            return
        counts = [table.count() for table in tables]
        # Those that were made while it was counted, too, are after this number.
        self._until = None if tasks is None else tasks[0] + self._half - tasks[1] - max(counts)
        for table, count in zip(tables, counts, strict=True):
            if count >= self._half:
                self._drop(table)

    def _drop(self, table: Map) -> None:
        for key in tuple(table.keys()):
            if procfs.start_time(int.from_bytes(key, "little"), self._root) is None:
                table.delete(key)
