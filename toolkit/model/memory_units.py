"""What the kernel makes of an amount of memory."""

from __future__ import annotations

PAGES_BYTES = tuple(4096 << shift for shift in range(5))
"""Sizes of pages in use."""
NO_LIMIT = -1
"""A limit whose file says that there is none."""
MAX_BYTES = 1 << 63


def limit_in_force(found_bytes: int, page_bytes: int = PAGES_BYTES[-1]) -> int:
    """Return what a limit file's number means: cgroup v1 states ``no limit`` as the most that the counter holds.

    That is LONG_MAX in whole pages; any smaller number is a limit. Source: Linux ``mm/page_counter.c``,
    ``include/linux/page_counter.h`` (PAGE_COUNTER_MAX), ``mm/hugetlb_cgroup.c`` (rounded down to the huge page).
    """
    return NO_LIMIT if found_bytes >= MAX_BYTES - page_bytes else found_bytes


def whole_pages(limit_bytes: int) -> frozenset[int]:
    """Return what a limit may read as: as it was written, and rounded down to whole pages of each size.

    One that is beyond the counter reads as none.
    """
    if limit_bytes == NO_LIMIT:
        return frozenset((NO_LIMIT,))
    rounded = (limit_bytes, *(limit_bytes - limit_bytes % page for page in PAGES_BYTES))
    return frozenset((*rounded, limit_in_force(limit_bytes)))
