"""Readers of the cgroup file systems: v2, and v1 controllers with a bare v2 hierarchy beside them ("hybrid").

Only reads; :mod:`toolkit.apply` writes. A cgroup is named by its path below the root of every hierarchy (``/a/b``), and
may vanish at any moment: readers then answer "nothing" (``None`` fields, empty tuples).

Longer than 300 lines: one file system, whose readers share how a name becomes a path in each of its two versions.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{cgroups,cpusets,memory}.rst,
Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.cgroup_mounts import Hierarchy, Mode, detect, read_control
from toolkit.host.systemd_units import read_manager
from toolkit.model import names
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles

NO_LIMIT = -1
"""``memory_max_bytes`` of a cgroup whose limit file says that there is none."""

_BANDWIDTH_V2 = ("cpu.max", "cpu.max.burst", "cpu.weight")
_BANDWIDTH_V1 = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares")
_V1_UNLIMITED = 1 << 62
"""v1 prints "no limit" as LONG_MAX rounded down to a page; no real limit comes near it."""

__all__ = [
    "NO_LIMIT",
    "CpuStat",
    "Hierarchy",
    "Mode",
    "cgroup_id",
    "control_paths",
    "counter_ids",
    "cpuset_id",
    "detect",
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
    """CPU time and throttling of a cgroup and its descendants; ``None`` where the kernel does not tell.

    :param at_ns: CLOCK_MONOTONIC at the middle of the read.
    """

    at_ns: int
    usage_ns: int | None
    nr_periods: int | None
    nr_throttled: int | None
    throttled_ns: int | None
    nr_bursts: int | None
    burst_ns: int | None


def relative(cgroup: str) -> str:
    """Check a cgroup path and return it without the leading ``/``, as file functions want it.

    :param cgroup: spelt as by :mod:`toolkit.model.names`.
    :raises InputError: not absolute, with empty, ``.`` or ``..`` parts, or with what no cgroup's name has.
    """
    path = names.raw(cgroup)
    wrong = not path.startswith(b"/") or len(path) > 4000 or b"\0" in path or not cgroup.isprintable()
    if wrong or (path != b"/" and any(part in (b"", b".", b"..") for part in path.split(b"/")[1:])):
        found = names.printable(cgroup[:120])
        raise InputError("cgroup", found, "a path below the cgroup root such as /kubepods/pod1/db")
    return os.fsdecode(path[1:])


def spelt(directory: str | Path, mount: Path) -> str:
    """Return the cgroup whose directory this is, spelt as by :mod:`toolkit.model.names`."""
    below = Path(directory).relative_to(mount)
    return f"/{names.from_path(below)}" if below.parts else "/"


def identity_dir(hierarchy: Hierarchy, cgroup: str) -> Path:
    """Return the cgroup's directory in the v2 hierarchy, the one that BPF helpers know.

    :raises HostUnsupportedError: a pure v1 host.
    """
    return hierarchy.identity_root() / relative(cgroup)


def cgroup_id(hierarchy: Hierarchy, cgroup: str) -> int:
    """Return the id that ``bpf_get_current_cgroup_id`` gives for the cgroup: the inode of its v2 directory.

    :raises InputError: there is no such cgroup in the v2 hierarchy.
    """
    directory = identity_dir(hierarchy, cgroup)
    try:
        found = directory.stat()
    except OSError as error:
        raise InputError(f"cgroup {cgroup}", f"{error.strerror} ({directory})", "a cgroup that exists") from None
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"cgroup {cgroup}", f"{directory} is not a directory", "a cgroup that exists")
    return found.st_ino


def cpuset_id(hierarchy: Hierarchy, cgroup: str) -> int | None:
    """Return the cgroup's number in the v1 hierarchy of the cpuset controller; ``None`` where it has none there."""
    mount = hierarchy.find_controller("cpuset")
    if mount is None or hierarchy.is_v2("cpuset"):
        return None
    try:
        return (mount / relative(cgroup)).stat().st_ino
    except OSError:
        return None


def exists(hierarchy: Hierarchy, cgroup: str) -> bool:
    """Say whether any hierarchy that matters has the cgroup."""
    path = relative(cgroup)
    return any((mount / path).is_dir() for mount in _mounts(hierarchy))


