"""Resident pages of the claims that were promised NUMA nodes, read when the window has closed.

The kernel walks the page tables of each process under its map's lock: never while switches are being judged, and for a
window that stays open at most once in :data:`AGAIN_S` seconds. Source: proc(5); docs/failures.md F66.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.numa_maps import read_pages
from toolkit.model.claims import Claim
from toolkit.model.placement import PageReading

AGAIN_S = 60.0


def sample_pages(hierarchy: Hierarchy, claims: Iterable[Claim], root: Path) -> tuple[PageReading, ...]:
    """Read every claim that was promised NUMA nodes, once."""
    return tuple(
        read_pages(claim.name, cgroupfs.pids(hierarchy, claim.cgroup), root, claim.mems)
        for claim in claims
        if claim.mems is not None
    )


class PageSampler:
    """The latest reading, taken again when it is old."""

    def __init__(self) -> None:
        self._read_at_s: float | None = None
        self._found: tuple[PageReading, ...] = ()

    def latest(
        self, hierarchy: Hierarchy, claims: Iterable[Claim], root: Path, *, now: bool
    ) -> tuple[PageReading, ...]:
        """Return the latest reading; ``now``: read in any case."""
        moment = time.monotonic()
        if now or self._read_at_s is None or moment - self._read_at_s >= AGAIN_S:
            self._found = sample_pages(hierarchy, claims, root)
            self._read_at_s = moment
        return self._found
