"""From records of writes to their part of the evidence: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.readings import Part, Reading, Readings
from probes.records import comm
from probes.writes.records import Write
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.evidence.writes import ControlWrite, WriteCoverage, WriteEvidence
from toolkit.text import names


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReading(Reading):
    """The writes of one window.

    :param writes: ``None`` where they are not observed.
    :param earlier: of each file the last accepted write before the window.
    :param first, last: how many were not reported since the programs were loaded: before the window opened, and
        after it closed.
    :param unkept: those that user space did not keep: too many in this window.
    :param cgroups: by the number that a record has.
    :param hierarchies: names of the cgroup hierarchies, by number.
    :param observer_pid: ours: what it wrote is our own.
    :param blind_spots: what cannot be seen on this kernel.
    """

    writes: tuple[Write, ...] | None = None
    earlier: tuple[Write, ...] = ()
    first: int = 0
    last: int = 0
    unkept: int = 0
    cgroups: Mapping[int, str] = field(default_factory=dict)
    hierarchies: Mapping[int, str] = field(default_factory=dict)
    observer_pid: int = 0
    blind_spots: tuple[str, ...] = ()

    def decode(self, readings: Readings) -> Part:
        """Return what wrote what, and how many writes were not reported."""
        others = {other.claim.cgroup for other in readings.frame.others}
        start_ns, dropped = readings.frame.start_ns, self.last - self.first + self.unkept
        texts = list(self.blind_spots)
        if dropped > 0:
            texts.append(f"{dropped} writes to control files were not reported")
        rows = [
            self._row(event, self.cgroups[event.cgroup], start_ns)
            for event in (*self.earlier, *(self.writes or ()))
            if event.cgroup in self.cgroups and self.cgroups[event.cgroup] not in others
        ]
        return Part(
            evidence=WriteEvidence(
                control_writes=None
                if self.writes is None
                else tuple(sorted(rows, key=lambda row: (row.at_ns, row.tid, row.file)))
            ),
            coverage=WriteCoverage(control_writes_dropped=dropped),
            spots=tuple(BlindSpot(text=text, witnesses=(Witness.ACTIONS,)) for text in texts),
        )

    def _row(self, event: Write, cgroup: str, start_ns: int) -> ControlWrite:
        return ControlWrite(
            at_ns=event.at_ns - start_ns,
            cgroup=cgroup,
            hierarchy=self.hierarchies.get(event.hierarchy, f"hierarchy {event.hierarchy}"),
            file=comm(event.file),
            value=names.shown(event.said),
            value_bytes=event.asked,
            errno=max(0, -event.result),
            pid=event.tgid,
            tid=event.tid,
            comm=comm(event.comm),
            own=event.tgid == self.observer_pid,
        )
