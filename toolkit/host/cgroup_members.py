"""Which processes and threads are in a cgroup and its descendants.

Lists of the v2 hierarchy can be read through descriptors that stay open. Those of v1 hierarchies are opened each time:
the kernel makes one for all that have it open, and shows it to them for a second.

Source: Documentation/admin-guide/cgroup-v2.rst ("Threads"), cgroup-v1/cgroups.rst; kernel/cgroup/cgroup.c
(``__cgroup_procs_start``: begins anew at position 0), cgroup-v1.c (``CGROUP_PIDLIST_DESTROY_DELAY``).
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.host.cgroup_paths import directories as walked
from toolkit.host.cgroup_paths import mounts, relative
from toolkit.host.kept_files import NONE_KEPT, KeptFiles

_LEAF_LINKS = 2
"""Links of a directory without directories in it: its name and its own ".". Where a file system counts otherwise
(btrfs: always 1) the tree is walked. Of a cgroup, which has some fifty files, one stat(2) says so instead of a listing.
Source: fs/kernfs/inode.c (``kernfs_refresh_inode``: ``set_nlink(inode, kn->dir.subdirs + 2)``)."""

_ONE_READ = 2048
"""A list that is longer may go on where a read ended: one read gives what fits into a page, all lines but the last.
Source: fs/seq_file.c (``seq_read_iter``)."""


def pids(hierarchy: Hierarchy, cgroup: str, kept: KeptFiles = NONE_KEPT) -> tuple[int, ...]:
    """Return the processes of the cgroup and its descendants, sorted.

    Membership is that of the identity (v2) hierarchy where the cgroup exists there, else of the v1 cpuset, else v1 cpu.
    """
    found: set[int] = set()
    mount, directories = _member_dirs(hierarchy, cgroup)
    for directory in directories:
        text = _listed(directory, "cgroup.procs", kept if mount == hierarchy.unified else NONE_KEPT)
        if text is not None:
            found.update(_numbers(text))
        else:  # a threaded cgroup refuses this file (EOPNOTSUPP); its threads name their processes
            threads = (
                _read_status_tgid(hierarchy, tid) for tid in _numbers(read_control(f"{directory}/cgroup.threads") or "")
            )
            found.update(tgid for tgid in threads if tgid is not None)
    return tuple(sorted(found))


def tids(hierarchy: Hierarchy, cgroup: str) -> tuple[int, ...]:
    """Return the threads of the cgroup and its descendants, sorted; membership as in :func:`pids`."""
    found: set[int] = set()
    for directory in _member_dirs(hierarchy, cgroup)[1]:
        found.update(_threads(directory))
    return tuple(sorted(found))


def whole_processes(hierarchy: Hierarchy, cgroup: str, kept: KeptFiles = NONE_KEPT) -> tuple[int, ...] | None:
    """Return the processes of the cgroup and its descendants, sorted, if all threads of each are there, too.

    So it is in the v2 hierarchy, but for threaded cgroups, which do not list processes. ``None``: it is not known.
    """
    mount, directories = _member_dirs(hierarchy, cgroup)
    found: set[int] = set()
    for directory in directories:
        text = _listed(directory, "cgroup.procs", kept) if mount == hierarchy.unified else None
        if text is None:
            return None
        found.update(_numbers(text))
    return tuple(sorted(found))


def has_tasks(hierarchy: Hierarchy, cgroup: str) -> bool:
    """Return whether any task is in the cgroup or its descendants, in any hierarchy that matters."""
    path = relative(cgroup)
    return any(_threads(one) for mount in mounts(hierarchy) for one in _dirs(f"{mount}/{path}"))


def tids_below(mount: Path, cgroup: str) -> frozenset[int] | None:
    """Return the threads of a cgroup of one hierarchy and its descendants; ``None``: there is none of that name."""
    directories = _dirs(f"{mount}/{relative(cgroup)}")
    if not directories:
        return None
    return frozenset(tid for one in directories for tid in _threads(one))


def pids_by_cgroup(mount: Path, cgroup: str) -> dict[int, tuple[int, ...]]:
    """Return the processes of a cgroup of one hierarchy and of each of its descendants, by the cgroup's id."""
    tree = walked(f"{mount}/{relative(cgroup)}")
    return {inode: _numbers(read_control(f"{folder}/cgroup.procs") or "") for folder, inode in tree}


def _listed(directory: str, name: str, kept: KeptFiles) -> str | None:
    if kept is not NONE_KEPT:
        (found,) = kept.read(directory, (name,))
        if found is not None and len(found) < _ONE_READ:
            return found.decode("ascii")
    return read_control(f"{directory}/{name}")


def _threads(directory: str) -> tuple[int, ...]:
    text = read_control(f"{directory}/cgroup.threads")
    if text is None:
        text = read_control(f"{directory}/tasks")
    return _numbers(text or "")


def _read_status_tgid(hierarchy: Hierarchy, tid: int) -> int | None:
    match = re.search(r"^Tgid:\s*(\d+)$", read_control(hierarchy.root / f"proc/{tid}/status") or "", re.MULTILINE)
    return None if match is None else int(match[1])


def _member_dirs(hierarchy: Hierarchy, cgroup: str) -> tuple[Path | None, tuple[str, ...]]:
    """Return the mount point of the hierarchy whose members count, and the directories there."""
    path = relative(cgroup)
    legacy = dict(hierarchy.legacy)
    for mount in (hierarchy.unified, legacy.get("cpuset"), legacy.get("cpu")):
        directories = () if mount is None else _dirs(f"{mount}/{path}")
        if directories:
            return mount, directories
    return None, ()


def _dirs(directory: str) -> tuple[str, ...]:
    """Return a cgroup and its descendants; none if there is no such cgroup."""
    try:
        status = os.stat(directory)  # noqa: PTH116 a thousand of them
    except OSError:
        return ()
    if not stat.S_ISDIR(status.st_mode):
        return ()
    if status.st_nlink == _LEAF_LINKS:
        return (directory,)
    return tuple(walked[0] for walked in os.walk(directory, onerror=lambda error: None))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split() if word.isdigit())
