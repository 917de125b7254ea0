"""Threads whose masks are read while they are moved into a claim: not there yet, whatever their list says."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from probes.masks.status import parse_status
from probes.subjects import Subject
from toolkit.host import procfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.text import names

MayComplete = Callable[[int, int, int], bool]


class Joining:
    """The threads that were met in the middle of a joining.

    :param patience_ns: how long the v1 cpuset of a task may follow its identity.
    :param moving: returns when the moves between cgroups began (CLOCK_MONOTONIC) that the kernel has not ended.
    :param may_complete: says of a claim (by ident), a process and a thread of it whether the programs know of a joining
        whose second attach may still come. A busy node can take longer than the patience.
    """

    def __init__(
        self,
        root: Path,
        patience_ns: int,
        moving: Callable[[], tuple[int, ...]],
        may_complete: MayComplete = lambda ident, tgid, tid: False,
    ) -> None:
        self._root, self._patience_ns, self._moving = root, patience_ns, moving
        self._may_complete = may_complete
        self._known: dict[tuple[int, int], tuple[int | None, int]] = {}
        """By ident and thread id, of threads between their two joinings: the start time, which tells threads apart that
        have the id one after the other, and since when it is known outside the claim's v1 cpuset."""

    def is_complete(self, subject: Subject, tid: int, looked_ns: int) -> bool:
        """Return whether a thread is a member, and its joining complete.

        Where the claim has a v1 cpuset a task joins twice. One that is outside the cpuset is looked at again in a later
        scan: if it is still there when the patience is over, it never joined. Whatever was inside meanwhile, or no
        member, begins anew. A move that is under way since before the thread was looked at (``looked_ns``) has a writer
        without a CPU, and may be this thread's: the next scan decides. A thread that exits outside the cpuset is never
        complete: its process may have joined without it, and what it still runs is the ledger's to judge.
        """
        key = (subject.ident, tid)
        text = read_control(self._root / f"proc/{tid}/cgroup") or ""
        member = inside(text, "", subject.claim.cgroup)
        if not member or subject.cpuset_id is None or inside(text, "cpuset", subject.claim.cgroup):
            self._known.pop(key, None)
            return member and not any(begun_ns <= looked_ns for begun_ns in self._moving())
        if procfs.exits(tid, self._root):
            return False
        now_ns, start = time.monotonic_ns(), procfs.start_time(tid, self._root)
        known = self._known.get(key)
        if known is None or known[0] != start:
            known = self._known[key] = (start, now_ns)
        if now_ns - known[1] <= self._patience_ns:
            return False
        status = parse_status(read_control(self._root / f"proc/{tid}/status") or "")
        return status is not None and not self._may_complete(subject.ident, status.pid, tid)

    def inside(self, subject: Subject, tid: int) -> None:
        """Note that a thread has the claim's CPUs and memory nodes: if it joins again, that is another joining."""
        self._known.pop((subject.ident, tid), None)

    def only(self, outside: Collection[tuple[int, int]]) -> None:
        """Note that of all threads, by ident and thread id, these alone have not the claim's CPUs and memory nodes."""
        for key in tuple(self._known):
            if key not in outside:
                del self._known[key]

    def keep(self, subject: Subject, tids: Iterable[int]) -> None:
        """Forget the threads that are members no more: one that comes again joins again."""
        if self._known:
            here = frozenset(tids)
            for ident, tid in tuple(self._known):
                if ident == subject.ident and tid not in here:
                    del self._known[ident, tid]


def place(text: str, controller: str) -> str:
    """Return where ``/proc/<tid>/cgroup`` has a task; ``controller`` "": in the v2 hierarchy; empty: in none."""
    for line in text.split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(",") and (controller or number == "0"):
            return names.from_text(path)
    return ""


def inside(text: str, controller: str, cgroup: str) -> bool:
    """Return whether a task is at or below a cgroup."""
    path = place(text, controller)
    return path == cgroup or path.startswith(cgroup + "/")
