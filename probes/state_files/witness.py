"""Which processes wrote the kubelet's state files: fanotify on their folder, which costs nothing while nothing writes.

A kubelet writes another file and renames it; whatever else writes may do that, too, or write in place. The kernel keeps
the process's number with the event; its name is asked for when the event is read, at once where nothing keeps the
listening thread, and known of one that has ended meanwhile as long as it is among the last (``ended.bpf.c``).
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from probes.observer import Observer
from probes.state_files.decoder import StateFileReading
from probes.state_files.reader import EndedProcesses
from probes.witness import Chore, Edge, OpenWindow, Watch, Witness
from toolkit.host import fanotify
from toolkit.host.fanotify import Fanotify, FileEvent
from toolkit.model.evidence.state_writes import REMOVED, REPLACED, WRITTEN, StateWrite
from toolkit.model.state_files import CPU_FILE, KUBELETS, MEMORY_FILE
from toolkit.text import names

FILES = {name.encode(): name for name in (CPU_FILE, MEMORY_FILE)}
KEPT = 64
"""Changes of one file that are kept, those by kubelets and all others apart: the last ones."""
ONE_WRITE_NS = 1_000_000_000
"""What a process writes piece by piece within that time is one change."""
TICK_NS = 10_000_000
"""A file's time is that of the last tick of the kernel's clock: at the most so much too early."""
LATE_NS = 60_000_000_000
"""A file's time further back is no measure of how late an event is read: something set the clock."""


class StateFileWatch(Watch):
    """One window."""

    def __init__(self, witness: StateFileWitness) -> None:
        self._witness = witness

    def read(self, edge: Edge) -> StateFileReading | None:
        """Return what is known so far."""
        del edge
        return self._witness.reading()


class StateFileWitness(Witness):
    """What changed the state files of the folder that it is given (:meth:`state_folder`)."""

    SIDE = EndedProcesses

    def __init__(self, observer: Observer) -> None:
        self._ledger, self._proc = observer.ledger, observer.root / "proc"
        self._side = observer.ledger.side(EndedProcesses)
        self._lock = threading.Lock()
        self._queue: Fanotify | None = None
        self._folder: Path | None = None
        self._again: Callable[[], object] = bool
        self._problem, self._lost = "", False
        self._kept: dict[tuple[str, bool], deque[StateWrite]] = {}
        self._last_ns = 0
        """When the last change was: the kernel reports them in order."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """End all watches with the observer."""
        try:
            yield
        finally:
            with self._lock:
                if self._queue is not None:
                    self._queue.close()
                self._queue = None

    def state_folder(self, folder: Path) -> None:
        """Watch this folder from now on; a folder that was removed and made again is another one."""
        with self._lock:
            self._folder, self._problem = folder, ""
            try:
                if self._queue is None:
                    self._queue = Fanotify()
                    self._again = self._ledger.end_by(self._queue.file)
                    self._side.begin()
                self._queue.watch(folder)
            except OSError as error:
                self._problem = f"{folder}: {error.strerror}"

    def chores(self) -> tuple[Chore, ...]:
        """Name what wrote while it may still run: an event ends the listening thread's pause."""
        return (Chore(period_s=0.0, work=self.hear),)

    def catch_up(self) -> None:
        """Take what has been reported until now, and follow a folder that was made anew."""
        self.hear()
        if self._folder is not None:
            self.state_folder(self._folder)

    def hear(self) -> None:
        """Take what has been reported."""
        with self._lock:
            if self._queue is None:
                return
            events = tuple(self._queue.read())
            for event in events:
                self._lost = self._lost or bool(event.mask & fanotify.OVERFLOW)
                if event.name in FILES:
                    self._note(event, FILES[event.name])
            if events:
                self._again()

    def begin(self, window: OpenWindow, first: Edge) -> StateFileWatch:
        """Begin with a window."""
        del window, first
        return StateFileWatch(self)

    def reading(self) -> StateFileReading | None:
        """Return what is known; ``None``: there is no such folder here."""
        with self._lock:
            if self._folder is None:
                return None
            kept = sorted((one for rows in self._kept.values() for one in rows), key=lambda one: one.at_ns)
            problem = self._problem or ("more changes than the kernel keeps" if self._lost else "")
            return StateFileReading(writes=tuple(kept) if kept or not problem else None, problem=problem)

    def _note(self, event: FileEvent, file: str) -> None:
        did = _did(event.mask)
        comm = self._name_of(event.pid)
        own = event.pid == os.getpid()
        self._last_ns = max(self._dated(file), self._last_ns + 1)
        one = StateWrite(at_ns=self._last_ns, file=file, did=did, pid=event.pid, comm=comm, own=own)
        rows = self._kept.setdefault((file, comm in KUBELETS), deque(maxlen=KEPT))
        if rows and rows[-1] == replace(one, at_ns=rows[-1].at_ns) and one.at_ns - rows[-1].at_ns < ONE_WRITE_NS:
            rows.pop()
        rows.append(one)

    def _name_of(self, pid: int) -> str:
        with suppress(OSError):
            return names.shown((self._proc / str(pid) / "comm").read_bytes().rstrip(b"\n"))
        return self._side.name_of(pid)

    def _dated(self, file: str) -> int:
        """Return when it was changed (CLOCK_MONOTONIC): now, or one tick after the file's own time, if that is less.

        Of a file that does not exist it is the folder's.
        """
        now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        assert self._folder is not None
        for place in (self._folder / file, self._folder):
            with suppress(OSError):
                late_ns = wall_ns - place.lstat().st_ctime_ns - TICK_NS
                return now_ns - late_ns if 0 < late_ns < LATE_NS else now_ns
        return now_ns


def _did(mask: int) -> str:
    """Say what a process did: of several things that the kernel reports as one, what the file is like by."""
    if mask & fanotify.MOVED_TO:
        return REPLACED
    return WRITTEN if mask & (fanotify.MODIFY | fanotify.CREATE) else REMOVED
