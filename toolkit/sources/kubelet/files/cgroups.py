"""The cgroups of a live node's pods: their control files as a capture has them, and what is in them.

Of a capture every file is read once. A node that is followed is looked at at each reading, and listed only where a
cgroup came or went: no event is relied on, so none can be missed. Read-only; nothing waits, all is bounded.

Source: Documentation/admin-guide/cgroup-v2.rst (``cgroup.procs``, ``cpu.max``); cgroup-v1/cpusets.rst; proc(5);
fs/kernfs/inode.c (``kernfs_refresh_inode``); inode(7); docs/facts.md K-quota.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import is_
from pathlib import Path
from typing import Any

from toolkit import presence
from toolkit.host import side_files
from toolkit.host.cgroup_paths import directories
from toolkit.host.hugetlb import size_name
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import systemd_quota
from toolkit.model.memory_units import MAX_BYTES, NO_LIMIT, limit_in_force, whole_pages
from toolkit.model.node_reading import UNIFIED, V1, Asked
from toolkit.model.runtimes import CRUN_INNER
from toolkit.regular_file import read_bytes, small_file
from toolkit.sources.json_parts import number
from toolkit.sources.kubelet.files.process import numbers
from toolkit.sources.kubelet.pod_paths import is_of_pods
from toolkit.text.names import shown

FILES = (
    *("cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"),
    *("cpuset.mems", "cpuset.mems.effective", "cpuset.effective_mems"),
    *("cpu.max", "cpu.max.burst", "cpu.weight"),
    *("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"),
    *("memory.max", "memory.limit_in_bytes", "cgroup.procs"),
    *(*side_files.CPU, *side_files.CPUSET, *side_files.MEMORY),
)
"""Control files that a reading holds."""
_HUGE = re.compile(r"hugetlb\.\d{1,6}[KMG]B\.(?:max|limit_in_bytes)", re.ASCII)
_DEAD = re.compile(rb"^State:\t[ZX]", re.MULTILINE)
_MASK = re.compile(rb"^(Cpus|Mems)_allowed_list:\s*(\S*)$", re.MULTILINE)
MAX_DEPTH = 12


def cgroup_files(root: Path) -> dict[str, bytes]:
    """Read the control files of everything below ``kubepods``, on v2, v1 and hybrid hosts.

    :returns: a capture's ``cgroup/...`` files, names spelt as :mod:`toolkit.text.names` does.
    """
    found: dict[str, bytes] = {}
    for hierarchy, mount in hierarchies(root):
        name = f"{hierarchy}/" if hierarchy else ""
        for folder, path in _pod_folders(str(mount)):
            for file in inside(folder):
                data, _ = read_bytes(f"{folder}/{file}")
                if data is not None:
                    found[f"cgroup/{name}{path}/{file}"] = data
    return found


Tops = tuple[tuple[str, Path], ...]
"""Name and mount of each hierarchy of cgroups."""


def hierarchies(root: Path) -> Tops:
    """Return name and mount of each hierarchy; the one of a v2 host has no name, whatever cgroups it has are named."""
    try:
        there = (V1 | {UNIFIED}).intersection(path.name for path in root.iterdir())
    except OSError:  # What may not be listed may be looked into.
        there = V1 | {UNIFIED}
    names = [name for name in sorted(there) if presence.is_dir(root / name)]
    if not any(name in V1 for name in names) or presence.exists(root / "cgroup.controllers"):
        return (("", root),)
    return tuple((name, root / name) for name in names)


def _pod_folders(mount: str) -> Iterator[tuple[str, str]]:
    """Yield ``kubepods`` wherever it is (nodes in containers have it deeper) and all below it: the folder, its path
    spelt.
    """
    for folder, _ in directories(mount, MAX_DEPTH):
        path = folder[len(mount) :].strip("/")
        if is_of_pods(path):
            yield folder, shown(os.fsencode(path))


def inside(folder: str) -> list[str]:
    """Return which of the wanted files a folder has."""
    try:
        with os.scandir(folder) as entries:
            there = {entry.name for entry in entries}
    except OSError:
        return []
    return [file for file in FILES if file in there] + sorted(filter(_HUGE.fullmatch, there))


def threads(cgroups: dict[str, bytes], proc: Path) -> dict[str, Any]:
    """Return ``threads.json``: the processes in these cgroups, each with the masks of its threads."""
    words = {
        word for name, data in cgroups.items() if name.endswith("/cgroup.procs") for word in data.split() if _id(word)
    }
    found = {}
    for pid in sorted(words, key=int):
        process = _process(proc / pid.decode())
        if process["threads"]:
            found[pid.decode()] = process
    return found


def _id(word: bytes) -> bool:
    return word.isdigit() and len(word) < 10


def _process(folder: Path) -> dict[str, Any]:
    """Name and cgroups stand once, and again for a thread where its own ones are others."""
    whole: dict[str, Any] = {"comm": "", "cgroup": "", "threads": {}}
    try:
        tids = numbers(folder / "task")
    except OSError:
        return whole
    for tid in tids:
        task = folder / "task" / str(tid)
        # In this order: what is in a cgroup by then has got its CPUs by the time when the mask is read.
        cgroup, status = read_bytes(task / "cgroup")[0], read_bytes(task / "status")[0]
        # A first thread may end before the others: no change of its cgroup reaches it, and v1 shows it at the root.
        if status is None or cgroup is None or _DEAD.search(status):
            continue
        comm = shown((read_bytes(task / "comm")[0] or b"").strip(b"\n"))
        groups = "\n".join(shown(line) for line in cgroup.splitlines())
        if not whole["threads"]:
            whole |= {"comm": comm, "cgroup": groups}
        masks = {
            f"{key.decode()}_allowed_list": value.decode("utf-8", "replace") for key, value in _MASK.findall(status)
        }
        other = {key: value for key, value in (("comm", comm), ("cgroup", groups)) if value != whole[key]}
        whole["threads"][str(tid)] = masks | other
    return whole


_CPUS = FILES[0]
_LIMITS = ("cpu.max", "cgroup.procs")
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
        self._read = [(one, f"{one.prefix}{_CPUS}", _limited_scopes(one)) for one in pods]
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
        for (one, key, scopes), data in zip(self._read, each, strict=True):
            if data is not None:
                found[key] = data
            elif name := next(iter(inside(one.path)), ""):
                found |= _read(one, (name,))
            for scope in scopes:
                found |= _read(scope, _LIMITS)
        return found


class PodTree:
    """The cgroups of pods of one node that is followed. :param kept: reads its files."""

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


def _limited_scopes(folder: _Folder) -> tuple[_Folder, ...]:
    """Return a scope and crun's cgroup in it, if there is one: one of the two has a container's limits."""
    inner = next((each for each in folder.below if each.path.endswith(f".scope/{CRUN_INNER}")), None)
    return () if inner is None else (folder, inner)


def files_of(page_bytes: int) -> tuple[str, ...]:
    """Return how a limit's control file is called, on v2 and on v1; nothing: no kernel has such pages."""
    size = size_name(page_bytes)
    return () if size is None else (f"hugetlb.{size}.max", f"hugetlb.{size}.limit_in_bytes")


