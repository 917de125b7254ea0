"""The mask of every thread of a claim, again and again, from ``/proc/<tid>/status``: the ledger's second witness.

A thread may be allowed a CPU for long before it runs there; only its mask tells. Distinct masks are kept, not readings.
A reading is dropped when the claim's mask was being changed meanwhile, or when the thread was not (any more, or not
yet for long enough) a member of the cgroup: it says nothing about the claim.

Source: proc(5) (Cpus_allowed_list, Mems_allowed_list); field.md K10, K12.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from probes.subjects import Subject
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroupfs import Hierarchy
from toolkit.model import names
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import ThreadMask

MAX_KEPT = 100_000
"""Distinct (thread, mask) pairs kept; a fork storm makes a new one for each child that was met."""

_POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
"""Source: include/uapi/linux/sched.h."""
_MEANT = {"\\n": "\n", "\\\\": "\\"}
_ESCAPED = re.compile(r"\\[n\\]")
"""What the kernel writes for a line end and a backslash in ``Name`` (fs/proc/array.c, ``proc_task_name``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStatus:
    """What one ``status`` file says."""

    pid: int
    comm: str
    cpus_allowed: CpuSet
    mems_allowed: CpuSet


def parse_status(text: str) -> ThreadStatus | None:
    """Read the wanted lines; ``None`` if one is missing (a thread that is just dying) or not a list."""
    fields: dict[str, str] = {}
    # The kernel escapes "\n" and "\\" in the name, but nothing else at which splitlines() would begin a line.
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        fields.setdefault(name, value.removeprefix("\t"))
    try:
        return ThreadStatus(
            pid=int(fields["Tgid"]),
            comm=names.from_text(_ESCAPED.sub(lambda match: _MEANT[match[0]], fields["Name"])),
            cpus_allowed=CpuSet.parse(fields["Cpus_allowed_list"]),
            mems_allowed=CpuSet.parse(fields.get("Mems_allowed_list", "")),
        )
    except (KeyError, ValueError, InputError):
        return None


def policy_of(tid: int) -> str:
    """Return a thread's scheduling policy by name; empty if it is gone, or the policy is none that is known."""
    try:
        # The flag that children get the default policy is no policy.
        return _POLICIES.get(os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK, "")
    except OSError:
        return ""


class ThreadMasks:
    """Distinct masks seen so far in the window."""

    def __init__(self, hierarchy: Hierarchy, root: Path) -> None:
        self._hierarchy, self._root = hierarchy, root
        self._seen: dict[tuple[str, int, str, CpuSet, CpuSet, int, str], list[int]] = {}
        self._pids: dict[tuple[str, int], int] = {}
        self.scans = 0
        self.dropped = 0
        """Distinct masks that were not kept because there were too many."""

    def scan(self, subject: Subject, start_ns: int, stop: Callable[[], bool]) -> None:
        """Read every thread of the claim once."""
        for tid in cgroupfs.tids(self._hierarchy, subject.claim.cgroup):
            if stop():
                return
            epoch = subject.epoch
            if subject.changing:
                continue
            status = self._read(tid)
            if status is None:
                continue
            if not status.cpus_allowed <= subject.cpus:
                # Being moved in: the list of threads is ahead of the masks until the kernel is done. A second look
                # after a grace period of the scheduler's own settles it; a real escaper is still outside.
                time.sleep(0.002)
                if not self._member(tid, subject.claim.cgroup):
                    continue
                status = self._read(tid)
                if status is None:
                    continue
            if subject.changing or subject.epoch != epoch:
                continue
            self._keep(subject, tid, status, time.monotonic_ns() - start_ns, epoch)

    def values(self) -> tuple[ThreadMask, ...]:
        """Return what was seen."""
        return tuple(
            ThreadMask(
                claim=claim,
                pid=self._pids[claim, tid],
                tid=tid,
                comm=comm,
                cpus_allowed=cpus,
                mems_allowed=mems,
                times_seen=times,
                first_at_ns=first,
                last_at_ns=last,
                epoch=epoch,
                policy=policy,
            )
            for (claim, tid, comm, cpus, mems, epoch, policy), (times, first, last) in tuple(self._seen.items())
        )

    def _keep(self, subject: Subject, tid: int, status: ThreadStatus, at_ns: int, epoch: int) -> None:
        policy = policy_of(tid)
        key = (subject.name, tid, status.comm, status.cpus_allowed, status.mems_allowed, epoch, policy)
        found = self._seen.get(key)
        if found is not None:
            found[0] += 1
            found[2] = at_ns
        elif len(self._seen) >= MAX_KEPT:
            self.dropped += 1
        else:
            self._pids[subject.name, tid] = status.pid
            self._seen[key] = [1, at_ns, at_ns]

    def _read(self, tid: int) -> ThreadStatus | None:
        text = read_control(self._root / f"proc/{tid}/status")
        return None if text is None else parse_status(text)

    def _member(self, tid: int, cgroup: str) -> bool:
        text = read_control(self._root / f"proc/{tid}/cgroup") or ""
        for line in text.split("\n"):
            if line.startswith("0::"):
                path = names.from_text(line[3:])
                return path == cgroup or path.startswith(cgroup + "/")
        return False
