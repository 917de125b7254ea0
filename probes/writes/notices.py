"""That a control file was written, from the kernel's notices (inotify): where the program that sees every write is
refused. What wrote what is not known by it, but that a cgroup must be read is.

A watch of a directory reports the writes to the files in it; it costs a kilobyte of the kernel's memory. Writes by
Linux AIO, and through io_uring before 5.19, are not reported (:mod:`toolkit.host.inotify`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from toolkit.host import inotify
from toolkit.host.inotify import Inotify


class Notices:
    """The watched directories, and what was reported of them."""

    def __init__(self) -> None:
        self._queue: Inotify | None = None
        with suppress(OSError):
            self._queue = Inotify()
        self._watches: dict[bytes, int] = {}
        self._numbers: dict[int, int] = {}
        self.full = self._queue is None
        """Whether a directory is not watched."""
        self._again: Callable[[], object] = bool

    def wake(self, end_by: Callable[[int], Callable[[], None]]) -> None:
        """Let something that is reported end a wait, once after each :meth:`take`: however many writes there are, what
        waits is not woken more often than they are taken.

        :param end_by: as :meth:`probes.ringbuf.Rings.end_by`.
        """
        if self._queue is not None:
            self._again = end_by(self._queue.file)

    def close(self) -> None:
        """End all watches."""
        self._again = bool
        if self._queue is not None:
            self._queue.close()
        self._queue, self.full = None, True

    def add(self, key: bytes, number: int, directory: Path) -> bool:
        """Watch a directory; returns whether that can be. :param number: of its cgroup."""
        if self._queue is None:
            return False
        try:
            watch = self._queue.add(directory, inotify.MODIFY | inotify.ONLY_DIRECTORY)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):  # gone since it was looked at
                self.full = True
            return False
        self._watches[key] = watch
        self._numbers[watch] = number
        return True

    def remove(self, key: bytes) -> None:
        """Watch a directory no more."""
        watch = self._watches.pop(key, None)
        if watch is not None and self._queue is not None:
            self._numbers.pop(watch, None)
            self._queue.remove(watch)

    def waiting(self) -> bool:
        """Say whether something was reported since the last :meth:`take`."""
        return self._queue is not None and self._queue.ready()

    def take(self) -> set[int] | None:
        """Return the numbers of the cgroups that were written to since the last call; ``None``: some are not known."""
        if self._queue is None:
            return None
        found, whole = set(), True
        for watch, event in self._queue.read():
            whole = whole and not event & inotify.OVERFLOW
            number = self._numbers.get(watch)
            if number is not None:
                found.add(number)
        self._again()
        return found if whole and not self.full else None
