"""Where our own threads run while a machine is watched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from toolkit.model.cpuset import CpuSet


@contextmanager
def keep_off(cpus: CpuSet) -> Iterator[None]:
    """Keep our own threads off the exclusive CPUs while we watch, where other CPUs are left.

    The calling thread, and those that it starts meanwhile.
    """
    before = os.sched_getaffinity(0)
    wanted = before - set(cpus)
    if wanted:
        os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        # None of them may be there any more (a hotplug, a cpuset): what the block came to counts, not this.
        with suppress(OSError):
            os.sched_setaffinity(0, before)
