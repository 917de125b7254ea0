"""The kernel's own witness of waits: ``cpu.pressure`` of the claims' cgroups, at both ends of a window.

The kernel adds up what its CPUs counted, in whole jiffies for their weights, each time that the file is read. So it is
not read in between: a look at an open window has none.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from probes.cgroups.decoder import PressureReading
from probes.observer import Observer
from probes.subjects import Subject
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.host.cgroup_pressure import Pressure, read_pressure


@dataclass(frozen=True, slots=True)
class PressureEdge:
    """By cgroup."""

    pressures: Mapping[str, Pressure | str]


class PressureWatch(Watch):
    """One window."""

    def __init__(self, hierarchy: Hierarchy, first: PressureEdge) -> None:
        self._hierarchy = hierarchy
        self._first = dict(first.pressures)
        self._last: dict[str, Pressure | str] = {}

    def claim_added(self, subject: Subject) -> None:
        """Begin with a claim: what its cgroup had waited by then is not its own."""
        self._first[subject.claim.cgroup] = read_pressure(self._hierarchy, subject.claim.cgroup)
        self._last.pop(subject.claim.cgroup, None)

    def last_look(self, subject: Subject) -> None:
        """Read it once more."""
        self._last[subject.claim.cgroup] = read_pressure(self._hierarchy, subject.claim.cgroup)

    def read(self, edge: Edge) -> PressureReading:
        """Return both ends."""
        return PressureReading(first=dict(self._first), last={**self._last, **edge.of(PressureEdge).pressures})


class PressureWitness(Witness):
    """Pressure stall information."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def begin(self, window: OpenWindow, first: Edge) -> PressureWatch:
        """Begin with a window."""
        del window
        return PressureWatch(self._observer.hierarchy, first.of(PressureEdge))

    def edge(self, turn: bool) -> Generator[None, None, PressureEdge]:
        """Read every claim's."""
        cgroups = {subject.claim.cgroup for subject in self._observer.subjects.values()} if turn else ()
        found = {cgroup: read_pressure(self._observer.hierarchy, cgroup) for cgroup in sorted(cgroups)}
        yield
        return PressureEdge(found)
