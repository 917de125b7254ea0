"""From records of moves and affinity changes to their part of the evidence: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.actions.records import Affinity, Move
from probes.readings import Part, Reading, Readings
from probes.records import comm
from toolkit.model.actions import AffinityChange, CgroupMove
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.actions import ActionCoverage, ActionEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """How many were not reported, since the programs were loaded."""

    moves: int = 0
    affinities: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReading(Reading):
    """The actions of one window.

    :param first, last: before the window opened, and after it closed.
    :param affinities: ``None`` where they are not observed.
    :param hierarchies: names of the cgroup hierarchies, by number.
    :param blind_spots: what cannot be seen on this kernel.
    """

    first: Dropped
    last: Dropped
    moves: tuple[Move, ...] = ()
    affinities: tuple[Affinity, ...] | None = None
    hierarchies: Mapping[int, str] = field(default_factory=dict)
    blind_spots: tuple[str, ...] = ()

    def decode(self, readings: Readings) -> Part:
        """Return who moved and changed what, and how many were not reported."""
        names, start_ns = readings.frame.names, readings.frame.start_ns
        moves = (move_row(event, names, self.hierarchies, start_ns) for event in self.moves)
        changes = (affinity_row(event, names, start_ns) for event in self.affinities or ())
        coverage = ActionCoverage(
            cgroup_moves_dropped=self.last.moves - self.first.moves,
            affinity_changes_dropped=self.last.affinities - self.first.affinities,
        )
        lost = (
            (coverage.cgroup_moves_dropped, "moves between cgroups"),
            (coverage.affinity_changes_dropped, "affinity changes"),
        )
        texts = [*self.blind_spots, *(f"{count} {what} were not reported" for count, what in lost if count > 0)]
        return Part(
            evidence=ActionEvidence(
                cgroup_moves=tuple(sorted(moves, key=lambda row: (row.at_ns, row.tid))),
                affinity_changes=None
                if self.affinities is None
                else tuple(sorted(changes, key=lambda row: (row.at_ns, row.tid))),
            ),
            coverage=coverage,
            spots=tuple(BlindSpot(text=text, witnesses=(Witness.ACTIONS,)) for text in texts),
        )


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
