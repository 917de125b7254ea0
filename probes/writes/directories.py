"""Which directories are watched: of every claim's cgroup and all above it, in each hierarchy that holds a promise.

A cgroup may be made anew under its name: its directories are looked at again when that is known, and in each round of
the reader of control files until :data:`SETUP_NS` after (a runtime makes them one after the other, in v1 and in v2);
without a sign, every :data:`AGAIN_NS`.

Source: Documentation/admin-guide/cgroup-v1/cgroups.rst; fs/kernfs/inode.c (a directory's inode is its node's number).
"""

from __future__ import annotations

import errno
import os
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from probes.bpfsys import Map
from probes.subjects import Subject
from probes.writes.records import DIRECTORY
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy, v1_number

SETUP_NS = 5_000_000_000
AGAIN_NS = 30_000_000_000
CONTROLLERS = ("cpuset", "cpu", "memory")


@dataclass(slots=True)
class _Cgroup:
    """``number``: what records of it have."""

    number: int
    path: str
    directories: set[bytes] = field(default_factory=set)
    looked_ns: int = 0
    """When it was looked at last."""


@dataclass(slots=True)
class _Looked:
    """When a claim's cgroups were looked at, and when its cgroup was first seen as it is."""

    cgroup_id: int
    since_ns: int
    at_ns: int


class Table(Protocol):
    """Where directories are watched."""

    full: bool
    """Whether there was no room for a directory."""

    def add(self, key: bytes, number: int, directory: Path) -> bool:
        """Watch a directory; returns whether there was room. :param number: of its cgroup."""

    def remove(self, key: bytes) -> None:
        """Watch it no more."""


class WriteDirs:
    """The map ``write_dirs``: the programs look there."""

    def __init__(self, table: Map) -> None:
        self._table, self.full = table, False

    def add(self, key: bytes, number: int, directory: Path) -> bool:
        """Watch a directory, if there is room."""
        del directory
        try:
            self._table.update(key, struct.pack("=I", number))
        except OSError as error:
            if error.errno not in (errno.E2BIG, errno.ENOMEM):
                raise
            self.full = True
            return False
        return True

    def remove(self, key: bytes) -> None:
        """Watch it no more."""
        self._table.delete(key)


class Directories:
    """All watched cgroups by name. Called under the observer's lock."""

    def __init__(self, tables: tuple[Table, ...], hierarchy: Hierarchy, root: Path) -> None:
        self._tables = tables
        self._mounts = mounts(hierarchy, root)
        self._users: Counter[str] = Counter()
        self._cgroups: dict[str, _Cgroup] = {}
        self.names: dict[int, str] = {}
        """The cgroup of every number that records may still have."""
        self._looked: dict[str, _Looked] = {}
        self._last = 0

    def forget_names(self, but: set[int]) -> None:
        """Forget the numbers of cgroups that nothing watches any more, but these."""
        present = {cgroup.number for cgroup in self._cgroups.values()} | but
        self.names = {number: name for number, name in self.names.items() if number in present}

    def add(self, subject: Subject, levels: tuple[str, ...], now_ns: int) -> None:
        """Watch a claim's cgroup and those above it."""
        self._users.update(levels)
        # Those above it are most often another claim's, too, and known.
        new = tuple(level for level in levels if level not in self._cgroups)
        for level in new:
            self._last += 1
            self._cgroups[level] = _Cgroup(self._last, cgroupfs.relative(level))
            self.names[self._last] = level
        self.look(subject, new, now_ns)

    def remove(self, subject: Subject, levels: tuple[str, ...]) -> None:
        """Watch them no more, unless another claim is about them."""
        self._looked.pop(subject.name, None)
        for level in levels:
            self._users[level] -= 1
            if self._users[level] <= 0:
                del self._users[level]
                for key in self._cgroups.pop(level).directories:
                    self._drop(key)

    def look(self, subject: Subject, levels: tuple[str, ...], now_ns: int) -> None:
        """Learn which directories they have now."""
        before = self._looked.get(subject.name)
        same = before is not None and before.cgroup_id == subject.cgroup_id
        since_ns = before.since_ns if before is not None and same else now_ns
        self._looked[subject.name] = _Looked(subject.cgroup_id, since_ns, now_ns)
        for level in levels:
            self._look(self._cgroups[level], now_ns)

    def track(self, subject: Subject, levels: tuple[str, ...], now_ns: int) -> None:
        """Look where the claim's cgroup is another one than at the last look."""
        before = self._looked.get(subject.name)
        if before is not None and before.cgroup_id != subject.cgroup_id:
            self.look(subject, levels, now_ns)

    def look_again(self, subject: Subject, levels: tuple[str, ...], now_ns: int) -> None:
        """Look where it is due."""
        before = self._looked.get(subject.name)
        if before is None:
            return
        young = before.at_ns - before.since_ns < SETUP_NS  # until one look came late enough, however seldom they come
        if young:
            self.look(subject, levels, now_ns)
        elif now_ns - before.at_ns >= AGAIN_NS:
            # One above many claims is not looked at again for each of them.
            old = (level for level in levels if now_ns - self._cgroups[level].looked_ns >= AGAIN_NS // 2)
            self.look(subject, tuple(old), now_ns)
        else:
            self.track(subject, levels, now_ns)

    def _look(self, cgroup: _Cgroup, now_ns: int) -> None:
        cgroup.looked_ns = now_ns
        found: dict[bytes, str] = {}
        for hierarchy, mount in self._mounts:
            directory = f"{mount}/{cgroup.path}"
            try:
                found[DIRECTORY.pack(os.stat(directory).st_ino, hierarchy)] = directory  # noqa: PTH116 a thousand
            except OSError:
                continue
        for key in cgroup.directories - found.keys():
            self._drop(key)
        kept = cgroup.directories & found.keys()
        for key in found.keys() - cgroup.directories:
            there = [table.add(key, cgroup.number, Path(found[key])) for table in self._tables]
            if all(there):
                kept.add(key)
        cgroup.directories = kept

    def _drop(self, key: bytes) -> None:
        for table in self._tables:
            table.remove(key)


def mounts(hierarchy: Hierarchy, root: Path) -> tuple[tuple[int, Path], ...]:
    """Return number and mount point of each hierarchy that holds a promise; v2 is number 0."""
    found: dict[int, Path] = {}
    for controller in CONTROLLERS:
        mount = hierarchy.find_controller(controller)
        if mount is not None:
            found[0 if hierarchy.is_v2(controller) else v1_number(controller, root)] = mount
    return tuple(sorted(found.items()))
