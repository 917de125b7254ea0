"""inotify(7): what programs write, make and remove in directories, on cgroup file systems as on any other.

The kernel does not report what it changes by itself (``cpuset.cpus.effective`` after a hotplug), nor what is written by
Linux AIO, and through io_uring only since 5.19. Source: inotify(7), io_submit(2); fs/namei.c (``vfs_mkdir``,
``vfs_rmdir`` call fsnotify for every file system), fs/read_write.c (``vfs_write``); commit f63cf5192fe3 "io_uring:
ensure that fsnotify is always called".
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path

MODIFY, MOVED_FROM, MOVED_TO = 0x2, 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
OVERFLOW, IGNORED = 0x4000, 0x8000
ONLY_DIRECTORY = 0x01000000
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """One queue of events, never waited for: poll :attr:`file`.

    :raises OSError: the kernel gives none (EMFILE: so many instances are open already).
    """

    def __init__(self) -> None:
        self.file = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._close = weakref.finalize(self, os.close, self.file)
        self._ready = select.poll()
        self._ready.register(self.file, select.POLLIN)

    def close(self) -> None:
        """End all watches."""
        self._close()

    def add(self, path: Path, events: int) -> int:
        """Watch a path; returns the number of the watch, the same for the same inode.

        :raises OSError: ENOSPC: ``fs.inotify.max_user_watches`` are in use.
        """
        return _checked(_libc.inotify_add_watch(self.file, os.fsencode(path), events))

    def remove(self, watch: int) -> None:
        """End a watch, if it has not ended."""
        _libc.inotify_rm_watch(self.file, watch)

    def ready(self) -> bool:
        """Say whether :meth:`read` would yield anything."""
        return bool(self._ready.poll(0))

    def read(self) -> Iterator[tuple[int, int]]:
        """Take what was reported: the number of a watch (-1: of none) and the event, until there is no more."""
        while True:
            try:
                data = os.read(self.file, 65536)
            except BlockingIOError:
                return
            place = 0
            while place + _EVENT.size <= len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, place)
                yield watch, mask
                place += _EVENT.size + length


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "inotify")
    return result
