"""Files of cgroups that are read again and again, through descriptors that stay open.

Opening one costs seven times what reading it does, and a node has ten thousand. A descriptor is of a file, not of its
name: when its cgroup or its controller is removed the kernel says ENODEV. Then all of that folder is opened anew, and
what was made under its name is read, or nothing. A v1 cgroup may be renamed, which the kernel does not say:
:meth:`KeptFiles.renew` looks. Only files of cgroup file systems are kept: elsewhere one that is replaced under its name
stays what it was for what has it open.

Source: fs/kernfs/file.c (``kernfs_seq_start``: ENODEV), kernel/cgroup/cgroup-v1.c (``cgroup1_rename``; v2 has none),
fs/seq_file.c (``seq_read_iter``: at position 0 a file is shown anew; the buffer stays), statfs(2),
include/uapi/linux/magic.h.
"""

from __future__ import annotations

import ctypes
import os
import resource
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from toolkit.host.kernel_file import open_to_read, read_once

MOST = 12288
"""Descriptors that are kept: of each the kernel holds 4.6 KB, a page for its text among them. Others are opened. Enough
for 500 containers and their pods, each with nine files where v1 hierarchies have its controllers.
"""
MOST_COUNTERS = 4096
"""Of files that are read once a window, besides those: four of a container, three of its pod."""
SHARE, SHARE_COUNTERS = 2, 4
"""And at most one in so many of those that this process may have; a quarter is left for all else."""
AT_ONCE = 64
"""So many files are read before another thread may read: a tenth of a millisecond."""
GROUPS_AT_ONCE = 8
"""The same of groups, which are cgroups with some ten files each."""
_BYTES = 1 << 16
_CGROUP, _CGROUP2 = 0x27E0EB, 0x63677270
_libc = ctypes.CDLL(None)
Read = Callable[[str], bytes | None]
Places = tuple[tuple[str, tuple[str, ...]], ...]
"""Folders, and the files that are read in each."""


def _read_once(path: str) -> bytes | None:
    return read_once(path, _BYTES)


@dataclass(slots=True)
class _Folder:
    """A cgroup's directory, and which of its files are open."""

    inode: int
    movable: bool
    """Whether its name may become another's without a word: only v1 lets a cgroup be renamed."""
    files: dict[str, int] = field(default_factory=dict)


