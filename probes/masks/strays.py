"""Threads of a claim whose cgroup in a v1 hierarchy is not the claim's: what is promised there does not hold them.

On a hybrid host a task has a cgroup in every hierarchy. A claim's tasks are known by the v2 one; its quota, weight and
memory limit are files of v1 cgroups of the same name, which bind whatever is in *those*. A thread that is in the one
and not in the other keeps every number of the claim's files right, and is throttled, or not, somewhere else. A thread
that is in the claim's cpuset and not in its v2 cgroup is no claim's for the ledger: where it runs is not judged.

Source: Documentation/admin-guide/cgroup-v1/cgroups.rst section 1.4; proc(5), ``/proc/pid/cgroup``.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from probes.masks.joining import place
from probes.masks.status import parse_status
from probes.subjects import Subject
from toolkit.host import cgroup_members, procfs
from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.text.wording import and_more

PATIENCE_NS = 500_000_000
"""How long a thread may be in one hierarchy alone: runtimes write to one after the other, and may lose the CPU between
two writes (75 ms were met); as long as we allow for our own wait."""
MAX_LOOKED = 16
"""Threads that are looked at for each claim and hierarchy in one scan: one is enough for a doubt."""
EVERY = 3
"""Of so many scans one looks: it costs as much as the masks of five threads. Where something was met each scan does."""
IDENTITY = "cpuset"
"""The hierarchy whose cgroups are compared the other way round: what is in them must be in the claim's v2 cgroup."""
_BINDS = {
    "cpu": ("quota and weight are not the claim's", (Witness.BANDWIDTH, Witness.FILES)),
    IDENTITY: ("where it runs is not judged", (Witness.SWITCHES, Witness.MASKS)),
    "memory": ("its memory limit is not the claim's", (Witness.FILES,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A thread of a claim that is in another cgroup of a hierarchy. ``where``: its path there.

    :param controller: of the v1 hierarchy; :data:`IDENTITY`: it is in the claim's cgroup there, but not of v2.
    :param cpus: where the ledger does not know it as the claim's, on which CPUs it may be.
    """

    controller: str
    tid: int
    comm: str
    where: str
    cpus: CpuSet | None = None


class Strays:
    """Threads met in some of a claim's cgroups only; as long as the observer: a window may have one scan."""

    def __init__(self, hierarchy: Hierarchy, root: Path) -> None:
        self._root = root
        legacy = dict(hierarchy.legacy)
        self._mounts = {name: legacy[name] for name in _BINDS if name in legacy and hierarchy.unified is not None}
        self._since: dict[tuple[int, str], dict[int, tuple[int, int]]] = {}
        """By ident and controller, by thread id: start time, and since when it is known to be elsewhere."""
        self._scans: dict[int, int] = {}
        """By ident."""

    def waiting(self, subject: Subject) -> bool:
        """Return whether a thread was met that may still join, or stay elsewhere: each scan looks for it."""
        return bool(self._since) and any(
            (subject.ident, one) in self._since for one in self._mounts.keys() & _promised(subject.claim)
        )

    def look(self, subject: Subject, tids: Collection[int], every: int = EVERY) -> list[Stray]:
        """Return the threads that have been in some of its cgroups, and not in others, for too long.

        :param tids: of its v2 cgroup.
        :param every: of so many calls one looks, as long as nothing is met.
        """
        scans = self._scans[subject.ident] = self._scans.get(subject.ident, 0) + 1
        promised = sorted(self._mounts.keys() & _promised(subject.claim))
        if (scans - 1) % every and not self.waiting(subject):
            return []
        found = []
        for controller in promised:
            here = cgroup_members.tids_below(self._mounts[controller], subject.claim.cgroup)
            if here is None:  # Without such a cgroup its files do not exist either, which says enough.
                self._since.pop((subject.ident, controller), None)
                continue
            one_way = here.difference(tids) if controller == IDENTITY else [tid for tid in tids if tid not in here]
            found += self._elsewhere(subject, controller, one_way)
        return found

    def _elsewhere(self, subject: Subject, controller: str, missing: Collection[int]) -> list[Stray]:
        known = self._since.pop((subject.ident, controller), {})
        now, now_ns, found = dict[int, tuple[int, int]](), time.monotonic_ns(), []
        # Those that were met before come first: in a storm of short threads one that stays must have its turn.
        for tid in sorted(missing, key=lambda tid: tid not in known):
            start = procfs.start_time(tid, self._root)
            if start is None:
                continue  # It ended between the two lists.
            before = known.get(tid)
            now[tid] = before if before is not None and before[0] == start else (start, now_ns)
            if now_ns - now[tid][1] > PATIENCE_NS:
                text = read_control(self._root / f"proc/{tid}/cgroup") or ""
                where = place(text, "" if controller == IDENTITY else controller)
                cpus = self._cpus(tid) if controller == IDENTITY else None
                name = procfs.comm(tid, self._root)
                found.append(Stray(controller=controller, tid=tid, comm=name, where=where, cpus=cpus))
            if len(now) >= MAX_LOOKED:
                break
        if now:
            self._since[subject.ident, controller] = now
        return found

    def _cpus(self, tid: int) -> CpuSet | None:
        status = parse_status(read_control(self._root / f"proc/{tid}/status") or "")
        return None if status is None else status.cpus_allowed

    def forget(self, subject: Subject) -> None:
        """Drop what is known about a claim that is watched no more."""
        self._scans.pop(subject.ident, None)
        for controller in self._mounts:
            self._since.pop((subject.ident, controller), None)


def stray_spots(claim: str, strays: Collection[Stray]) -> list[BlindSpot]:
    """Name for each hierarchy one thread that is elsewhere, and how many more are."""
    spots = []
    for controller, (what, witnesses) in _BINDS.items():
        rows = sorted((row for row in strays if row.controller == controller), key=lambda row: row.tid)
        if rows:
            more = and_more(len(rows) - 1, aside=True)
            tree = "the v2 hierarchy" if controller == IDENTITY else f"the v1 hierarchy {controller}"
            spots.append(
                BlindSpot(
                    text=f"thread {rows[0].tid} ({rows[0].comm}){more} of {claim} is in {rows[0].where or 'none'} of "
                    f"{tree}, not in the claim's cgroup: {what}",
                    witnesses=witnesses,
                    claim=claim,
                    cpus=CpuSet.union(row.cpus for row in rows if row.cpus is not None) or None,
                )
            )
    return spots


def _promised(claim: Claim) -> set[str]:
    """Return the controllers whose files a claim is about."""
    cpu = claim.exclusive or any(value is not None for value in (claim.quota_us, claim.weight, claim.shares))
    wanted = {"cpu": cpu, IDENTITY: claim.cpus is not None, "memory": claim.memory_bytes is not None}
    return {name for name, promised in wanted.items() if promised}
