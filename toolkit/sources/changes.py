"""Wait until a file or a directory of a set changes: inotify where the kernel gives it, else a look each second.

What the kernel reports, and what it does not: :mod:`toolkit.host.inotify`.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from toolkit.host import inotify as kernel
from toolkit.host.inotify import Inotify

LOOK_S = 1.0
MAX_WATCHES = 100_000
_MOVES = kernel.MOVED_FROM | kernel.MOVED_TO | kernel.MOVE_SELF
_EVENTS = kernel.MODIFY | kernel.CREATE | kernel.DELETE | kernel.DELETE_SELF | _MOVES
_Stamp = tuple[int, int, int, tuple[str, ...]]


class Changes:
    """Use :meth:`follow` with the present set, then :meth:`wait`."""

    def __init__(self, *, inotify: bool = True) -> None:
        """:param inotify: ``False``: look, as where the kernel refuses."""
        self._queue: Inotify | None = None
        if inotify:
            with suppress(OSError):
                self._queue = Inotify()
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
        """Stop watching. Nothing may :meth:`wake` it afterwards."""
        os.close(self._bell)
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    def wake(self) -> None:
        """End the wait that is going on, or the next. May be called by any thread."""
        os.eventfd_write(self._bell, 1)

    def follow(self, paths: Iterable[Path]) -> None:
        """Watch these paths and no others; what is gone is left out."""
        wanted = set(paths)
        if self._queue is None:
            self._stamps = {path: self._stamps.get(path, _stamp(path)) for path in wanted}
            return
        for path in [path for path in self._watched if path not in wanted]:
            self._queue.remove(self._watched.pop(path))
        for path in wanted - set(self._watched):
            if len(self._watched) < MAX_WATCHES:
                with suppress(OSError):
                    self._watched[path] = self._queue.add(path, _EVENTS)

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; return whether anything changed, or something woke it."""
        ready = select.poll()
        ready.register(self._bell, select.POLLIN)
        if self._queue is not None:
            ready.register(self._queue.file, select.POLLIN)
        longest_s = seconds if self._queue is not None else min(LOOK_S, seconds)
        found = {number for number, _ in ready.poll(max(0.0, longest_s) * 1000)}
        if self._bell in found:
            os.eventfd_read(self._bell)
        return self._look() or self._bell in found if self._queue is None else self._take(self._queue, found)

    def _look(self) -> bool:
        now = {path: _stamp(path) for path in self._stamps}
        changed = now != self._stamps
        self._stamps = now
        return changed

    def _take(self, queue: Inotify, found: set[int]) -> bool:
        """Take what the kernel has reported; return whether there was anything."""
        if queue.file not in found:
            return bool(found)
        # A queue that ran over ends no watch, and is a change like others.
        ended = {number for number, event in queue.read() if event & kernel.IGNORED}
        # What was removed may be made again, another inode: the next `follow` watches it anew.
        self._watched = {path: number for path, number in self._watched.items() if number not in ended}
        return True


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