class KeptFiles:
    """Of a process, for all that read control files; may be used by any thread.

    :param most: descriptors. :param share: and one in so many of those that this process may have.
    """

    def __init__(self, most: int = MOST, share: int = SHARE) -> None:
        self._most, self._share = most, share
        self._folders: dict[str, _Folder] = {}
        self._groups: dict[Places, tuple[int, ...]] = {}
        """Descriptors of files that are read together: only while every folder is what it was."""
        self._count = 0
        # A number that one thread closes may be another file's when a second one reads it.
        self._lock = threading.Lock()

    def __enter__(self) -> KeptFiles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def count(self) -> int:
        """How many are open."""
        return self._count

    def read(
        self, folder: str, names: Sequence[str], inode: int | None = None, read: Read = _read_once
    ) -> list[bytes | None]:
        """Read files of a folder, one after the other; ``None`` for one that is not there, or cannot be read.

        :param inode: of the folder, where that was just looked at.
        :param read: reads one by its path that is not kept open.
        """
        with self._lock:
            kept = self._folders.get(folder)
            if kept is not None and inode in (None, kept.inode):
                files = kept.files
                try:
                    return [
                        os.pread(files[name], _BYTES, 0) if name in files else self._opened(folder, name, kept)
                        for name in names
                    ]
                except OSError:
                    pass  # it is gone: what has its name now is another
            self._drop(folder)
            return self._anew(folder, names, read)

    def read_each(self, folders: Sequence[tuple[str, int]], name: str, read: Read = _read_once) -> list[bytes | None]:
        """Read the same file of many folders, one after the other; a third faster than :meth:`read` of each.

        :param folders: each with its inode, as that was just looked at.
        """
        found: list[bytes | None] = []
        for first in range(0, len(folders), AT_ONCE):
            with self._lock:
                self._at_hand(folders[first : first + AT_ONCE], name, found)
        for index, (folder, inode) in enumerate(folders):
            if found[index] is None:
                (found[index],) = self.read(folder, (name,), inode, read)
        return found

    def read_groups(self, groups: Sequence[Places]) -> list[tuple[bytes, ...] | None]:
        """Read the files of several places each, one after the other; half as dear as :meth:`read` of each folder.

        :param groups: at most :data:`GROUPS_AT_ONCE`: no other thread may read meanwhile.
        :returns: of each group its files in their order; ``None``: not all of them are open, or one is gone.
        """
        with self._lock:
            return [self._group(places) for places in groups]

    def _group(self, places: Places) -> tuple[bytes, ...] | None:
        descriptors = self._groups.get(places)
        if descriptors is None:
            kept = [self._folders.get(folder) for folder, _ in places]
            numbers = [
                None if one is None else one.files.get(name)
                for one, (_, names) in zip(kept, places, strict=True)
                for name in names
            ]
            descriptors = tuple(number for number in numbers if number is not None)
            if len(descriptors) < len(numbers):
                return None
            self._groups[places] = descriptors
        try:
            return tuple([os.pread(descriptor, _BYTES, 0) for descriptor in descriptors])
        except OSError:
            return None

    def _at_hand(self, folders: Iterable[tuple[str, int]], name: str, found: list[bytes | None]) -> None:
        """Add what a file that is open says in each; ``None``: it is not open, or it is gone."""
        for folder, inode in folders:
            kept = self._folders.get(folder)
            descriptor = kept.files.get(name) if kept is not None and kept.inode == inode else None
            try:
                found.append(None if descriptor is None else os.pread(descriptor, _BYTES, 0))
            except OSError:
                found.append(None)

    def forget(self, folders: Iterable[str]) -> None:
        """Open the files of these folders anew: they may be others now."""
        with self._lock:
            for folder in folders:
                self._drop(folder)

    def keep(self, folders: Iterable[str]) -> None:
        """Close the files of all other folders."""
        wanted = frozenset(folders)
        with self._lock:
            for folder in [one for one in self._folders if one not in wanted]:
                self._drop(folder)

    def renew(self) -> None:
        """Close the files of folders that are no more what has their name."""
        with self._lock:
            known = {folder: kept.inode for folder, kept in self._folders.items() if kept.movable}
        self.forget([folder for folder, inode in known.items() if _inode(folder) != inode])

    def close(self) -> None:
        """Close all; whatever reads on opens what it reads."""
        with self._lock:
            self._most = 0
            for folder in tuple(self._folders):
                self._drop(folder)

    def _anew(self, folder: str, names: Sequence[str], read: Read) -> list[bytes | None]:
        inode = _inode(folder) if self._count < self._most else 1
        if not inode:  # one look for all: a container is not in every v1 hierarchy
            return [None] * len(names)
        if self._count >= self._most or not _is_cgroup(folder):
            return [read(f"{folder}/{name}") for name in names]
        kept = self._folders[folder] = _Folder(inode, movable=_magic(folder) != _CGROUP2)
        return [self._opened(folder, name, kept) for name in names]

    def _opened(self, folder: str, name: str, kept: _Folder) -> bytes | None:
        """Read a file that is not open, and leave it open while there is room."""
        try:
            descriptor = open_to_read(f"{folder}/{name}")
        except OSError:
            return None
        try:
            found = os.read(descriptor, _BYTES)
        except OSError:
            os.close(descriptor)
            return None
        if self._count < min(self._most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // self._share):
            kept.files[name] = descriptor
            self._count += 1
        else:
            os.close(descriptor)
        return found

    def _drop(self, folder: str) -> None:
        kept = self._folders.pop(folder, None)
        if kept is not None:
            self._count -= len(kept.files)
            self._groups.clear()
            for descriptor in kept.files.values():
                os.close(descriptor)


NONE_KEPT = KeptFiles(0)
"""Opens what it reads, each time."""


def _inode(folder: str) -> int:
    """Return a folder's inode; 0: there is none."""
    try:
        return os.stat(folder).st_ino  # noqa: PTH116 a thousand of them
    except OSError:
        return 0


def _is_cgroup(folder: str) -> bool:
    """Whether it is on a cgroup file system. ``False``, too, where the kernel does not say."""
    return _magic(folder) in (_CGROUP, _CGROUP2)


def _magic(folder: str) -> int:
    """Return the number of its file system's type; 0 where the kernel does not say."""
    words = (ctypes.c_long * 32)()  # struct statfs begins with f_type
    return words[0] if _libc.statfs(os.fsencode(folder), words) == 0 else 0
