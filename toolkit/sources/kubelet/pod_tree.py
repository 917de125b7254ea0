"""The cgroups of a node that is followed: looked at at each reading, and listed only where one came or went.

No event is relied on, so none can be missed: each directory is looked at, and each file read, every time.
Source: Documentation/admin-guide/cgroup-v2.rst; fs/kernfs/inode.c (``kernfs_refresh_inode``); inode(7).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import is_
from pathlib import Path

from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.node_reading import UNIFIED
from toolkit.model.runtimes import CRUN_INNER
from toolkit.sources.kubelet.live_files import FILES, MAX_DEPTH, Tops, inside, is_of_pods, small_file
from toolkit.text.names import shown

_CPUS = FILES[0]
_WHOSE = ("cpu.max", "cgroup.procs")
"""Files that say, beside that of the CPUs, which of a scope and crun's cgroup in it has a container's limits."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """A cgroup's directory.

    :param prefix: of its files in a capture; empty: it is none of pods.
    :param below, links: those inside, and the links to it, when it was looked at last.
    """

    path: str
    inode: int
    prefix: str
    below: tuple[_Folder, ...] = ()
    links: int = 0


class _Tree:
    """A hierarchy's directories as they were at a look. :param top: its mount."""

    def __init__(self, top: _Folder) -> None:
        self.top = top
        folders = tuple(_within(top))
        self._inside = [(one.path, one.inode, one.links) for one in folders[1:]]
        self._counted = all(one.links == len(one.below) + 2 for one in folders)
        pods = [one for one in folders if one.prefix]
        self._read = [(one, f"{one.prefix}{_CPUS}", _whose(one)) for one in pods]
        self._places = [(one.path, one.inode) for one in pods]

    def is_still(self, here: os.stat_result) -> bool:
        """Whether a look would find the same: each directory is there, itself, with as many links to it; and there were
        as many as it had directories inside (see :func:`_now`). :param here: the mount.
        """
        top = self.top
        if not self._counted or (here.st_ino, here.st_nlink) != (top.inode, top.links):
            return False
        try:
            for path, inode, links in self._inside:
                found = os.lstat(path)
                if found.st_ino != inode or found.st_nlink != links:  # what has its inode is the directory that it was
                    return False
        except OSError:
            return False
        return True

    def files(self, kept: KeptFiles) -> dict[str, bytes]:
        """Read one file of each: `cpuset.cpus` where it is, and one at least. By them a cgroup is known to exist."""
        found: dict[str, bytes] = {}
        each = kept.read_each(self._places, _CPUS, small_file)
        for (one, key, whose), data in zip(self._read, each, strict=True):
            if data is not None:
                found[key] = data
            elif name := next(iter(inside(one.path)), ""):
                found |= _read(one, (name,))
            for scope in whose:
                found |= _read(scope, _WHOSE)
        return found


class PodTree:
    """Of one node. :param kept: reads its files."""

    def __init__(self, kept: KeptFiles = NONE_KEPT) -> None:
        self._kept = kept
        self._trees: dict[str, _Tree] = {}
        """What was found at the last look, by mount."""

    def cpusets(self, hierarchies: Tops) -> dict[str, bytes]:
        """Read of each cgroup of pods one file, that of its CPUs where it has one, as a capture's ``cgroup/...``.

        Of one hierarchy alone, cpuset's or unified: a container is in every one, the first says what the others would.
        The files are read each time: no time and no size of a control file says whether it was written.
        """
        found: dict[str, bytes] = {}
        trees: dict[str, _Tree] = {}
        for hierarchy, mount in hierarchies:
            name = f"{hierarchy}/" if hierarchy else ""
            if name not in ("cpuset/", f"{UNIFIED}/", ""):
                continue
            tree = self._seen(str(mount), name)
            if tree is not None:
                trees[str(mount)] = tree
                found |= tree.files(self._kept)
            if name == "cpuset/" and found:
                break
        self._trees = trees
        return found

    def _seen(self, mount: str, name: str) -> _Tree | None:
        """Return the tree as it is now. :param name: of the hierarchy in a capture."""

        def made(path: str, inode: int) -> _Folder:
            below = path[len(mount) :].strip("/")
            prefix = f"cgroup/{name}{shown(os.fsencode(below))}/" if is_of_pods(below) else ""
            return _Folder(path, inode, prefix)

        try:
            here = Path(mount).stat()  # It may be a link: controllers that share a hierarchy have one each.
        except OSError:
            return None
        tree = self._trees.get(mount)
        if tree is not None and tree.is_still(here):
            return tree
        top = tree.top if tree is not None and tree.top.inode == here.st_ino else made(mount, here.st_ino)
        return _Tree(_now(top, here.st_nlink, 0, made))


def _now(known: _Folder, links: int, depth: int, made: Callable[[str, int], _Folder]) -> _Folder:
    """Return a directory as it is now. :param known: itself, with what was inside it then. :param links: to it now.

    On a cgroup file system, as on most others, each directory inside is one link more than two. Where there are as many
    as were known, and each of these is still there, itself (its inode), those inside are these and no others: a listing
    would say the same. It reads the names of dozens of control files in each of a thousand directories. A file system
    that does not count so never agrees, and is listed.
    """
    pairs: list[tuple[_Folder, int]] | None = []
    if links != 2 and depth < MAX_DEPTH:
        pairs = _still(known.below) if links == len(known.below) + 2 else None
    if pairs is None:
        before = {(one.path, one.inode): one for one in known.below}
        pairs = [
            (before.get((path, found.st_ino)) or made(path, found.st_ino), found.st_nlink)
            for path, found in _listed(known.path)
        ]
    below = tuple(_now(one, count, depth + 1, made) for one, count in pairs)
    same = links == known.links and len(below) == len(known.below) and all(map(is_, below, known.below))
    return known if same else replace(known, below=below, links=links)


def _still(below: Sequence[_Folder]) -> list[tuple[_Folder, int]] | None:
    """Return directories with the links to them now; ``None``: one is there no more."""
    found = []
    for one in below:
        here = _directory(one.path)
        if here is None or here.st_ino != one.inode:
            return None
        found.append((one, here.st_nlink))
    return found


def _listed(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]:
            here = _directory(path)
            if here is not None:
                yield path, here


def _directory(path: str) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISDIR(found.st_mode) else None


def _read(folder: _Folder, names: Sequence[str]) -> dict[str, bytes]:
    files = ((name, small_file(f"{folder.path}/{name}")) for name in names)
    return {f"{folder.prefix}{name}": data for name, data in files if data is not None}


def _within(top: _Folder) -> Iterator[_Folder]:
    """Yield a directory and all in it."""
    waiting = [top]
    while waiting:
        one = waiting.pop()
        waiting += one.below
        yield one


def _whose(folder: _Folder) -> tuple[_Folder, ...]:
    """Return a scope and crun's cgroup in it, if there is one: one of the two has a container's limits."""
    inner = next((each for each in folder.below if each.path.endswith(f".scope/{CRUN_INNER}")), None)
    return () if inner is None else (folder, inner)
