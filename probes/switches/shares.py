"""What pieces add to the ledger: intervals that user space has cut, as rows, offences and intruders of their window.

The same arithmetic as in ``probes/switches/ledger.bpf.c`` and ``probes/switches/offences.h``, for the few intervals in
which a task was moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from probes.switches import tally
from probes.switches.published import Published
from probes.switches.records import (
    EVENT_OUTSIDE,
    PIECE_COUNTED,
    PIECE_ENDED,
    PIECE_FROM_IDLE,
    PIECE_TICK,
    PODS_IDENT,
    Detail,
    IntruderKey,
    IntruderSums,
    Offence,
    OffenceKey,
    Piece,
    Row,
)
from probes.switches.trails import Stay


@dataclass(slots=True)
class Shares:
    """Sums of one window. :meth:`add` takes pieces that were cut.

    :param slot_ns: the length of the slots of CPU time.
    """

    published: Published
    slot_ns: int
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    """By ident and CPU."""
    cuts: dict[tuple[int, int], int] = field(default_factory=dict)
    """By ident and CPU: how often a task came or went while it ran there."""
    offences: tally.Offences = field(default_factory=dict)
    intruders: tally.Intruders = field(default_factory=dict)
    joinings: dict[tuple[int, int, int], tally.Joined] = field(default_factory=dict)
    """By ident, process, and when it joined the identity."""
    slots: dict[int, dict[int, int]] = field(default_factory=dict)
    """By ident and slot: CPU time that was not taken out."""
    _open: int = 0
    """The first slot that may still be added to."""

    def add(self, piece: Piece, stays: Iterable[Stay]) -> list[Detail]:
        """Add an interval; returns the times outside that were found, for a live report."""
        found = []
        for stay in stays:
            if stay.ident in (0, PODS_IDENT):
                self._intruder(piece, stay)
                continue
            offence = self._claimed(piece, stay)
            if offence is not None:
                what = (offence.first_ns, offence.last_ns, stay.ident, piece.tid, piece.tgid, piece.cpu, piece.comm)
                found.append(Detail(EVENT_OUTSIDE, piece.window, *what))
        return found

    def added_to(self, ident: int, rows: list[Row]) -> list[Row]:
        """Return a claim's rows by CPU with what was added to them."""
        return [tally.sum_rows(row, self.rows.get((ident, cpu))) for cpu, row in enumerate(rows)]

    def spread(self, until: int) -> dict[int, dict[int, int]]:
        """Take out the CPU time of the slots before this one, by ident. What comes later still is the next slot's."""
        found: dict[int, dict[int, int]] = {}
        for ident, slots in self.slots.items():
            old = [number for number in slots if number < until]
            if old:
                found[ident] = {number: slots.pop(number) for number in old}
        self._open = max(self._open, until)
        return found

    def ns(self) -> dict[int, int]:
        """Return the CPU time that was added, by ident."""
        found: dict[int, int] = {}
        for (ident, _), row in self.rows.items():
            found[ident] = found.get(ident, 0) + row.ns
        return found

    def _claimed(self, piece: Piece, stay: Stay) -> Offence | None:
        bound = self.published.of(stay.ident, piece.now_ns)
        last = stay.to_ns == piece.now_ns
        ended, tick = last and bool(piece.flags & PIECE_ENDED), last and bool(piece.flags & PIECE_TICK)
        counts = {
            "switches": int(ended),
            "ns": stay.to_ns - stay.from_ns,
            "idle_wakes": int(ended and bool(piece.flags & PIECE_FROM_IDLE)),
            "samples": int(tick),
            # A CPU stands still for the whole of a piece: each of those that were charged for it ran on such a one.
            "standstill_ns": min(piece.standstill_ns, stay.to_ns - stay.from_ns),
        }
        if bound is None or piece.cpu in bound.cpus:
            self._add_row(piece, stay, counts)
            return None
        binds = stay.to_ns if stay.joining else min(stay.to_ns, max(stay.from_ns, bound.binds_from(piece.cpu)))
        if binds > stay.from_ns:
            counts |= {"transition_ns": binds - stay.from_ns, "transition_switches": 1}
        if stay.joined_ns:
            self._joined(piece, stay)
        offence = None
        if binds < stay.to_ns:
            offence = self._offence(piece, stay, binds)
            counts |= {
                "out_switches": offence.switches,
                "out_ns": offence.ns,
                "out_longest_ns": offence.longest_ns,
                "out_samples": int(tick),
            }
        self._add_row(piece, stay, counts)
        return offence

    def _offence(self, piece: Piece, stay: Stay, binds: int) -> Offence:
        first = stay.from_ns == piece.from_ns
        # A stay is counted once: here when it ends, or by the program before this piece or after it.
        over = stay.to_ns < piece.now_ns or bool(piece.flags & PIECE_ENDED)
        count = int(over and not (first and piece.flags & PIECE_COUNTED))
        begin = piece.start_ns if first and binds == stay.from_ns else binds
        offence = Offence(
            switches=count,
            ns=stay.to_ns - binds,
            longest_ns=stay.to_ns - begin,
            first_ns=binds,
            last_ns=stay.to_ns,
            longest_end_ns=stay.to_ns,
            tgid=piece.tgid,
            pad=0,
            comm=piece.comm,
        )
        key = OffenceKey(0, stay.ident, piece.tid, piece.cpu, piece.life)
        tally.merge_offences(self.offences, [(key, offence)])
        return offence

    def _joined(self, piece: Piece, stay: Stay) -> None:
        joined = self.joinings.setdefault((stay.ident, piece.tgid, stay.joined_ns), tally.Joined())
        joined.slowest_ns = max(joined.slowest_ns, stay.complete_ns - stay.joined_ns)
        ns = stay.to_ns - stay.from_ns
        ended = int(stay.to_ns < piece.now_ns or bool(piece.flags & PIECE_ENDED))
        sums = Offence(ended, ns, ns, stay.from_ns, stay.to_ns, stay.to_ns, piece.tgid, 0, piece.comm)
        key = OffenceKey(0, stay.ident, piece.tid, piece.cpu, piece.life)
        tally.merge_offences(joined.threads, [(key, sums)])

    def _intruder(self, piece: Piece, stay: Stay) -> None:
        if not piece.tid or piece.cpu not in self.published.watched(piece.now_ns):
            return
        cgroup = 0 if stay.joining else stay.cgroup
        key = IntruderKey(0, piece.cpu, piece.tid, piece.life, cgroup, stay.origin, stay.left)
        length = stay.to_ns - stay.from_ns
        over = stay.to_ns < piece.now_ns or bool(piece.flags & PIECE_ENDED)
        sums = IntruderSums(
            switches=int(over),
            ns=length,
            longest_ns=length,
            first_ns=stay.from_ns,
            last_ns=stay.to_ns,
            longest_end_ns=stay.to_ns,
            tgid=piece.tgid,
            flags=piece.task_flags,
            nr_cpus_allowed=piece.nr_cpus_allowed,
            ident=0 if stay.joining else stay.ident,
            comm=piece.comm,
        )
        tally.merge_intruders(self.intruders, [(key, sums)])

    def _add_row(self, piece: Piece, stay: Stay, counts: dict[str, int]) -> None:
        place = (stay.ident, piece.cpu)
        # A piece without a cut inside is one where the kernel's move and its word lie on both sides of the end.
        cuts = (stay.from_ns > piece.from_ns) + (stay.to_ns < piece.now_ns)
        self.cuts[place] = self.cuts.get(place, 0) + max(1, cuts)
        self.rows[place] = tally.sum_rows(tally.row(counts), self.rows.get(place))
        slots = self.slots.setdefault(stay.ident, {})
        number = max(self._open, stay.to_ns // self.slot_ns)
        slots[number] = slots.get(number, 0) + counts["ns"]
