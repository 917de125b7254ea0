"""From records of moves and affinity changes to their part of the evidence: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.actions.records import ACTION_LEAVE, MOVE_BORN, MOVE_VISIT, Affinity, Move
from probes.readings import Part, Reading, Readings
from probes.records import comm
from probes.switches.decoder import SwitchReading
from probes.switches.records import LEFT_VISIT, PODS_IDENT
from toolkit.model.actions import AffinityChange, CgroupMove
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.actions import ActionCoverage, ActionEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """How many were not reported, since the programs were loaded."""

    moves: int = 0
    affinities: int = 0
    leaves: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReading(Reading):
    """The actions of one window.

    :param first, last: before the window opened, and after it closed.
    :param earlier: moves by which tasks left a claim or all pods in windows before.
    :param affinities: ``None`` where they are not observed.
    :param hierarchies: names of the cgroup hierarchies, by number.
    :param blind_spots: what cannot be seen on this kernel.
    """

    first: Dropped
    last: Dropped
    moves: tuple[Move, ...] = ()
    earlier: tuple[Move, ...] = ()
    affinities: tuple[Affinity, ...] | None = None
    hierarchies: Mapping[int, str] = field(default_factory=dict)
    blind_spots: tuple[str, ...] = ()

    def decode(self, readings: Readings) -> Part:
        """Return what moved and changed what, and how many were not reported."""
        names, start_ns = readings.frame.names, readings.frame.start_ns
        moves = (move_row(event, names, self.hierarchies, start_ns) for event in self.moves)
        ran = _left(readings) if self.earlier and readings.frame.strangers else frozenset()
        before = (event for event in self.earlier if (event.from_ident, event.tid) in ran)
        earlier = (move_row(event, names, self.hierarchies, start_ns) for event in before)
        changes = (affinity_row(event, names, start_ns) for event in self.affinities or ())
        coverage = ActionCoverage(
            cgroup_moves_dropped=self.last.moves - self.first.moves,
            affinity_changes_dropped=self.last.affinities - self.first.affinities,
            leaves_dropped=self.last.leaves - self.first.leaves,
        )
        lost = (
            (coverage.cgroup_moves_dropped, "moves between cgroups"),
            (coverage.affinity_changes_dropped, "affinity changes"),
        )
        texts = [*self.blind_spots, *(f"{count} {what} were not reported" for count, what in lost if count > 0)]
        spots = [BlindSpot(text=text, witnesses=(Witness.ACTIONS,)) for text in texts]
        if coverage.leaves_dropped > 0:
            text = f"{coverage.leaves_dropped} moves of tasks out of their claims were not reported"
            spots.append(BlindSpot(text=text, witnesses=_MISSED))
        return Part(
            evidence=ActionEvidence(
                cgroup_moves=tuple(sorted(moves, key=lambda row: (row.at_ns, row.tid))),
                left_before=tuple(sorted(earlier, key=lambda row: (row.at_ns, row.tid))),
                affinity_changes=None
                if self.affinities is None
                else tuple(sorted(changes, key=lambda row: (row.at_ns, row.tid))),
            ),
            coverage=coverage,
            spots=tuple(spots),
        )


_MISSED = (Witness.ACTIONS, Witness.SWITCHES, Witness.MASKS, Witness.FILES, Witness.BANDWIDTH)
"""What rests on no task leaving unseen."""


def _left(readings: Readings) -> frozenset[tuple[int, int]]:
    """Return what ran in this window on a watched CPU after such a leave: what was left, and by which thread."""
    found = next((one.intruders for one in readings.all if isinstance(one, SwitchReading)), {})
    return frozenset((key.origin, key.left & ~LEFT_VISIT) for key in found if key.origin)


def move_row(event: Move, names: Mapping[int, str], hierarchies: Mapping[int, str], start_ns: int) -> CgroupMove:
    """Make one row."""
    return CgroupMove(
        at_ns=event.at_ns - start_ns,
        tid=event.tid,
        comm=comm(event.comm),
        whole_process=bool(event.whole_process),
        from_claim=names.get(event.from_ident, ""),
        to_claim=names.get(event.to_ident, ""),
        hierarchy=hierarchies.get(event.hierarchy, f"hierarchy {event.hierarchy}"),
        cgroup=comm(event.path),
        writer_tid=event.writer_tid,
        writer_comm=comm(event.writer_comm),
        pid=event.tgid,
        writer_pid=event.writer_tgid,
        leaves=event.kind == ACTION_LEAVE,
        from_pods=event.from_ident == PODS_IDENT,
        visit=bool(event.flags & MOVE_VISIT),
        born=bool(event.flags & MOVE_BORN),
        writer_claim=names.get(event.writer_ident, ""),
        writer_in_pods=event.writer_ident == PODS_IDENT,
    )


def affinity_row(event: Affinity, names: Mapping[int, str], start_ns: int) -> AffinityChange:
    """Make one row."""
    return AffinityChange(
        at_ns=event.at_ns - start_ns,
        tid=event.tid,
        claim=names.get(event.ident, ""),
        cpus=CpuSet(int.from_bytes(event.cpus, "little")),
        errno=-event.result,
        caller_tid=event.caller_tid,
        caller_comm=comm(event.caller_comm),
        caller_claim=names.get(event.caller_ident, ""),
        caller_pid=event.caller_tgid,
    )
