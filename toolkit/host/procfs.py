"""Small readers of /proc: what identifies a process, and which threads exist. Not the thread-mask sampler (``probes``).

psutil does what is asked now and then of the running machine (:mod:`toolkit.apply.launch`). Here stays what it cannot:

- each reader takes its root, also that of a saved tree; psutil has one ``PROCFS_PATH`` for the whole process;
- a start time is kept in journals: the kernel's ticks, which never change. psutil's is seconds of the wall clock, which
  can be set;
- names and mount points are bytes that are found again (psutil reads ``/etc/mtab``, and completes a task's name by its
  command line);
- scans of all threads, some of them ten times a second beside what is measured, must cost little: psutil takes two to
  three times the CPU time for the affinity and the start of every thread.

Source: proc(5), ``/proc/pid/stat`` field 22 (starttime) and ``/proc/sys/kernel/random/boot_id``.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.host.cgroup_mounts import read_control, unescape
from toolkit.text import names

PF_EXITING = 0x00000004
PF_NO_SETAFFINITY = 0x04000000
"""Userland may not meddle with cpus_mask: together with a single allowed CPU, a thread of that CPU."""


def start_time(pid: int, root: Path = Path("/")) -> int | None:
    """Return when the task began, in clock ticks since boot; ``None`` if there is none.

    With the pid it names one task for good: a reused pid has another start time.
    """
    return ticks_of(read_control(root / f"proc/{pid}/stat") or "")


def ticks_of(stat: str) -> int | None:
    """Return the same of a task's ``stat``; ``None``: it does not say it."""
    return _field(stat, 22)


def _field(stat: str, number: int) -> int | None:
    """Return a field by its number in proc(5), one behind the name; ``None``: it is not there."""
    # The name in parentheses is field 2, and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    at = number - 3
    return int(fields[at]) if len(fields) > at and fields[at].isdigit() else None


def flags(tid: int, root: Path = Path("/")) -> int | None:
    """Return a task's flags (``PF_...``); ``None``: it is gone.

    Source: proc(5), ``/proc/pid/stat`` field 9; include/linux/sched.h.
    """
    return _field(read_control(root / f"proc/{tid}/stat") or "", 9)


def kernel_binds(tid: int, root: Path = Path("/")) -> bool:
    """Return whether only the kernel may choose a task's CPUs, as those of a CPU's own threads and of its workers."""
    return bool((flags(tid, root) or 0) & PF_NO_SETAFFINITY)


def exits(tid: int, root: Path = Path("/")) -> bool:
    """Return whether a task is on its way out; no attach moves it any more.

    Source: kernel/cgroup/cgroup.c, ``cgroup_migrate_add_task()``.
    """
    return bool((flags(tid, root) or 0) & PF_EXITING)


def comm(tid: int, root: Path = Path("/")) -> str:
    """Return a task's name as :mod:`toolkit.text.names` spells it; empty if the task is gone."""
    return names.from_text((read_control(root / f"proc/{tid}/comm") or "").removesuffix("\n"))


def children(pid: int, root: Path = Path("/")) -> list[int] | None:
    """Return the processes that a process's main thread has made; ``None``: it is gone, or not reported.

    Source: proc(5), ``/proc/pid/task/tid/children`` (CONFIG_PROC_CHILDREN).
    """
    text = read_control(root / f"proc/{pid}/task/{pid}/children")
    return None if text is None else [int(word) for word in text.split() if word.isdigit()]


def boot_id(root: Path = Path("/")) -> str:
    """Return the kernel's random id of this boot; empty if it cannot be read."""
    return (read_control(root / "proc/sys/kernel/random/boot_id") or "").strip()


def pid_namespace(root: Path = Path("/")) -> int:
    """Return the number of this process's pid namespace; 0 if it cannot be read."""
    try:
        return (root / "proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def pids(root: Path = Path("/")) -> Iterator[int]:
    """Walk the processes that exist now."""
    with contextlib.suppress(OSError):
        for name in os.listdir(root / "proc"):  # noqa: PTH208 - twice as fast as iterdir
            if name.isdigit():
                yield int(name)


def tids(pid: int, root: Path = Path("/")) -> Iterator[int]:
    """Walk the threads of one process; nothing if it is gone."""
    with contextlib.suppress(OSError):
        for name in os.listdir(root / f"proc/{pid}/task"):  # noqa: PTH208 - as above
            yield int(name)


def made_and_there(root: Path = Path("/")) -> tuple[int, int] | None:
    """Return how many tasks were made since boot, threads included, and how many there are; ``None``: not reported.

    Source: proc(5), ``processes`` in ``/proc/stat`` (kernel/fork.c, ``total_forks``), and ``/proc/loadavg``.
    """
    made = re.search(r"^processes (\d+)$", read_control(root / "proc/stat") or "", re.MULTILINE | re.ASCII)
    there = re.search(r"/(\d+) \d+\n", read_control(root / "proc/loadavg") or "", re.ASCII)
    return None if made is None or there is None else (int(made[1]), int(there[1]))


def mount_points(root: Path = Path("/")) -> tuple[str, ...]:
    """Return the mount points of this process's mount namespace, in the order of mounting.

    They are paths as file functions want them.
    """
    lines = (read_control(root / "proc/self/mountinfo") or "").split("\n")
    return tuple(unescape(fields[4]) for line in lines if len(fields := line.split(" ")) > 4)
