"""Readers of the cgroup file systems: v2, and v1 controllers with a bare v2 hierarchy beside them ("hybrid").

Only reads; :mod:`toolkit.apply` writes. A cgroup may vanish at any moment: readers then answer "nothing" (``None``
fields, empty tuples). Control files and counters are read here; this is also the door to where a cgroup is
(:mod:`toolkit.host.cgroup_paths`) and what is in it (:mod:`toolkit.host.cgroup_members`).

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{cgroups,cpusets,memory}.rst,
Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit.host.cgroup_members import pids, tids
from toolkit.host.cgroup_mounts import Hierarchy, Mode, detect, read_control
from toolkit.host.cgroup_paths import (
    cgroup_id,
    cpuset_id,
    directories,
    exists,
    identity_dir,
    relative,
    spelt,
    subtree,
)
from toolkit.host.systemd_units import read_manager
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles
from toolkit.model.memory_units import NO_LIMIT, limit_in_force

_BANDWIDTH_V2 = ("cpu.max", "cpu.max.burst", "cpu.weight")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_BANDWIDTH_V1 = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares")

__all__ = [
    "NO_LIMIT",
    "CpuStat",
    "Hierarchy",
    "Mode",
    "cgroup_id",
    "control_files",
    "control_paths",
    "counter_ids",
    "cpuset_id",
    "detect",
    "directories",
    "exists",
    "identity_dir",
    "pids",
    "read_cpu_stat",
    "read_files",
    "relative",
    "spelt",
    "subtree",
    "tids",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStat:
    """CPU time and throttling of a cgroup and its descendants; ``None`` where the kernel does not report it.

    :param at_ns: CLOCK_MONOTONIC at the middle of the read.
    :param system_ns: what of ``usage_ns`` was in the kernel, as far as its timer ticks found it there.
    """

    at_ns: int
    usage_ns: int | None
    nr_periods: int | None
    nr_throttled: int | None
    throttled_ns: int | None
    nr_bursts: int | None
    burst_ns: int | None
    system_ns: int | None = None


def read_files(hierarchy: Hierarchy, cgroup: str, at_ns: int) -> CgroupFiles:
    """Read the control files of one cgroup. ``memory_max_bytes`` is :data:`NO_LIMIT` where there is no limit."""
    path = relative(cgroup)
    cpuset, cpu, memory = (hierarchy.find_controller(name) for name in ("cpuset", "cpu", "memory"))
    values: dict[str, CpuSet | int | None] = {}
    if cpuset is not None:
        for what in ("cpus", "mems"):
            values[what] = _read_set(f"{cpuset}/{path}/cpuset.{what}")
            values[f"{what}_effective"] = _read_set(f"{cpuset}/{path}/{_effective(hierarchy, what)}")
    if cpu is not None:
        values |= _bandwidth_v2(f"{cpu}/{path}") if hierarchy.is_v2("cpu") else _bandwidth_v1(f"{cpu}/{path}")
    if memory is not None:
        name = "memory.max" if hierarchy.is_v2("memory") else "memory.limit_in_bytes"
        limit = _read_int(f"{memory}/{path}/{name}", no_limit=NO_LIMIT)
        values["memory_max_bytes"] = None if limit is None else limit_in_force(limit)
    manager = read_manager(hierarchy, cgroup, path)
    return CgroupFiles(cgroup=cgroup, at_ns=at_ns, manager=manager, **values)  # type: ignore[arg-type]


def control_paths(hierarchy: Hierarchy, cgroup: str) -> tuple[str, ...]:
    """Return the paths of the files that :func:`read_files` reads, so that a caller can see whether one changed."""
    return tuple(f"{folder}/{name}" for folder, files in control_files(hierarchy, cgroup) for name in files)


def control_files(hierarchy: Hierarchy, cgroup: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the same by directory: of a v2 cgroup there is one, of a v1 cgroup one for each hierarchy."""
    path = relative(cgroup)
    names = [
        ("cpuset", tuple(f"cpuset.{what}" for what in ("cpus", "mems"))),
        ("cpuset", tuple(_effective(hierarchy, what) for what in ("cpus", "mems"))),
        ("cpu", _BANDWIDTH_V2 if hierarchy.is_v2("cpu") else _BANDWIDTH_V1),
        ("memory", ("memory.max" if hierarchy.is_v2("memory") else "memory.limit_in_bytes",)),
    ]
    found: dict[str, tuple[str, ...]] = {}
    for controller, files in names:
        mount = hierarchy.find_controller(controller)
        if mount is not None:
            place = f"{mount}/{path}" if path else str(mount)
            found[place] = found.get(place, ()) + files
    return tuple(found.items())


def read_effective_cpus(hierarchy: Hierarchy, cgroup: str) -> CpuSet | None:
    """Read where the cgroup's tasks may run; ``None`` if it has no cpuset of its own."""
    cpuset = hierarchy.find_controller("cpuset")
    return None if cpuset is None else _read_set(f"{cpuset}/{relative(cgroup)}/{_effective(hierarchy, 'cpus')}")


