"""Wait until a file or a directory of a set changes: inotify where the kernel gives it, else a look each second.

The kernel reports writes by programs, and what they make and remove, on cgroup file systems as on any other. It does
not report what it changes by itself (``cpuset.cpus.effective`` after a hotplug). Source: inotify(7); fs/namei.c
(``vfs_mkdir``, ``vfs_rmdir`` call fsnotify for every file system).
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

LOOK_S = 1.0
MAX_WATCHES = 100_000
_IN_MODIFY, _IN_MOVED_FROM, _IN_MOVED_TO = 0x2, 0x40, 0x80
_IN_CREATE, _IN_DELETE, _IN_DELETE_SELF, _IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_EVENTS = _IN_MODIFY | _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF
_IN_IGNORED = 0x8000
_EVENT = struct.Struct("iIII")
_Stamp = tuple[int, int, int, tuple[str, ...]]


class Changes:
    """Use :meth:`follow` with the present set, then :meth:`wait`."""

    def __init__(self, *, inotify: bool = True) -> None:
        """:param inotify: ``False``: look, as where the kernel refuses."""
        self._file: int | None = None
        self._libc = ctypes.CDLL(None, use_errno=True)
        if inotify:
            self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self._file = None if self._file is None or self._file < 0 else self._file
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._watched: dict[Path, int] = {}
        self._stamps: dict[Path, _Stamp | None] = {}

    def __enter__(self) -> Changes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching. Nobody may :meth:`wake` it afterwards."""
        os.close(self._bell)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def wake(self) -> None:
        """End the wait that is going on, or the next. May be called by any thread."""
        os.eventfd_write(self._bell, 1)

    def follow(self, paths: Iterable[Path]) -> None:
        """Watch these paths and no others; what is gone is left out."""
        wanted = set(paths)
        if self._file is None:
            self._stamps = {path: self._stamps.get(path, _stamp(path)) for path in wanted}
            return
        for path in [path for path in self._watched if path not in wanted]:
            self._libc.inotify_rm_watch(self._file, self._watched.pop(path))
        for path in wanted - set(self._watched):
            number = self._libc.inotify_add_watch(self._file, os.fsencode(path), _EVENTS) if self._room() else -1
            if number >= 0:
                self._watched[path] = number

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; return whether anything changed, or somebody woke it."""
        ready = select.poll()
        ready.register(self._bell, select.POLLIN)
        if self._file is not None:
            ready.register(self._file, select.POLLIN)
        longest_s = seconds if self._file is not None else min(LOOK_S, seconds)
        found = {number for number, _ in ready.poll(max(0.0, longest_s) * 1000)}
        if self._bell in found:
            os.eventfd_read(self._bell)
        return self._look() or self._bell in found if self._file is None else self._take(self._file, found)

    def _look(self) -> bool:
        now = {path: _stamp(path) for path in self._stamps}
        changed = now != self._stamps
        self._stamps = now
        return changed

    def _take(self, file: int, found: set[int]) -> bool:
        """Take what the kernel has reported; return whether there was anything."""
        if file not in found:
            return bool(found)
        ended = set()
        with suppress(BlockingIOError):
            while data := os.read(file, 65536):
                ended |= _ended(data)
        # What was removed may be made again, another inode: the next `follow` watches it anew.
        self._watched = {path: number for path, number in self._watched.items() if number not in ended}
        return True

    def _room(self) -> bool:
        return len(self._watched) < MAX_WATCHES


def _ended(data: bytes) -> set[int]:
    """Return the watches that the kernel has ended; a queue that ran over ends none and is a change like others."""
    found, place = set(), 0
    while place + _EVENT.size <= len(data):
        number, mask, _, length = _EVENT.unpack_from(data, place)
        if mask & _IN_IGNORED:
            found.add(number)
        place += _EVENT.size + length
    return found


def _stamp(path: Path) -> _Stamp | None:
    """What is compared: a directory's entries, a file's time and size; of a control file, whose time stands still, its
    text.
    """
    try:
        found = path.stat()
        inside: tuple[str, ...] = ()
        if path.is_dir():
            inside = tuple(sorted(entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)))
            return found.st_ino, 0, 0, inside
        if found.st_size == 0 or path.name.startswith(("cpuset.", "cpu.")):
            inside = (path.read_text(errors="replace")[:4096],)
        return found.st_ino, found.st_mtime_ns, found.st_size, inside
    except OSError:
        return None
