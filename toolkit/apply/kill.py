"""End every task below some cgroups, also those that fork faster than we can read; and remove the cgroups.

v2 has ``cgroup.kill`` (5.14), which forks cannot outrun. Without it a v2 cgroup is frozen first. v1 cgroups are read
and killed again and again until they are empty; their tasks are normally also in a v2 cgroup of ours.

Source: Documentation/admin-guide/cgroup-v2.rst, "cgroup.kill", "cgroup.freeze"; cgroup-v1/freezer-subsystem.rst.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from toolkit.apply.cgroups import write_once
from toolkit.errors import ApplyError
from toolkit.host import procfs
from toolkit.host.cgroup_mounts import read_control

DEADLINE_S = 15.0
STARVED = 10
"""How many times the deadline a task has that could run: it waits for a CPU, for which a kernel that starves it let one
wait 138 s (docs/facts.md, K34). One that sleeps waits for something that may never come."""
RELEASE_AFTER_S = 0.2
"""Dying takes CPU time too: of a cgroup with 2 shares on a busy machine it takes minutes."""


def send(tops: Iterable[Path]) -> None:
    """Kill all tasks below the cgroup directories, and wait for none: for those that :func:`kill` waits for later."""
    for top in tops:
        _kill_once(top)


def kill(tops: Iterable[Path], deadline_s: float = DEADLINE_S) -> None:
    """Kill all tasks below the cgroup directories and wait until none is left.

    :raises ApplyError: some are still there at the deadline.
    """
    _until_gone(tuple(tops), deadline_s, remove=False)


def remove(tops: Iterable[Path], deadline_s: float = DEADLINE_S) -> None:
    """Kill all tasks below the cgroup directories and remove these with all their descendants.

    :raises ApplyError: some are still there at the deadline.
    """
    _until_gone(tuple(tops), deadline_s, remove=True)


def _until_gone(tops: tuple[Path, ...], deadline_s: float, *, remove: bool) -> None:
    began = time.monotonic()
    pause_s = 0.0005
    while True:
        for top in tops:
            _kill_once(top)
        left = [top for top in tops if not (_removed(top) if remove else not _members(top))]
        if not left:
            return
        waited_s = time.monotonic() - began
        if waited_s > deadline_s:
            members = sorted({pid for top in left for pid in _members(top)})
            if waited_s > deadline_s * STARVED or not any(_state(pid).startswith("R") for pid in members):
                tasks = f"not killed: {', '.join(map(_task_text, members[:8]))}" if members else "it is busy"
                raise ApplyError(f"{left[0]}: cannot be emptied within {waited_s:.0f} s: {tasks}")
        if waited_s > RELEASE_AFTER_S:
            for top in left:
                _release(top)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.02)


def _task_text(pid: int) -> str:
    """Return which task does not die, its state, and where it waits in the kernel."""
    where = (read_control(Path(f"/proc/{pid}/wchan")) or "").strip("0\n")
    words = [procfs.comm(pid), _state(pid) or "gone", *([f"in {where}"] if where else [])]
    return f"{pid} ({', '.join(words)})"


def _state(pid: int) -> str:
    """Return a process's state, ``R (running)``; empty: it is gone."""
    found = re.search(r"^State:\t(.*)$", read_control(Path(f"/proc/{pid}/status")) or "", re.MULTILINE)
    return found[1] if found else ""


def _kill_once(top: Path) -> None:
    if not top.is_dir():
        return
    if _write(top / "cgroup.kill", "1"):
        return
    _write(top / "cgroup.freeze", "1")
    for directory in _walk(top):
        # A v1 freezer keeps even SIGKILL waiting.
        _write(directory / "freezer.state", "THAWED")
        for pid in _numbers(directory / "cgroup.procs"):
            _kill_member(pid, directory)


def _release(top: Path) -> None:
    """Let killed tasks die with the weight and bandwidth of the root: only where the cpu controller is."""
    for directory in _walk(top):
        if not any((directory / name).exists() for name in ("cpu.shares", "cpu.weight")):
            continue
        root = directory
        while (root.parent / "cgroup.procs").exists():
            root = root.parent
        for pid in _numbers(directory / "cgroup.procs"):
            _write(root / "cgroup.procs", str(pid))


def _kill_member(pid: int, directory: Path) -> None:
    """Kill one process, unless the pid has been reused by something outside since it was read."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if pid in _numbers(directory / "cgroup.procs"):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def _removed(top: Path) -> bool:
    """Remove from the leaves up what can be removed; say whether all is gone."""
    for directory in reversed(_walk(top)):
        try:
            directory.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY, errno.EAGAIN):
                return False
            raise ApplyError(f"{directory}: {error.strerror}") from None
    return not top.exists()


def _members(top: Path) -> set[int]:
    found: set[int] = set()
    for directory in _walk(top):
        found.update(_numbers(directory / "cgroup.procs"))
    return found


def _walk(top: Path) -> list[Path]:
    """List the directory and its descendants, parents first."""
    return [Path(walked[0]) for walked in os.walk(top, onerror=lambda error: None)]


def _numbers(path: Path) -> list[int]:
    with contextlib.suppress(OSError):
        # 0 is a process of another pid namespace: it has no number here.
        return [int(word) for word in (read_control(path) or "").split() if word.isdigit() and word != "0"]
    return []


def _write(path: Path, value: str) -> bool:
    try:
        write_once(path, value)
    except OSError:
        return False
    return True