def read_files(hierarchy: Hierarchy, cgroup: str, at_ns: int) -> CgroupFiles:
    """Read the control files of one cgroup. ``memory_max_bytes`` is :data:`NO_LIMIT` where there is no limit."""
    path = relative(cgroup)
    cpuset, cpu, memory = (hierarchy.find_controller(name) for name in ("cpuset", "cpu", "memory"))
    values: dict[str, CpuSet | int | None] = {}
    if cpuset is not None:
        for what in ("cpus", "mems"):
            values[what] = _read_set(cpuset / path / f"cpuset.{what}")
            values[f"{what}_effective"] = _read_set(cpuset / path / _effective(hierarchy, what))
    if cpu is not None:
        values |= _bandwidth_v2(cpu / path) if hierarchy.is_v2("cpu") else _bandwidth_v1(cpu / path)
    if memory is not None:
        name = "memory.max" if hierarchy.is_v2("memory") else "memory.limit_in_bytes"
        limit = _read_int(memory / path / name, no_limit=NO_LIMIT)
        values["memory_max_bytes"] = NO_LIMIT if limit is not None and limit >= _V1_UNLIMITED else limit
    manager = read_manager(hierarchy, cgroup, path)
    return CgroupFiles(cgroup=cgroup, at_ns=at_ns, manager=manager, **values)  # type: ignore[arg-type]


def control_paths(hierarchy: Hierarchy, cgroup: str) -> tuple[str, ...]:
    """Return the paths of the files that :func:`read_files` reads, for whoever wants to see whether one changed."""
    path = relative(cgroup)
    names: list[tuple[str, tuple[str, ...]]] = [
        ("cpuset", tuple(f"cpuset.{what}" for what in ("cpus", "mems"))),
        ("cpuset", tuple(_effective(hierarchy, what) for what in ("cpus", "mems"))),
        ("cpu", _BANDWIDTH_V2 if hierarchy.is_v2("cpu") else _BANDWIDTH_V1),
        ("memory", ("memory.max" if hierarchy.is_v2("memory") else "memory.limit_in_bytes",)),
    ]
    found = []
    for controller, files in names:
        mount = hierarchy.find_controller(controller)
        if mount is not None:
            found += [f"{mount / path}/{name}" for name in files]
    return tuple(found)


def read_effective_cpus(hierarchy: Hierarchy, cgroup: str) -> CpuSet | None:
    """Read where the cgroup's tasks may run; ``None`` if it has no cpuset of its own."""
    cpuset = hierarchy.find_controller("cpuset")
    return None if cpuset is None else _read_set(cpuset / relative(cgroup) / _effective(hierarchy, "cpus"))


def _effective(hierarchy: Hierarchy, what: str) -> str:
    return f"cpuset.{what}.effective" if hierarchy.is_v2("cpuset") else f"cpuset.effective_{what}"


def _bandwidth_v2(directory: Path) -> dict[str, CpuSet | int | None]:
    quota: int | None = None
    period: int | None = None
    words = (read_control(directory / "cpu.max") or "").split()
    if len(words) == 2 and words[1].isdigit():
        period = int(words[1])
        quota = NO_QUOTA if words[0] == "max" else int(words[0]) if words[0].isdigit() else None
    return {
        "quota_us": quota,
        "period_us": period,
        "burst_us": _read_int(directory / "cpu.max.burst"),
        "weight": _read_int(directory / "cpu.weight"),
    }


def _bandwidth_v1(directory: Path) -> dict[str, CpuSet | int | None]:
    quota = _read_int(directory / "cpu.cfs_quota_us")
    return {
        "quota_us": NO_QUOTA if quota is not None and quota < 0 else quota,
        "period_us": _read_int(directory / "cpu.cfs_period_us"),
        "burst_us": _read_int(directory / "cpu.cfs_burst_us"),
        "shares": _read_int(directory / "cpu.shares"),
    }


def read_cpu_stat(hierarchy: Hierarchy, cgroup: str) -> CpuStat:
    """Read CPU time and throttling counters (v2 ``cpu.stat``; v1 ``cpu.stat`` and ``cpuacct.usage``)."""
    path = relative(cgroup)
    began = time.monotonic_ns()
    usage: int | None = None
    counters: dict[str, int] = {}
    if hierarchy.is_v2("cpu"):
        # Every v2 cgroup but the root has the usage part of cpu.stat, with or without the controller.
        if hierarchy.unified is not None:
            counters = _read_counters(hierarchy.unified / path / "cpu.stat")
    else:
        counters = _read_counters(hierarchy.controller_dir("cpu") / path / "cpu.stat")
    cpuacct = None if hierarchy.is_v2("cpuacct") else hierarchy.controller_dir("cpuacct")
    if cpuacct is not None:
        usage = _read_int(cpuacct / path / "cpuacct.usage")
    if usage is None:
        base = counters
        if "usage_usec" not in base and hierarchy.unified is not None:
            base = _read_counters(hierarchy.unified / path / "cpu.stat")
        usage = _scaled(base.get("usage_usec"))
    return CpuStat(
        at_ns=(began + time.monotonic_ns()) // 2,
        usage_ns=usage,
        nr_periods=counters.get("nr_periods"),
        nr_throttled=counters.get("nr_throttled"),
        throttled_ns=counters.get("throttled_time", _scaled(counters.get("throttled_usec"))),
        nr_bursts=counters.get("nr_bursts"),
        burst_ns=counters.get("burst_time", _scaled(counters.get("burst_usec"))),
    )


