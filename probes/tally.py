"""From the ledger's records to the rows of :class:`Evidence`: pure functions, no kernel.

A window's undecided intervals (``pending``) are settled here: transition where the kernel said that their task was
being moved in, out of set otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from probes.joins import JoinLog, Resolution
from probes.records import IntruderKey, IntruderSums, Offence, OffenceKey, Row, comm
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuUse, Intruder, OwnerClass
from toolkit.model.verdict import Offender

Offences = dict[OffenceKey, Offence]
Intruders = dict[IntruderKey, IntruderSums]


def in_window(epoch: int, window: int) -> bool:
    """Say whether a detail entry was made in this window."""
    return epoch >> 8 == window & 0xFFFFFF


def merge_offences(into: Offences, found: Iterable[tuple[OffenceKey, Offence]]) -> None:
    """Add entries drained from the kernel, epochs of one window together."""
    for key, more in found:
        key = replace(key, epoch=key.epoch >> 8)
        old = into.get(key)
        if old is not None:
            more = replace(
                more,
                switches=old.switches + more.switches,
                ns=old.ns + more.ns,
                longest_ns=max(old.longest_ns, more.longest_ns),
                first_ns=min(old.first_ns, more.first_ns),
                last_ns=max(old.last_ns, more.last_ns),
            )
        into[key] = more


def merge_intruders(into: Intruders, found: Iterable[tuple[IntruderKey, IntruderSums]]) -> None:
    """Like :func:`merge_offences`, for intruders."""
    for key, more in found:
        key = replace(key, epoch=key.epoch >> 8)
        old = into.get(key)
        if old is not None:
            more = replace(
                more,
                switches=old.switches + more.switches,
                ns=old.ns + more.ns,
                longest_ns=max(old.longest_ns, more.longest_ns),
                first_ns=min(old.first_ns, more.first_ns),
                last_ns=max(old.last_ns, more.last_ns),
            )
        into[key] = more


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Undecided intervals, settled: ``waiting`` ones are too young to tell."""

    violations: Offences
    transitions: Offences
    waiting: int


def settle(pending: Offences, joins: JoinLog, now_ns: int, patience_ns: int) -> Settled:
    """Decide every undecided entry that is old enough."""
    violations: Offences = {}
    transitions: Offences = {}
    waiting = 0
    for key, offence in pending.items():
        outcome = joins.resolve(key.tid, offence, now_ns, patience_ns)
        if outcome is Resolution.TRANSITION:
            transitions[key] = offence
        elif outcome is Resolution.VIOLATION:
            violations[key] = offence
        else:
            waiting += 1
    return Settled(violations=violations, transitions=transitions, waiting=waiting)


def cpu_use(claim: str, ident: int, rows: list[Row], settled: Settled, sampled: CpuSet) -> list[CpuUse]:
    """Make a claim's rows, one for each CPU on which it did anything."""
    late: dict[int, list[Offence]] = {}
    moved: dict[int, list[Offence]] = {}
    for target, source in ((late, settled.violations), (moved, settled.transitions)):
        for key, offence in source.items():
            if offence.ident == ident:
                target.setdefault(key.cpu, []).append(offence)
    result = []
    for cpu, row in enumerate(rows):
        if not (row.switches or row.ns or row.samples or cpu in late or cpu in moved):
            continue
        out, trans = late.get(cpu, []), moved.get(cpu, [])
        result.append(
            CpuUse(
                claim=claim,
                cpu=cpu,
                switches=row.switches,
                run_ns=row.ns,
                idle_wakes=row.idle_wakes,
                out_of_set_switches=row.out_switches + sum(o.switches for o in out),
                out_of_set_ns=row.out_ns + sum(o.ns for o in out),
                out_of_set_longest_ns=max([row.out_longest_ns, *(o.longest_ns for o in out)]),
                transition_switches=row.transition_switches + sum(o.switches for o in trans),
                transition_ns=row.transition_ns + sum(o.ns for o in trans),
                samples=row.samples,
                out_of_set_samples=row.out_samples,
                standstill_ns=row.standstill_ns if cpu in sampled else 0,
            )
        )
    return result


def offenders(offences: Iterable[Offences], claims: Mapping[int, str], start_ns: int) -> tuple[Offender, ...]:
    """Name who ran outside, the worst first. ``claims``: ident -> name."""
    found: dict[tuple[int, int, int], Offender] = {}
    for entries in offences:
        for key, offence in entries.items():
            name = claims.get(offence.ident)
            if name is None:
                continue
            place = (offence.ident, key.tid, key.cpu)
            row = Offender(
                claim=name,
                tid=key.tid,
                comm=comm(offence.comm),
                cpu=key.cpu,
                first_at_ns=max(0, offence.first_ns - start_ns),
                total_ns=offence.ns,
                longest_ns=offence.longest_ns,
                switches=offence.switches,
            )
            old = found.get(place)
            if old is not None:
                row = replace(
                    row,
                    first_at_ns=min(old.first_at_ns, row.first_at_ns),
                    total_ns=old.total_ns + row.total_ns,
                    longest_ns=max(old.longest_ns, row.longest_ns),
                    switches=old.switches + row.switches,
                )
            found[place] = row
    return tuple(sorted(found.values(), key=lambda row: (-row.total_ns, row.claim, row.tid, row.cpu)))


def intruder(key: IntruderKey, sums: IntruderSums, owner: OwnerClass, cgroup: str, start_ns: int) -> Intruder:
    """Make one intruder row."""
    return Intruder(
        cpu=key.cpu,
        tid=key.tid,
        comm=comm(sums.comm),
        owner=owner,
        cgroup=cgroup,
        switches=sums.switches,
        total_ns=sums.ns,
        longest_ns=sums.longest_ns,
        first_at_ns=max(0, sums.first_ns - start_ns),
    )
