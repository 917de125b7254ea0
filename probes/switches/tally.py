"""From the ledger's records to the rows of :class:`Evidence`: pure functions, no kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from probes.records import comm
from probes.switches.records import LEFT_VISIT, IntruderKey, IntruderSums, Offence, OffenceKey, Row
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuUse, Intruder, Joinings, OwnerClass
from toolkit.model.verdict import Offender

Offences = dict[OffenceKey, Offence]
Intruders = dict[IntruderKey, IntruderSums]
Sums = TypeVar("Sums", Offence, IntruderSums)


def in_window(epoch: int, window: int) -> bool:
    """Say whether a detail entry was made in this window."""
    return epoch >> 8 == window & 0xFFFFFF


def merge_offences(into: Offences, found: Iterable[tuple[OffenceKey, Offence]]) -> None:
    """Add entries drained from the kernel, epochs of one window together."""
    for key, more in found:
        key = replace(key, epoch=0)
        old = into.get(key)
        into[key] = more if old is None else _together(old, more)


def merge_intruders(into: Intruders, found: Iterable[tuple[IntruderKey, IntruderSums]]) -> None:
    """Like :func:`merge_offences`, for intruders."""
    for key, more in found:
        key = replace(key, epoch=0)
        old = into.get(key)
        into[key] = more if old is None else replace(_together(old, more), ident=more.ident or old.ident)


def _together(old: Sums, more: Sums) -> Sums:
    """Sum up what was counted of one thread in one place; it has the name that it had last."""
    longer = more if more.longest_ns > old.longest_ns else old
    return replace(
        more,
        switches=old.switches + more.switches,
        ns=old.ns + more.ns,
        longest_ns=longer.longest_ns,
        longest_end_ns=longer.longest_end_ns,
        first_ns=min(old.first_ns, more.first_ns),
        last_ns=max(old.last_ns, more.last_ns),
        comm=max(old, more, key=lambda sums: sums.last_ns).comm,
    )


def row(counts: Mapping[str, int]) -> Row:
    """Make a row of the counters that are given; the others are 0."""
    return Row(**{field.name: counts.get(field.name, 0) for field in fields(Row)})


def sum_rows(row: Row, more: Row | None) -> Row:
    """Add the counters of two rows; the longest is the longer one."""
    if more is None:
        return row
    values = {field.name: getattr(row, field.name) + getattr(more, field.name) for field in fields(Row)}
    return Row(**(values | {"out_longest_ns": max(row.out_longest_ns, more.out_longest_ns)}))


def cpu_use(claim: str, rows: list[Row], sampled: CpuSet, cuts: Mapping[int, int] | None = None) -> list[CpuUse]:
    """Make a claim's rows, one for each CPU on which it did anything.

    :param cuts: by CPU: how often a task was moved in or out while it ran there.
    """
    return [
        CpuUse(
            claim=claim,
            cpu=cpu,
            switches=row.switches,
            run_ns=row.ns,
            idle_wakes=row.idle_wakes,
            arrival_lag_ns=row.arrival_lag_ns,
            departure_lag_ns=row.departure_lag_ns,
            out_of_set_switches=row.out_switches,
            out_of_set_ns=row.out_ns,
            out_of_set_longest_ns=row.out_longest_ns,
            transition_switches=row.transition_switches,
            transition_ns=row.transition_ns,
            samples=row.samples,
            out_of_set_samples=row.out_samples,
            standstill_ns=row.standstill_ns if cpu in sampled else 0,
            cuts=(cuts or {}).get(cpu, 0),
        )
        for cpu, row in enumerate(rows)
        if row.switches or row.ns or row.samples
    ]


def offenders(offences: Offences, claims: Mapping[int, str], start_ns: int) -> tuple[Offender, ...]:
    """Name which tasks ran outside, the worst first. ``claims``: ident -> name."""
    found = [
        Offender(
            claim=claims[key.ident],
            tid=key.tid,
            comm=comm(offence.comm),
            cpu=key.cpu,
            first_at_ns=max(0, offence.first_ns - start_ns),
            total_ns=offence.ns,
            longest_ns=offence.longest_ns,
            switches=offence.switches,
            last_at_ns=max(0, offence.last_ns - start_ns),
            longest_at_ns=max(0, offence.longest_end_ns - start_ns),
        )
        for key, offence in offences.items()
        if key.ident in claims
    ]
    return tuple(sorted(found, key=lambda row: (-row.total_ns, row.claim, row.tid, row.cpu)))


WORST_JOINERS = 16
"""Threads that are named of a claim's joinings in one window."""


@dataclass(slots=True)
class Joined:
    """What one process ran outside in one joining."""

    slowest_ns: int = 0
    threads: Offences = field(default_factory=dict)

    @property
    def outside_ns(self) -> int:
        """Of the thread that was outside longest, on all CPUs: they are outside at the same time."""
        spent: Counter[tuple[int, int]] = Counter()
        for key, one in self.threads.items():
            spent[key.tid, key.life] += one.ns
        return max(spent.values(), default=0)


def joinings(found: Mapping[tuple[int, int, int], Joined], claims: Mapping[int, str], start_ns: int) -> list[Joinings]:
    """Sum up the joinings of each claim, by its name. ``found``: by ident, process and time; ``claims``: as above."""
    by_claim: dict[int, list[Joined]] = {}
    for (ident, _, _), one in found.items():
        by_claim.setdefault(ident, []).append(one)
    rows = []
    for ident, joined in by_claim.items():
        threads: Offences = {}
        for one in joined:
            merge_offences(threads, one.threads.items())
        if ident in claims:
            rows.append(
                Joinings(
                    claim=claims[ident],
                    count=len(joined),
                    outside_ns=sum(one.outside_ns for one in joined),
                    slowest_ns=max(one.slowest_ns for one in joined),
                    worst=offenders(threads, claims, start_ns)[:WORST_JOINERS],
                )
            )
    return sorted(rows, key=lambda row: row.claim)


def intruder(
    key: IntruderKey,
    sums: IntruderSums,
    owner: OwnerClass,
    cgroup: str,
    start_ns: int,
    claim: str = "",
    *,
    gone: bool = False,
) -> Intruder:
    """Make one intruder row. :param claim: whose it is, or was before it left. :param gone: its cgroup was deleted."""
    return Intruder(
        claim=claim,
        left=key.left & ~LEFT_VISIT,
        visit=bool(key.left & LEFT_VISIT),
        cpu=key.cpu,
        tid=key.tid,
        comm=comm(sums.comm),
        owner=owner,
        cgroup=cgroup,
        switches=sums.switches,
        total_ns=sums.ns,
        longest_ns=sums.longest_ns,
        first_at_ns=max(0, sums.first_ns - start_ns),
        gone=gone,
        longest_at_ns=max(0, sums.longest_end_ns - start_ns),
    )
