"""The control files of all watched cgroups about once a second: what was changed and put back while a window is open.

Only bytes are compared; where they differ the cgroup is read anew, and kept if its values differ from the reading
before. A cgroup that is gone says nothing: whether it exists is the affair of :mod:`probes.cgroups.identity`.

One that is written to each time while it is read has no reading of one moment. It is counted, and where it is one value
that never stands still, what was read of it was there all the same.

Source: Documentation/filesystems/sysfs.rst (kernfs files have no modification time to go by).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.model.cpuset import EMPTY
from toolkit.model.evidence import CgroupFiles

MAX_CHANGES = 10_000
"""Readings kept in one window; more are counted."""
ATTEMPTS = 5
"""Who writes once has done so after two of them."""
TOGETHER = (
    {"cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"},
    {"cpuset.mems", "cpuset.mems.effective", "cpuset.effective_mems"},
)
"""Files that one write changes, each judged by itself."""
_Raw = tuple[bytes | None, ...]


class ControlFiles:
    """The readings of one window. Readers and those who ask may be different threads."""

    def __init__(self, hierarchy: Hierarchy, first: Mapping[str, CgroupFiles], at_ns: int) -> None:
        self._hierarchy = hierarchy
        self._lock = threading.Lock()
        self._last = dict(first)
        self._raw: dict[str, _Raw] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._changes: list[CgroupFiles] = []
        self._beat_ns = at_ns
        self._gap_ns = 0
        self._end_ns: int | None = None
        self._unsettled: dict[str, int] = {}
        self.readings = 0
        self.dropped = 0
        """Readings that differed and were not kept: too many."""

    def read(self, cgroups: Iterable[str]) -> None:
        """Read all of them once."""
        began = time.monotonic_ns()
        for cgroup in cgroups:
            self.look(cgroup)
        with self._lock:
            self._gap_ns = max(self._gap_ns, began - self._beat_ns)
            self._beat_ns = began
            self.readings += 1

    def look(self, cgroup: str) -> None:
        """Read one cgroup, and keep what differs from the reading before."""
        if cgroup not in self._paths:
            self._paths[cgroup] = cgroupfs.control_paths(self._hierarchy, cgroup)
        raw = self._bytes(cgroup)
        if raw == self._raw.get(cgroup) or not any(raw):
            return
        changing: set[str] = set()
        for _ in range(ATTEMPTS):
            found = read_whole(self._hierarchy, cgroup)
            before, raw = raw, self._bytes(cgroup)
            if raw == before:  # nobody wrote while its files were read one after the other
                self._raw[cgroup] = raw
                self.note(found)
                return
            files = zip(self._paths[cgroup], before, raw, strict=True)
            changing.update(os.path.basename(path) for path, one, other in files if one != other)  # noqa: PTH119
        if len(changing) == 1 or any(changing <= files for files in TOGETHER):
            self.note(found)  # all else stood still: this was so at a moment
        with self._lock:
            if self._end_ns is None:
                self._unsettled[cgroup] = self._unsettled.get(cgroup, 0) + 1

    def _bytes(self, cgroup: str) -> _Raw:
        return tuple(_read(path) for path in self._paths[cgroup])

    def note(self, found: CgroupFiles) -> None:
        """Take a reading that somebody made; one that was made when the window had ended is the next one's."""
        if found.empty:
            return
        with self._lock:
            if self._end_ns is not None and found.at_ns > self._end_ns:
                return
            before = self._last.get(found.cgroup)
            self._last[found.cgroup] = found
            if before is None or replace(before, at_ns=found.at_ns) == found:
                return
            if len(self._changes) >= MAX_CHANGES:
                self.dropped += 1
            else:
                self._changes.append(found)

    def end(self, at_ns: int) -> None:
        """Note that the window has ended."""
        with self._lock:
            self._end_ns = at_ns

    def unsettled(self) -> dict[str, int]:
        """Return the cgroups that were written to each time while they were read, with how often that was so."""
        with self._lock:
            return dict(self._unsettled)

    def last(self, cgroup: str) -> CgroupFiles | None:
        """Return the last reading in which the cgroup existed."""
        return self._last.get(cgroup)

    def gap_ns(self, end_ns: int) -> int:
        """Return the longest time between two readings, if the last one is made at ``end_ns``."""
        with self._lock:
            return max(self._gap_ns, end_ns - self._beat_ns)

    def changes(self, start_ns: int) -> tuple[CgroupFiles, ...]:
        """Return what differed, in order of time; times since ``start_ns``."""
        with self._lock:
            return tuple(replace(found, at_ns=max(0, found.at_ns - start_ns)) for found in self._changes)


def read_whole(hierarchy: Hierarchy, cgroup: str) -> CgroupFiles:
    """Read a cgroup's files. Where request and grant differ, somebody may have written between the two: read again."""
    found = cgroupfs.read_files(hierarchy, cgroup, time.monotonic_ns())
    for _ in range(ATTEMPTS):
        # On v2 an empty request asks for what the parent has.
        if found.cpus in (found.cpus_effective, EMPTY) and found.mems in (found.mems_effective, EMPTY):
            break
        before, found = found, cgroupfs.read_files(hierarchy, cgroup, time.monotonic_ns())
        if replace(before, at_ns=found.at_ns) == found:
            break
    return found


def _read(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return None
    finally:
        os.close(descriptor)
