"""Where this process's own threads may run.

Source: sched_setaffinity(2): of one thread; what a thread starts has its mask.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")


def confine(cpus: frozenset[int]) -> None:
    """Let every thread that this process has now run on these CPUs alone; one for which that cannot be stays."""
    with suppress(OSError):  # a /proc that is hidden
        for name in os.listdir(_TASKS):  # noqa: PTH208 - a name is all that is wanted
            with suppress(OSError):  # it has ended meanwhile, or a cpuset leaves it none of them
                os.sched_setaffinity(int(name), cpus)