PERIOD_US = 100_000
_QUOTAS = ("cpu", "cpu,cpuacct", UNIFIED, "")
_CFS = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
_QUOTA_FILES = (("cpu.max",), _CFS), (_CFS,)
_MEMORY = ("memory.max", "memory.limit_in_bytes"), ("memory.limit_in_bytes",)
"""Files of a limit in the order in which they are looked for: on v2, or where nothing says which it is; on v1."""
_DEPTH = 8
"""An init system in a container makes cgroups of its own."""


class ControlWords:
    """:param hierarchies: of cgroups. :param kept: reads files."""

    def __init__(self, hierarchies: Tops, kept: KeptFiles = NONE_KEPT) -> None:
        self._kept = kept
        tops = dict(hierarchies)
        self._members = [str(tops[name]) for name in ("cpuset", UNIFIED, "") if name in tops]
        # A controller is in one hierarchy: what is not there is nowhere.
        memory = ((str(tops[name]), _MEMORY[name in V1]) for name in ("memory", UNIFIED, "") if name in tops)
        self._memory = next(memory, None)
        self._huge = [str(tops[name]) for name in ("hugetlb", UNIFIED, "") if name in tops]
        quotas = ((str(tops[name]), _QUOTA_FILES[name in V1]) for name in _QUOTAS if name in tops)
        self._quotas = next(quotas, None)

    def has_tasks(self, cgroup: str) -> bool:
        """Whether any process is in a cgroup or below it. ``False``, too: it cannot be read, as one that is gone."""
        return any(_has_tasks(f"{top}{cgroup}", _DEPTH) for top in self._members)

    def limits_huge_pages(self, cgroup: str, page_bytes: int) -> bool:
        """Whether a cgroup has a limit of huge pages of this size."""
        return any(presence.is_file(f"{top}{cgroup}/{name}") for top in self._huge for name in files_of(page_bytes))

    def as_asked(self, cgroup: str, asked: Asked) -> bool:
        """Whether what a resize changes is in force as the runtime was asked for, as far as both are known."""
        return self.quota_as_asked(cgroup, asked) and self._memory_as_asked(cgroup, asked.memory_bytes)

    def _memory_as_asked(self, cgroup: str, wanted: int | None) -> bool:
        top, names = self._memory or ("", ())
        for name in names:
            words = self._read(f"{top}{cgroup}", name)[0]
            if words and not words.isspace():
                return _is_limit(words, wanted)
        return True

    def quota_as_asked(self, cgroup: str, asked: Asked) -> bool:
        """Whether the quota in force is what the runtime was asked for, as far as both are known."""
        if asked.quota_us is None:
            return True
        top, files = self._quotas or ("", ())
        for names in files:
            said = _is_quota(tuple(self._read(f"{top}{cgroup}", *names)), asked.quota_us, asked.period_us)
            if said is not None:
                return said
        return True

    def _read(self, folder: str, *names: str) -> list[bytes | None]:
        return self._kept.read(folder, names, None, small_file)


