"""Readers of the cgroup file systems: v2, and v1 controllers with a bare v2 hierarchy beside them ("hybrid").

Only reads; :mod:`toolkit.apply` writes. A cgroup may vanish at any moment: readers then answer "nothing" (``None``
fields, empty tuples). Control files are read here; this is also the door to where a cgroup is
(:mod:`toolkit.host.cgroup_paths`), what is in it (:mod:`toolkit.host.cgroup_members`) and what it has used
(:mod:`toolkit.host.cgroup_counters`).

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{cgroups,cpusets,memory}.rst.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from toolkit import presence
from toolkit.host.cgroup_counters import CpuCounters, CpuStat, read_cpu_stat
from toolkit.host.cgroup_members import has_tasks, pids, tids, whole_processes
from toolkit.host.cgroup_mounts import Hierarchy, Mode, detect, read_control
from toolkit.host.cgroup_paths import (
    PROMISING,
    cgroup_id,
    directories,
    exists,
    identity_dir,
    legacy_ids,
    relative,
    spelt,
    subtree,
)
from toolkit.host.side_files import Side, of_cpu, of_cpuset, of_memory
from toolkit.host.systemd_units import read_manager
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles
from toolkit.model.memory_units import NO_LIMIT, limit_in_force
from toolkit.text import names

Layout = tuple[tuple[Path, tuple[str, ...]], ...]
"""Mounts, and the files that are read there of each cgroup."""
_BANDWIDTH_V2 = ("cpu.max", "cpu.max.burst", "cpu.weight")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_BANDWIDTH_V1 = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares")

__all__ = [
    "NO_LIMIT",
    "PROMISING",
    "CpuCounters",
    "CpuStat",
    "Hierarchy",
    "Mode",
    "cgroup_id",
    "control_files",
    "control_paths",
    "detect",
    "directories",
    "exists",
    "has_tasks",
    "identity_dir",
    "legacy_ids",
    "pids",
    "read_cpu_stat",
    "read_files",
    "read_side",
    "relative",
    "spelt",
    "subtree",
    "tids",
    "whole_processes",
]


def read_files(hierarchy: Hierarchy, cgroup: str, at_ns: int) -> CgroupFiles:
    """Read the control files of one cgroup. ``memory_max_bytes`` is :data:`NO_LIMIT` where there is no limit."""
    path = relative(cgroup)
    cpuset, cpu, memory = (hierarchy.find_controller(name) for name in ("cpuset", "cpu", "memory"))
    values: Side = read_side(hierarchy, cgroup)
    if cpuset is not None:
        for what in ("cpus", "mems"):
            values[what] = _read_set(f"{cpuset}/{path}/cpuset.{what}")
            values[f"{what}_effective"] = _read_set(f"{cpuset}/{path}/{_effective(hierarchy, what)}")
    lacks = None
    if cpu is not None:
        limits = _bandwidth_v2(f"{cpu}/{path}") if hierarchy.is_v2("cpu") else _bandwidth_v1(f"{cpu}/{path}")
        values |= limits
        if path and all(value is None for value in limits.values()):
            lacks = _no_cpu_controller(hierarchy, cpu, path)
    if memory is not None:
        limit = _read_int(f"{memory}/{path}/{hierarchy.memory_limit_file}", no_limit=NO_LIMIT)
        values["memory_max_bytes"] = None if limit is None else limit_in_force(limit)
    manager = read_manager(hierarchy, cgroup, path)
    return CgroupFiles(cgroup=cgroup, at_ns=at_ns, manager=manager, no_cpu_controller=lacks, **values)  # type: ignore[arg-type]


def read_side(hierarchy: Hierarchy, cgroup: str) -> Side:
    """Read the files that decide what the others of a cgroup are worth; of v1 only the cpu controller has any."""
    path = relative(cgroup)
    found: Side = {}
    for controller, said in (("cpu", of_cpu), ("cpuset", of_cpuset), ("memory", of_memory)):
        mount = hierarchy.find_controller(controller)
        if mount is not None and (controller == "cpu" or hierarchy.is_v2(controller)):
            found |= said(_texts(f"{mount}/{path}"))
    return found


def _texts(folder: str) -> Callable[[str], str | None]:
    return lambda name: read_control(f"{folder}/{name}")


def control_paths(hierarchy: Hierarchy, cgroup: str) -> tuple[str, ...]:
    """Return the paths of the files that :func:`read_files` reads, so that a caller can see whether one changed."""
    return tuple(f"{folder}/{name}" for folder, files in control_files(hierarchy, cgroup) for name in files)


def control_files(hierarchy: Hierarchy, cgroup: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the same by directory: of a v2 cgroup there is one, of a v1 cgroup one for each hierarchy."""
    return files_in(control_layout(hierarchy), cgroup)


