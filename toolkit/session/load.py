"""Loads that have begun: nothing is watched before what should be busy is."""

from __future__ import annotations

import time
from pathlib import Path

from toolkit.errors import ApplyError
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet

LOAD_DEADLINE_S = 30.0
"""A container of the least weight (2 shares) beside ten busy tasks of the default weight (1024) on its CPU has a slice
of 3 ms every 15 s, and the millisecond that is asked for with it; twice that."""


def await_load(claims: ClaimSet, root: Path, names: frozenset[str] | None = None) -> None:
    """Wait until every load that should be busy has used CPU time. :param names: claims that run by now; all if None.

    :raises ApplyError: one does not start within :data:`LOAD_DEADLINE_S`.
    """
    hierarchy = cgroupfs.detect(root)
    busy = [claim for claim in claims.claims if claim.demand_cpus and (names is None or claim.name in names)]
    waiting = {claim.name: claim.cgroup for claim in busy}
    base = {name: cgroupfs.read_cpu_stat(hierarchy, cgroup).usage_ns or 0 for name, cgroup in waiting.items()}
    deadline = time.monotonic() + LOAD_DEADLINE_S
    while waiting:
        for name, cgroup in list(waiting.items()):
            used = (cgroupfs.read_cpu_stat(hierarchy, cgroup).usage_ns or 0) - base[name]
            if used > 1_000_000:
                del waiting[name]
        if waiting and time.monotonic() > deadline:
            raise ApplyError(f"{', '.join(waiting)}: the workload used no CPU time within {LOAD_DEADLINE_S:.0f} s")
        time.sleep(0.01)