def _has_tasks(folder: str, depth: int) -> bool:
    found = directories(folder, depth)
    return any((small_file(f"{path}/cgroup.procs") or b"").strip() for path, _ in found)


@lru_cache(4096)
def _is_limit(words: bytes, wanted: int | None) -> bool:
    """Whether a limit's text is that of a wanted one; the kernel rounds it down to whole pages. Hundreds of containers
    have few of them, and the same at each reading: so below.
    """
    limit = MAX_BYTES if words.strip() == b"max" else number(words.strip().decode("ascii", "replace"))
    found = None if limit is None else limit_in_force(limit)
    return found is None or found in whole_pages(wanted if wanted and wanted > 0 else NO_LIMIT)


@lru_cache(4096)
def _is_quota(texts: tuple[bytes | None, ...], wanted_us: int, wanted_period_us: int | None) -> bool | None:
    """Whether texts of a quota and its period are those of wanted ones; ``None``: they are no such texts.

    systemd's driver rounds up to a hundredth of a CPU.
    """
    words = b" ".join(data or b"" for data in texts).split()
    if len(words) != 2:
        return None
    quota, period_us = (number(word.decode("ascii", "replace")) for word in words)
    quota_us = NO_QUOTA if words[0] == b"max" else quota
    if quota_us is None or period_us is None:
        return True
    if wanted_us <= 0 or quota_us < 0:
        return wanted_us <= 0 and quota_us < 0
    asked_period_us = wanted_period_us or PERIOD_US
    return quota_us in (wanted_us, systemd_quota(wanted_us, asked_period_us)) and period_us == asked_period_us
