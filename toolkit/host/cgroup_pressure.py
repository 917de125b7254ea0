"""How long tasks of a cgroup waited for a CPU, by the kernel's pressure stall information.

Source: Documentation/accounting/psi.rst; Documentation/admin-guide/cgroup-v2.rst ("cpu.pressure", "cgroup.pressure").
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.host.cgroup_paths import relative
from toolkit.host.kernel_file import read_once

NO_CGROUP = "there is no such cgroup in the v2 hierarchy"
NO_PRESSURE = "it has no cpu.pressure (the kernel's CONFIG_PSI, psi=1; the cgroup's cgroup.pressure)"
_TOTAL = re.compile(rb"^(some|full) .*\btotal=(\d{1,20})$", re.MULTILINE)
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """``cpu.pressure`` of one cgroup: sums since it was made.

    :param at_ns: CLOCK_MONOTONIC at the middle of the read.
    :param inode: of its directory: a cgroup made again under its name has another, and counts from nothing.
    :param full_us: ``None``: before Linux 5.13 there is no such line.
    """

    at_ns: int
    inode: int
    some_us: int
    full_us: int | None


def read_pressure(hierarchy: Hierarchy, cgroup: str) -> Pressure | str:
    """Read it once; a string says why there is nothing to read."""
    folder = f"{hierarchy.unified}/{relative(cgroup)}"
    began = time.monotonic_ns()
    try:
        inode = os.stat(folder).st_ino  # noqa: PTH116 a thousand of them
    except OSError:
        return NO_CGROUP
    text = read_once(f"{folder}/cpu.pressure", _MOST_BYTES)
    totals = {found[1]: int(found[2]) for found in _TOTAL.finditer(text or b"")}
    if b"some" not in totals:
        return NO_PRESSURE
    return Pressure(
        at_ns=(began + time.monotonic_ns()) // 2, inode=inode, some_us=totals[b"some"], full_us=totals.get(b"full")
    )
