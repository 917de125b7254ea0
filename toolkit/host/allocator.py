"""The C library's allocator, told to give memory back: a watch makes megabytes in each window, and drops them.

By itself it keeps what large pieces were made of once one was given back (the threshold from which a piece is a mapping
of its own grows up to 32 MiB), and has a heap for each of the first threads, none of which shrinks in the middle.
Source: mallopt(3), "M_MMAP_THRESHOLD", "M_TRIM_THRESHOLD", "M_ARENA_MAX".
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
LARGE_BYTES = 256 * 1024
"""From here on a piece is a mapping of its own, which is gone when it is given back."""
KEPT_BYTES = 1024 * 1024
"""So much may be free at the end of the heap."""


def give_memory_back() -> None:
    """Set it for this process; before other threads begin. Another C library (musl) has nothing to set."""
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for what, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES)):
            mallopt(what, value)
