"""A cgroup's name, its directory in each hierarchy, and its number there.

A cgroup is named by its path below the root of every hierarchy (``/a/b``), and may vanish at any moment.
Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cgroups.rst; docs/facts.md K9.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.text import names

PROMISING = ("cpuset", "cpu", "memory")
"""The controllers that a claim may promise something of."""


@lru_cache(maxsize=8192)
def relative(cgroup: str) -> str:
    """Check a cgroup path and return it without the leading ``/``, as file functions want it.

    A node has a thousand cgroups, and each is asked for again and again: what was found is kept.

    :param cgroup: spelt as by :mod:`toolkit.text.names`.
    :raises InputError: not absolute, with empty, ``.`` or ``..`` parts, or with what no cgroup's name has.
    """
    path = names.raw(cgroup)
    wrong = not path.startswith(b"/") or len(path) > 4000 or b"\0" in path or not cgroup.isprintable()
    if wrong or (path != b"/" and any(part in (b"", b".", b"..") for part in path.split(b"/")[1:])):
        found = names.printable(cgroup[:120])
        raise InputError("cgroup", found, "a path below the cgroup root such as /kubepods/pod1/db")
    return os.fsdecode(path[1:])


def spelt(directory: str | Path, mount: Path) -> str:
    """Return the cgroup whose directory this is, spelt as by :mod:`toolkit.text.names`."""
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
    directory = f"{hierarchy.identity_root()}/{relative(cgroup)}"
    try:
        found = os.stat(directory)  # noqa: PTH116 a thousand of them
    except OSError as error:
        raise InputError(f"cgroup {cgroup}", f"{error.strerror} ({directory})", "a cgroup that exists") from None
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"cgroup {cgroup}", f"{directory} is not a directory", "a cgroup that exists")
    return found.st_ino


def legacy_ids(hierarchy: Hierarchy, cgroup: str) -> dict[str, int]:
    """Return the cgroup's numbers in the v1 hierarchies of :data:`PROMISING`, of those in which it exists."""
    path, found = relative(cgroup), {}
    for controller, mount in hierarchy.legacy:
        if controller in PROMISING:
            with suppress(OSError):
                found[controller] = os.stat(f"{mount}/{path}").st_ino  # noqa: PTH116 a thousand of them
    return found


def directories(top: str, levels: int | None = None) -> Iterator[tuple[str, int]]:
    """Walk a tree of cgroups: each directory with its inode, parents first. :param levels: below the top, at most.

    A node has a thousand that have none inside, and dozens of files each: where the links of a directory count those in
    it, as on cgroup file systems and most others, these are not listed. Source: fs/kernfs/inode.c
    (``kernfs_refresh_inode``); inode(7).
    """
    waiting = [(top, 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            found = os.lstat(folder)
        except OSError:
            continue
        yield folder, found.st_ino
        if found.st_nlink == 2 or depth == levels:
            continue
        with suppress(OSError), os.scandir(folder) as entries:
            waiting += [(entry.path, depth + 1) for entry in entries if entry.is_dir(follow_symlinks=False)]


def exists(hierarchy: Hierarchy, cgroup: str) -> bool:
    """Return whether any hierarchy that matters has the cgroup."""
    path = relative(cgroup)
    return any(presence.is_dir(mount / path) for mount in mounts(hierarchy))


def subtree(hierarchy: Hierarchy, cgroup: str) -> tuple[str, ...]:
    """Return the cgroup and all its descendants, parents first, over the hierarchies that matter."""
    path = relative(cgroup)
    found: set[str] = set()
    for mount in mounts(hierarchy):
        top = mount / path
        for directory, _, _ in os.walk(top, onerror=lambda error: None):
            found.add(spelt(directory, mount))
    return tuple(sorted(found, key=lambda name: name.split("/")))


def mounts(hierarchy: Hierarchy) -> tuple[Path, ...]:
    """Hierarchies that matter, the identity first."""
    mounts = [] if hierarchy.unified is None else [hierarchy.unified]
    mounts += [mount for name, mount in hierarchy.legacy if name in ("cpuset", "cpu", "cpuacct")]
    return tuple(dict.fromkeys(mounts))
