"""Limits of this process that loading programs and watching every CPU needs to be wide.

Source: setrlimit(2). A service begins with 1,024 open files, and each CPU takes some (perf events).
"""

from __future__ import annotations

import contextlib
import resource

OPEN_FILES = 1 << 16
"""Enough for every CPU that a machine may have. Not the hard limit, which some hosts set to 2^30: what we start
inherits it, and some programs close every number up to it before they begin."""


def widen(open_files: int = OPEN_FILES) -> None:
    """Lift the limit of locked memory, and raise that of open files as far as we may.

    Kernels before 5.11 charge maps to locked memory. What does not work is left to the load, which says what it lacks.
    """
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    boundless = resource.RLIM_INFINITY
    if soft == boundless or soft >= open_files:
        return
    # The hard limit, too, where we may: of control files that cannot stay open each is opened at every reading.
    may_raise = (open_files, hard if hard == boundless else max(hard, open_files))
    may_not = (open_files if hard == boundless else min(open_files, hard), hard)
    for wanted in (may_raise, may_not):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, wanted)
            return
