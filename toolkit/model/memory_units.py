"""What the kernel makes of an amount of memory."""

from __future__ import annotations

PAGES_BYTES = tuple(4096 << shift for shift in range(5))
"""Sizes of pages in use."""


def whole_pages(limit_bytes: int) -> frozenset[int]:
    """Return what a limit may read as: as it was written, and rounded down to whole pages of each size."""
    return frozenset((limit_bytes, *(limit_bytes - limit_bytes % page for page in PAGES_BYTES)))
