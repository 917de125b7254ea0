"""Where memory and devices are: rows as they were read."""

from __future__ import annotations

from dataclasses import dataclass

from probes.readings import Part, Reading, Readings
from toolkit.model.evidence.memory import MemoryEvidence
from toolkit.model.placement import DevicePlace, HugetlbUse, PageReading


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading(Reading):
    """The claims' pages, huge pages and devices at the end of a window."""

    pages: tuple[PageReading, ...] = ()
    hugetlb: tuple[HugetlbUse, ...] = ()
    devices: tuple[DevicePlace, ...] = ()

    def decode(self, readings: Readings) -> Part:
        """Return the rows."""
        del readings
        return Part(evidence=MemoryEvidence(pages=self.pages, hugetlb=self.hugetlb, devices=self.devices))