def counter_ids(hierarchy: Hierarchy, cgroup: str) -> tuple[int, int]:
    """Return the inodes of the directories whose counters :func:`read_cpu_stat` reads: usage, throttling; 0: none.

    A cgroup that was made again under its name has another inode, and counts from nothing.
    """
    path = relative(cgroup)
    counts = hierarchy.unified if hierarchy.is_v2("cpu") else hierarchy.controller_dir("cpu")
    usage = hierarchy.unified if hierarchy.is_v2("cpuacct") else hierarchy.controller_dir("cpuacct")
    found = [_inode(mount, path) for mount in (usage, counts)]
    return found[0] or _inode(hierarchy.unified, path), found[1]


def _inode(mount: Path | None, path: str) -> int:
    try:
        return 0 if mount is None else (mount / path).stat().st_ino
    except OSError:
        return 0


def _scaled(value_us: int | None) -> int | None:
    return None if value_us is None else value_us * 1000


def subtree(hierarchy: Hierarchy, cgroup: str) -> tuple[str, ...]:
    """Return the cgroup and all its descendants, parents first, over the hierarchies that matter."""
    path = relative(cgroup)
    found: set[str] = set()
    for mount in _mounts(hierarchy):
        top = mount / path
        for directory, _, _ in os.walk(top, onerror=lambda error: None):
            found.add(spelt(directory, mount))
    return tuple(sorted(found, key=lambda name: name.split("/")))


def pids(hierarchy: Hierarchy, cgroup: str) -> tuple[int, ...]:
    """Return the processes of the cgroup and its descendants, sorted.

    Membership is that of the identity (v2) hierarchy where the cgroup exists there, else of the v1 cpuset, else v1 cpu.
    """
    found: set[int] = set()
    for directory in _member_dirs(hierarchy, cgroup):
        text = read_control(directory / "cgroup.procs")
        if text is not None:
            found.update(_numbers(text))
        else:  # a threaded cgroup refuses this file (EOPNOTSUPP); its threads name their processes
            threads = (
                _read_status_tgid(hierarchy, tid) for tid in _numbers(read_control(directory / "cgroup.threads") or "")
            )
            found.update(tgid for tgid in threads if tgid is not None)
    return tuple(sorted(found))


def tids(hierarchy: Hierarchy, cgroup: str) -> tuple[int, ...]:
    """Return the threads of the cgroup and its descendants, sorted; membership as in :func:`pids`."""
    found: set[int] = set()
    for directory in _member_dirs(hierarchy, cgroup):
        text = read_control(directory / "cgroup.threads")
        if text is None:
            text = read_control(directory / "tasks")
        found.update(_numbers(text or ""))
    return tuple(sorted(found))


def _read_status_tgid(hierarchy: Hierarchy, tid: int) -> int | None:
    match = re.search(r"^Tgid:\s*(\d+)$", read_control(hierarchy.root / f"proc/{tid}/status") or "", re.MULTILINE)
    return None if match is None else int(match[1])


def _mounts(hierarchy: Hierarchy) -> tuple[Path, ...]:
    """Hierarchies that matter, the identity first."""
    mounts = [] if hierarchy.unified is None else [hierarchy.unified]
    mounts += [mount for name, mount in hierarchy.legacy if name in ("cpuset", "cpu", "cpuacct")]
    return tuple(dict.fromkeys(mounts))


def _member_dirs(hierarchy: Hierarchy, cgroup: str) -> tuple[Path, ...]:
    path = relative(cgroup)
    legacy = dict(hierarchy.legacy)
    for mount in (hierarchy.unified, legacy.get("cpuset"), legacy.get("cpu")):
        if mount is not None and (mount / path).is_dir():
            return tuple(Path(walked[0]) for walked in os.walk(mount / path, onerror=lambda error: None))
    return ()


def _read_int(path: Path, no_limit: int | None = None) -> int | None:
    text = (read_control(path) or "").strip()
    if text == "max":
        return no_limit
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None


def _read_set(path: Path) -> CpuSet | None:
    text = read_control(path)
    return None if text is None else CpuSet.parse(text, where=str(path))


def _read_counters(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in (read_control(path) or "").split("\n"))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split() if word.isdigit())
