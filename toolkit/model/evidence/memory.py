"""What the witness of memory and devices gives; its rows are in :mod:`toolkit.model.placement`."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.placement import DevicePlace, HugetlbUse, PageReading
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, kw_only=True)
class MemoryEvidence:
    """Where the claims' memory and devices are."""

    pages: tuple[PageReading, ...] | None = None
    """Resident memory of the claims that were promised NUMA nodes; ``None``: not read."""
    hugetlb: tuple[HugetlbUse, ...] | None = None
    """Huge pages of the claims that were promised some; ``None``: not read."""
    devices: tuple[DevicePlace, ...] | None = None
    """The devices that claims name; ``None``: not read."""
