"""Time that the ledger counted outside a set, asked of the timeline: what of it was held, and what is in doubt.

A followed node is read again and again. CPUs that the next reading gives to a claim may have been the claim's since the
reading before it, so a task of the claim may have run there by right: that time is a transition's, no violation. The
ledger's own rows stay as they are: what they mean is said here, and the rules, the sums and the metrics ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.evidence import CpuUse, Evidence
from toolkit.model.held import EVERY, Held, Why
from toolkit.model.verdict import Offender
from toolkit.timeline.held import Timeline
from toolkit.timeline.saved import lent

Place = tuple[str, int]
"""A claim's name, and a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a claim's tasks ran on one CPU, in a window.

    :param row: as the ledger counted it.
    :param out_switches, out_ns, out_longest_ns, out_samples: outside its set, and on no CPU that it held all the same.
    :param transition_switches, transition_ns: in a transition: by the ledger, or as the timeline says.
    """

    row: CpuUse
    out_switches: int
    out_ns: int
    out_longest_ns: int
    out_samples: int
    transition_switches: int
    transition_ns: int

    @property
    def claim(self) -> str:
        """Whose it is."""
        return self.row.claim

    @property
    def cpu(self) -> int:
        """Where it was."""
        return self.row.cpu

    @property
    def outside(self) -> bool:
        """Whether any of it was outside."""
        return bool(self.out_switches or self.out_ns or self.out_samples)

    @property
    def steady(self) -> tuple[int, int]:
        """Switches and nanoseconds without those that belong to a transition."""
        row = self.row
        return max(0, row.switches - self.transition_switches), max(0, row.run_ns - self.transition_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What ran in a window, by the timeline.

    :param rows: of the ledger, in its order. :param offenders: what was outside all the same, in that of the evidence.
    :param unknown: what was outside when nothing was known of promises any more; ``None``: nothing was.
    """

    rows: tuple[Ran, ...]
    offenders: tuple[Offender, ...]
    unknown: BlindSpot | None = None


def asked(evidence: Evidence, timeline: Timeline | None = None) -> Asked:
    """Return what of a window's rows and offenders is outside.

    What the timeline gives must cover the first and the last moment of an offender; if the last is not known, the first
    alone, unless the set lost the CPU again in this window. Time that no named offender accounts for stays outside. An
    offender that came when nothing was certain any more (the watch got no CPU, for example) is none, and in doubt.

    :param timeline: what :func:`~toolkit.timeline.saved.lent` says of this evidence, where that is known already.
    """
    if timeline is None:
        timeline = lent(evidence) if evidence.offenders else Timeline()
    if not (evidence.offenders and timeline.rows):
        return Asked(rows=tuple(map(as_counted, evidence.cpu_use)), offenders=evidence.offenders)
    mine: dict[str, list[Held]] = {}
    for entry in timeline.rows:
        mine.setdefault(entry.claim, []).append(entry)
    outside, doubted = list[Offender](), list[Offender]()
    held: dict[Place, list[Offender]] = {}
    for one in evidence.offenders:
        unknown = is_unknown(one.first_at_ns, timeline)
        if unknown or _is_held(one, mine.get(one.claim, ()), evidence):
            held.setdefault((one.claim, one.cpu), []).append(one)
        else:
            outside.append(one)
        if unknown:
            doubted.append(one)
    guilty = {(one.claim, one.cpu) for one in outside}
    rows = tuple(
        _held(row, held[place], others=place in guilty) if (place := (row.claim, row.cpu)) in held else as_counted(row)
        for row in evidence.cpu_use
    )
    return Asked(rows=rows, offenders=tuple(outside), unknown=_spot(doubted, timeline))


def is_unknown(at_ns: int, timeline: Timeline) -> bool:
    """Return whether nothing is certain of any claim at a moment: the node was read last before it."""
    return any(row.why is Why.UNREAD for row in timeline.at(EVERY, at_ns))


def _spot(doubted: Iterable[Offender], timeline: Timeline) -> BlindSpot | None:
    names = ", ".join(sorted({one.claim for one in doubted}))
    if not names:
        return None
    text = f"{names} ran outside after the node was read last: what was promised by then is not known"
    at_ns = min(row.from_ns for row in timeline.rows if row.why is Why.UNREAD)
    return BlindSpot(text=text, witnesses=(Witness.SWITCHES,), start_at_ns=at_ns)


def _is_held(one: Offender, mine: Sequence[Held], evidence: Evidence) -> bool:
    rows = [row for row in mine if row.cpus is not None and one.cpu in row.cpus and row.covers(one.first_at_ns)]
    last_ns = one.last_at_ns
    if last_ns is not None:
        return any(last_ns < row.to_ns for row in rows)
    return bool(rows) and not _loses(one, min(row.to_ns for row in rows), evidence)


def _loses(one: Offender, end_ns: int, evidence: Evidence) -> bool:
    """Return whether the set lost the CPU again: what ran after that may be in the row, too."""
    later = (
        change.cpus_after for change in evidence.transitions if change.claim == one.claim and change.end_at_ns >= end_ns
    )
    return any(cpus is not None and one.cpu not in cpus for cpus in later)


def as_counted(row: CpuUse) -> Ran:
    """Return a row as the ledger judged it."""
    return Ran(
        row=row,
        out_switches=row.out_of_set_switches,
        out_ns=row.out_of_set_ns,
        out_longest_ns=row.out_of_set_longest_ns,
        out_samples=row.out_of_set_samples,
        transition_switches=row.transition_switches,
        transition_ns=row.transition_ns,
    )


def without_outside(row: Ran) -> Ran:
    """Return a row of which it is not known yet whether what is outside was promised: nothing of it is outside."""
    return replace(row, out_switches=0, out_ns=0, out_longest_ns=0, out_samples=0)


def _held(row: CpuUse, held: Sequence[Offender], *, others: bool) -> Ran:
    """Count what was held as a transition's. :param others: whether another task was outside there all the same."""
    switches = min(row.out_of_set_switches, sum(one.switches for one in held))
    spent_ns = min(row.out_of_set_ns, sum(one.total_ns for one in held))
    rest = row.out_of_set_switches - switches, row.out_of_set_ns - spent_ns
    outside = any(rest) or others
    return Ran(
        row=row,
        out_switches=rest[0],
        out_ns=rest[1],
        out_longest_ns=row.out_of_set_longest_ns if outside else 0,
        out_samples=row.out_of_set_samples if outside else 0,
        transition_switches=row.transition_switches + switches,
        transition_ns=row.transition_ns + spent_ns,
    )
