"""From the records of waits to rows of the evidence: pure functions, no kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace

from probes.records import comm
from probes.switches import records
from probes.switches.records import CulpritKey, CulpritSums, Row, WaitKey, WaitSums
from toolkit.model.evidence import Culprit, CulpritClass, Delay

Waits = dict[WaitKey, WaitSums]
Culprits = dict[CulpritKey, CulpritSums]
_BUCKETS = struct.Struct(f"={records.WAIT_BUCKETS}I")
_NONE = WaitSums(0, 0, 0, 0, 0, 0, bytes(_BUCKETS.size), bytes(_BUCKETS.size))
_CLASSES = {
    records.CULPRIT_IDLE: CulpritClass.IDLE,
    records.CULPRIT_THROTTLED: CulpritClass.THROTTLED,
    records.CULPRIT_CLAIM: CulpritClass.CLAIM,
    records.CULPRIT_POD: CulpritClass.FOREIGN_POD,
    records.CULPRIT_KTHREAD: CulpritClass.KTHREAD,
    records.CULPRIT_SYSTEM: CulpritClass.SYSTEM,
    records.CULPRIT_ENDED: CulpritClass.ENDED,
}


def merge_waits(into: Waits, found: Iterable[tuple[WaitKey, WaitSums]]) -> None:
    """Add entries drained from the kernel, epochs of one window together."""
    for key, more in found:
        key = replace(key, epoch=0)
        old = into.get(key, _NONE)
        longer = more if more.longest_ns > old.longest_ns else old
        into[key] = WaitSums(
            old.woken_ns + more.woken_ns,
            old.preempted_ns + more.preempted_ns,
            old.throttled_ns + more.throttled_ns,
            old.unnamed_ns + more.unnamed_ns,
            longer.longest_ns,
            longer.longest_end_ns,
            _added(old.woken, more.woken),
            _added(old.preempted, more.preempted),
        )


def merge_culprits(into: Culprits, found: Iterable[tuple[CulpritKey, CulpritSums]]) -> None:
    """Like :func:`merge_waits`, for what had the CPU meanwhile."""
    for key, more in found:
        key = replace(key, epoch=0)
        old = into.get(key, CulpritSums(0, 0, 0, more.tgid))
        into[key] = CulpritSums(
            old.ns + more.ns, old.count + more.count, max(old.longest_ns, more.longest_ns), more.tgid
        )


def _added(old: bytes, more: bytes) -> bytes:
    return _BUCKETS.pack(*map(sum, zip(_BUCKETS.unpack(old), _BUCKETS.unpack(more), strict=True)))


def delays(
    claim: str, ident: int, rows: Iterable[Row], waits: Mapping[WaitKey, WaitSums], start_ns: int
) -> list[Delay]:
    """Make a claim's rows, one for each CPU on which its tasks waited or from which they were moved.

    :param rows: the ledger's, by CPU. :param start_ns: when the window began (CLOCK_MONOTONIC).
    """
    found = []
    for cpu, row in enumerate(rows):
        sums = waits.get(WaitKey(0, ident, cpu), _NONE)
        if not (row.wait_ns or row.migrations or sums.longest_ns):
            continue
        found.append(
            Delay(
                claim=claim,
                cpu=cpu,
                wait_ns=row.wait_ns,
                woken_ns=sums.woken_ns,
                preempted_ns=sums.preempted_ns,
                throttled_ns=sums.throttled_ns,
                unnamed_ns=sums.unnamed_ns,
                longest_ns=sums.longest_ns,
                longest_at_ns=max(0, sums.longest_end_ns - start_ns) if sums.longest_ns else None,
                woken=_counts(sums.woken),
                preempted=_counts(sums.preempted),
                migrations=row.migrations,
            )
        )
    return found


def _counts(buckets: bytes) -> tuple[int, ...]:
    counts = _BUCKETS.unpack(buckets)
    return counts[: max((at + 1 for at, count in enumerate(counts) if count), default=0)]


def culprits(
    found: Mapping[CulpritKey, CulpritSums],
    claims: Mapping[int, str],
    names: Mapping[int, str],
    cgroups: Mapping[int, str],
    observer_pid: int,
) -> tuple[Culprit, ...]:
    """Name what had the CPU while these claims waited, the worst of each first.

    :param claims: whose waits, ident -> name. :param names: of all claims. :param cgroups: paths by id.
    """
    sums: dict[tuple[str, int, CulpritClass, str, str], CulpritSums] = {}
    for key, one in found.items():
        if key.ident not in claims:
            continue
        owner, name, cgroup = _CLASSES[key.kind], comm(key.comm), ""
        if owner is CulpritClass.CLAIM:
            name = names.get(key.of, "")
        elif owner is CulpritClass.FOREIGN_POD:
            cgroup = cgroups.get(key.of, "")
        elif owner is CulpritClass.SYSTEM and one.tgid == observer_pid:
            owner = CulpritClass.TOOLKIT
        place = (claims[key.ident], key.cpu, owner, name, cgroup)
        old = sums.get(place, CulpritSums(0, 0, 0, one.tgid))
        sums[place] = CulpritSums(old.ns + one.ns, old.count + one.count, max(old.longest_ns, one.longest_ns), one.tgid)
    rows = [
        Culprit(
            claim=claim,
            cpu=cpu,
            owner=owner,
            name=name,
            turns=one.count,
            total_ns=one.ns,
            longest_ns=one.longest_ns,
            cgroup=cgroup,
        )
        for (claim, cpu, owner, name, cgroup), one in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.claim, -row.total_ns, row.cpu, row.owner, row.name, row.cgroup)))