def _effective(hierarchy: Hierarchy, what: str) -> str:
    return f"cpuset.{what}.effective" if hierarchy.is_v2("cpuset") else f"cpuset.effective_{what}"


def _bandwidth_v2(directory: str) -> dict[str, CpuSet | int | None]:
    quota: int | None = None
    period: int | None = None
    words = (read_control(f"{directory}/cpu.max") or "").split()
    if len(words) == 2 and words[1].isdigit():
        period = int(words[1])
        quota = NO_QUOTA if words[0] == "max" else int(words[0]) if words[0].isdigit() else None
    return {
        "quota_us": quota,
        "period_us": period,
        "burst_us": _read_int(f"{directory}/cpu.max.burst"),
        "weight": _read_int(f"{directory}/cpu.weight"),
    }


def _bandwidth_v1(directory: str) -> dict[str, CpuSet | int | None]:
    quota = _read_int(f"{directory}/cpu.cfs_quota_us")
    return {
        "quota_us": NO_QUOTA if quota is not None and quota < 0 else quota,
        "period_us": _read_int(f"{directory}/cpu.cfs_period_us"),
        "burst_us": _read_int(f"{directory}/cpu.cfs_burst_us"),
        "shares": _read_int(f"{directory}/cpu.shares"),
    }


def read_cpu_stat(hierarchy: Hierarchy, cgroup: str) -> CpuStat:
    """Read CPU time and throttling counters (v2 ``cpu.stat``; v1 ``cpu.stat`` and ``cpuacct.usage*``)."""
    path = relative(cgroup)
    began = time.monotonic_ns()
    usage: int | None = None
    system: int | None = None
    counters: dict[str, int] = {}
    if hierarchy.is_v2("cpu"):
        # Every v2 cgroup but the root has the usage part of cpu.stat, with or without the controller.
        if hierarchy.unified is not None:
            counters = _read_counters(f"{hierarchy.unified}/{path}/cpu.stat")
    else:
        counters = _read_counters(f"{hierarchy.controller_dir('cpu')}/{path}/cpu.stat")
    cpuacct = None if hierarchy.is_v2("cpuacct") else hierarchy.controller_dir("cpuacct")
    if cpuacct is not None:
        usage = _read_int(f"{cpuacct}/{path}/cpuacct.usage")
        system = _read_int(f"{cpuacct}/{path}/cpuacct.usage_sys")
    if usage is None:
        base = counters
        if "usage_usec" not in base and hierarchy.unified is not None:
            base = _read_counters(f"{hierarchy.unified}/{path}/cpu.stat")
        usage, system = _scaled(base.get("usage_usec")), _scaled(base.get("system_usec"))
    return CpuStat(
        at_ns=(began + time.monotonic_ns()) // 2,
        usage_ns=usage,
        nr_periods=counters.get("nr_periods"),
        nr_throttled=counters.get("nr_throttled"),
        throttled_ns=counters.get("throttled_time", _scaled(counters.get("throttled_usec"))),
        nr_bursts=counters.get("nr_bursts"),
        burst_ns=counters.get("burst_time", _scaled(counters.get("burst_usec"))),
        system_ns=system,
    )


def counter_ids(hierarchy: Hierarchy, cgroup: str) -> tuple[int, int]:
    """Return the inodes of the directories whose counters :func:`read_cpu_stat` reads: usage, throttling; 0: none.

    A cgroup that was made again under its name has another inode, and counts from nothing. Where usage is read from the
    v2 hierarchy although a v1 hierarchy counts it, the number is negative: there the cgroup does not exist, or no more.
    """
    path = relative(cgroup)
    counts = hierarchy.unified if hierarchy.is_v2("cpu") else hierarchy.controller_dir("cpu")
    usage = hierarchy.unified if hierarchy.is_v2("cpuacct") else hierarchy.controller_dir("cpuacct")
    found = [_inode(mount, path) for mount in (usage, counts)]
    return found[0] or -_inode(hierarchy.unified, path), found[1]


def _inode(mount: Path | None, path: str) -> int:
    try:
        return 0 if mount is None else os.stat(f"{mount}/{path}").st_ino  # noqa: PTH116 a thousand of them
    except OSError:
        return 0


def _scaled(value_us: int | None) -> int | None:
    return None if value_us is None else value_us * 1000


def _read_int(path: str, no_limit: int | None = None) -> int | None:
    text = (read_control(path) or "").strip()
    if text == "max":
        return no_limit
    return int(text) if _WHOLE.fullmatch(text) else None


def _read_set(path: str) -> CpuSet | None:
    text = read_control(path)
    return None if text is None else CpuSet.parse(text, where=path)


def _read_counters(path: str) -> dict[str, int]:
    pairs = (line.split() for line in (read_control(path) or "").split("\n"))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
