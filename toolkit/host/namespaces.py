"""Whether we see the machine as the probes do: BPF knows the first pid namespace, the kernel's own clock, all cgroups.

In a foreign pid namespace the process ids of /proc are not those of the probes; in a foreign time namespace
CLOCK_MONOTONIC is not ``bpf_ktime_get_ns``; where only a part of the cgroup tree is visible, levels and paths are not
the kernel's. Each would give wrong evidence without a word, so each is refused. Other namespaces do not matter.

Source: include/linux/proc_ns.h (``PROC_PID_INIT_INO`` and its neighbours), time_namespaces(7), cgroup_namespaces(7),
proc_pid_mountinfo(5); kernfs gives the root of a hierarchy inode 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit.host.cgroup_mounts import Hierarchy, read_control

FIRST = {"pid": 0xEFFFFFFC, "time": 0xEFFFFFFA}
"""Inodes of the namespaces that the kernel starts with."""
_ROOT_INODE = 1
"""The root directory of a cgroup hierarchy; a mount with another inode shows a subtree only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One way to see less, or other, than the probes. :param wrong: what is so here; empty: nothing."""

    name: str
    wrong: str
    remedy: str


def read_views(hierarchy: Hierarchy | None, root: Path = Path("/")) -> tuple[View, ...]:
    """Return all of them; a namespace that the kernel does not have cannot be foreign."""
    return (
        View(
            name="pid-namespace",
            wrong=_pid(root),
            remedy="run it outside of the container, or with the host's process ids (docker --pid=host, hostPID: true)",
        ),
        View(
            name="time-namespace",
            wrong=_time(root),
            remedy="run it with the host's clock: without unshare --time and without a container's time offsets",
        ),
        View(
            name="cgroup-tree",
            wrong="" if hierarchy is None else _tree(hierarchy),
            remedy="run it outside of the container, or with the host's cgroup tree "
            "(docker --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup)",
        ),
    )


def _namespace(kind: str, root: Path) -> int | None:
    try:
        text = str((root / f"proc/self/ns/{kind}").readlink())
    except OSError:
        return None
    number = text.partition("[")[2].rstrip("]")
    return int(number) if number.isascii() and number.isdecimal() else None


def _pid(root: Path) -> str:
    found = _namespace("pid", root)
    if found in (None, FIRST["pid"]):
        return ""
    return f"this is a foreign pid namespace ({found}): its process ids are not those that the probes see"


def _time(root: Path) -> str:
    found = _namespace("time", root)
    # One without offsets has the same time.
    offsets = _offsets(read_control(root / "proc/self/timens_offsets") or "")
    if found in (None, FIRST["time"]) or not any(offsets.values()):
        return ""
    shifts = ", ".join(f"{clock} {seconds:+.9g} s" for clock, seconds in offsets.items() if seconds)
    return f"this is a foreign time namespace ({shifts}): its clock is not the one that the probes read"


def _offsets(text: str) -> dict[str, float]:
    """Read ``clock seconds nanoseconds`` lines."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and all(number.lstrip("-").isdecimal() for number in words[1:]):
            found[words[0]] = int(words[1]) + int(words[2]) / 1e9
    return found


def _tree(hierarchy: Hierarchy) -> str:
    mounts = {hierarchy.unified, *(hierarchy.find_controller(name) for name in ("cpu", "cpuset"))}
    for mount in sorted(mount for mount in mounts if mount is not None):
        try:
            whole = mount not in hierarchy.partial and mount.stat().st_ino == _ROOT_INODE
        except OSError:
            continue
        if not whole:
            return f"{mount} is a part of the cgroup tree only, or seen from another cgroup namespace"
    return ""