def control_layout(hierarchy: Hierarchy) -> Layout:
    """Return where the control files of every cgroup are at present: a controller may come."""
    names = [
        ("cpuset", tuple(f"cpuset.{what}" for what in ("cpus", "mems"))),
        ("cpuset", tuple(_effective(hierarchy, what) for what in ("cpus", "mems"))),
        ("cpu", _BANDWIDTH_V2 if hierarchy.is_v2("cpu") else _BANDWIDTH_V1),
        ("memory", (hierarchy.memory_limit_file,)),
    ]
    mounts = {controller: hierarchy.find_controller(controller) for controller, _ in names}
    found: dict[Path, tuple[str, ...]] = {}
    for controller, files in names:
        mount = mounts[controller]
        if mount is not None:
            found[mount] = found.get(mount, ()) + files
    return tuple(found.items())


def files_in(layout: Layout, cgroup: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return them of one of many cgroups, without looking again where they are."""
    path = relative(cgroup)
    return tuple((f"{mount}/{path}" if path else str(mount), files) for mount, files in layout)


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


def _no_cpu_controller(hierarchy: Hierarchy, mount: Path, path: str) -> str | None:
    """Return why a cgroup has no cpu controller, in which there are tasks; ``None``: that is not known.

    One without tasks may be about to be made or deleted: its directories come and go one after the other.
    Source: Documentation/admin-guide/cgroup-v2.rst, "Enabling and Disabling", "cgroup.events".
    """
    if mount in hierarchy.partial or hierarchy.unified is None:
        return None
    if hierarchy.is_v2("cpu"):
        offered = read_control(f"{mount}/{path}/cgroup.controllers")
        events = read_control(f"{mount}/{path}/cgroup.events") or ""
        if offered is None or "cpu" in offered.split() or "populated 1" not in events.splitlines():
            return None
        return f"cpu is missing in cgroup.subtree_control of {names.from_text('/' + path.rpartition('/')[0])}"
    if presence.exists(mount / path):
        return None
    # Its tasks may be in a cgroup of another name there, which has a quota: only at or above its own they have none.
    first, _, _ = (read_control(f"{hierarchy.unified}/{path}/cgroup.procs") or "").partition("\n")
    own = read_control(hierarchy.root / f"proc/{first}/cgroup") if first.isdigit() and first != "0" else None
    places = (line.split(":", 2) for line in (own or "").split("\n"))
    where = [parts[2] for parts in places if len(parts) == 3 and "cpu" in parts[1].split(",")]
    above = f"/{path}/"
    if not where or not above.startswith(where[0].rstrip("/") + "/"):
        return None
    return "there is no such cgroup in the cpu hierarchy"


def _read_int(path: str, no_limit: int | None = None) -> int | None:
    text = (read_control(path) or "").strip()
    if text == "max":
        return no_limit
    return int(text) if _WHOLE.fullmatch(text) else None


def _read_set(path: str) -> CpuSet | None:
    text = read_control(path)
    return None if text is None else CpuSet.parse(text, where=path)
