"""Workloads that are pinned by sched_setaffinity alone: DPDK, threads of virtual machines, jobs without cgroups.

What a machine without such work has pinned too, and what is therefore none:

- kernel threads, and all tasks of a machine whose systemd is pinned (``CPUAffinity=`` in system.conf, tuned): they have
  the mask of process 1, or more;
- tasks that have what their cgroup grants: the guard judges cgroups by themselves;
- tasks that have the mask that we have: something has put us there together (a CI job under ``taskset``);
- systemd's own services, pinproof's own processes (an observer keeps off exclusive CPUs) and what they have started;
- tasks that sleep: nginx pins its workers (``worker_cpu_affinity``), haproxy its threads, and idle ones are on every
  second machine. A load beside them takes nothing from them; one that polls, as DPDK does, is always busy. So
  a task counts that ran for :data:`BUSY` of a short time; nothing waits for that where nothing is pinned.

Source: sched_setaffinity(2); proc(5), ``/proc/pid/task/tid/schedstat``; systemd-system.conf(5), ``CPUAffinity=``.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroup_use import CgroupUse
from toolkit.host.procfs import comm, pids, tids
from toolkit.model.cpuset import CpuSet

LOOK_S = 0.5
BUSY = 0.01
_MODULES = ("toolkit", "probes", "validators", "pytest")
_PROGRAMS = ("pinproof", "pytest")
"""What starts pinproof: pytest runs it in its own process, or in one of several that it has started."""
_SYSTEMD = "systemd-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A thread of a process. :param cpus: its mask. :param granted: what its cgroup has; ``None``: not known."""

    pid: int
    tid: int
    cpus: CpuSet
    granted: CpuSet | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What tasks have that nothing has pinned. :param first: the mask of process 1. :param ours: our own."""

    online: CpuSet
    first: CpuSet
    ours: CpuSet


def pinned(tasks: Iterable[Task], usual: Usual) -> tuple[Task, ...]:
    """Return the tasks that have fewer CPUs than they could have, and not by inheritance. Pure."""
    found = []
    for task in tasks:
        granted = (usual.online if task.granted is None else task.granted) & usual.online
        cpus = task.cpus & usual.online
        inherited = usual.first & granted <= cpus or cpus == usual.ours & usual.online
        if cpus < granted and not inherited:
            found.append(task)
    return tuple(found)


def pinned_work(online: CpuSet, uses: Iterable[CgroupUse], own: Collection[int]) -> dict[int, CpuSet]:
    """Return the processes of this machine with threads that are pinned and at work, with the CPUs of these.

    :param uses: every cgroup, parents first. :param own: processes that do not count.
    """
    first, ours = _mask(1), _mask(0)
    if first is None or ours is None:
        return {}
    usual = Usual(online=online, first=first, ours=ours)
    candidates = pinned(_tasks(_granted(uses), own), usual)
    users = {pid for pid in {task.pid for task in candidates} if _is_users(pid) and not _is_ours(pid)}
    found = [task for task in candidates if task.pid in users]
    if not found:
        return {}
    before = {task.tid: _ran_ns(task) for task in found}
    time.sleep(LOOK_S)
    work: dict[int, CpuSet] = {}
    for task in found:
        if _ran_ns(task) - before[task.tid] >= LOOK_S * BUSY * 1e9:
            work[task.pid] = work.get(task.pid, CpuSet()) | task.cpus & online
    return work


def _tasks(granted: Mapping[int, CpuSet], own: Collection[int]) -> Iterable[Task]:
    for pid in pids():
        for tid in tids(pid) if pid not in own else ():
            cpus = _mask(tid)
            if cpus is not None:
                yield Task(pid=pid, tid=tid, cpus=cpus, granted=granted.get(pid))


def _granted(uses: Iterable[CgroupUse]) -> dict[int, CpuSet]:
    """Return what its cgroup grants to each process: the nearest one above that has CPUs."""
    known: dict[str, CpuSet] = {}
    found: dict[int, CpuSet] = {}
    for use in uses:
        cpus = use.cpus if use.cpus else known.get(use.path.rpartition("/")[0] or "/")
        if cpus:
            known[use.path] = cpus
            # On hybrid hosts a process is in a cgroup of each hierarchy: the narrower one is that of cpusets.
            found |= {pid: found.get(pid, cpus) & cpus for pid in use.pids}
    return found


def _mask(tid: int) -> CpuSet | None:
    try:
        return CpuSet.of(os.sched_getaffinity(tid))
    except OSError:
        return None


def _is_users(pid: int) -> bool:
    """Whether it is a process with a program of its own (a kernel thread has no arguments), and none of systemd's."""
    return bool(_arguments(pid)) and not comm(pid).startswith(_SYSTEMD)


def _is_ours(pid: int) -> bool:
    """Whether it is pinproof, or was started by it."""
    import psutil  # most machines have no candidate

    try:
        line = [pid, *(one.pid for one in psutil.Process(pid).parents())]
    except psutil.Error:
        return False
    return any(_names_us(_arguments(one)) for one in line)


def _names_us(arguments: list[str]) -> bool:
    module = next((after for word, after in pairwise(arguments) if word == "-m"), "")
    return module.split(".")[0] in _MODULES or any(Path(word).name in _PROGRAMS for word in arguments[:2])


def _arguments(pid: int) -> list[str]:
    text = _text(f"/proc/{pid}/cmdline").rstrip("\0")
    return text.split("\0") if text else []


def _ran_ns(task: Task) -> int:
    words = _text(f"/proc/{task.pid}/task/{task.tid}/schedstat").split()
    return int(words[0]) if words and words[0].isdigit() else 0


def _text(path: str) -> str:
    with contextlib.suppress(OSError):  # no other's, where /proc hides them
        return read_control(path) or ""
    return ""
