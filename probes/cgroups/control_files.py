"""The control files of all watched cgroups: what was changed and put back while a window is open.

Only bytes are compared; where they differ the cgroup is read anew, and kept if its values differ from the reading
before. A cgroup that is gone says nothing: whether it exists is the affair of :mod:`probes.cgroups.identity`.

Files that hold no promise by themselves (:mod:`toolkit.host.side_files`) are read where a write to a cgroup is reported
(:meth:`ControlFiles.look`), and at both ends of a window.

One that is written to each time while it is read has no reading of one moment. It is counted, and where it is one value
that never stands still, what was read of it was there all the same.

Source: Documentation/filesystems/sysfs.rst (kernfs files have no modification time to go by).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from probes.cgroups.known_files import ATTEMPTS, Absent, KnownFiles, Raw
from probes.clocks import Clock
from toolkit.model.evidence import CgroupFiles

MAX_CHANGES = 10_000
"""Readings kept in one window; more are counted."""
TOGETHER = (
    {"cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"},
    {"cpuset.mems", "cpuset.mems.effective", "cpuset.effective_mems"},
)
"""Files that one write changes, each judged by itself."""


class ControlFiles:
    """The readings of one window. Readers and callers may be different threads."""

    def __init__(self, known: KnownFiles, first: Mapping[str, CgroupFiles], at_ns: int) -> None:
        self._known = known
        self._lock = threading.Lock()
        self._last = dict(first)
        self._raw: dict[str, Raw] = {}
        self._changes: list[CgroupFiles] = []
        self._swept, self._watched = Clock(at_ns), Clock(at_ns)
        self._end_ns: int | None = None
        self._never_at_rest: dict[str, int] = {}
        self._renewed = False
        self.readings = 0
        self.dropped = 0
        """Readings that differed and were not kept: too many."""

    def read(self, cgroups: Iterable[str], *, rare: bool = False, sets_only: bool = False) -> None:
        """Read all of them once.

        :param cgroups: those above others before these. :param rare: where readings are, a window's first looks for
            cgroups that were renamed, else each. :param sets_only: read what changes without a write, where every write
            is known of; one that differs is read whole.
        """
        began = time.monotonic_ns()
        if not (rare and self._renewed):
            self._known.renew()
        self._renewed = True
        absent, known, every = Absent(began), self._known, tuple(cgroups)
        if sets_only:
            for cgroup, _, sets in known.sets_of_each(every, absent):
                if not self._sets_stand(cgroup, sets):
                    self._look(cgroup, time.monotonic_ns(), known.bytes(cgroup, absent))
        else:
            for cgroup, at_ns, raw in known.bytes_of_each(every, absent):
                self._look(cgroup, at_ns, raw)
        with self._lock:
            self._swept.beat(began)
            if not sets_only:
                self._watched.beat(began)
            self.readings += 1

    def _sets_stand(self, cgroup: str, sets: Raw) -> bool:
        before = self._standing(cgroup)
        return before is not None and sets == self._known.sets_in(cgroup, before)

    def _standing(self, cgroup: str) -> Raw | None:
        """Return the bytes of the last reading; what the edge of a window has read is known by its meaning."""
        found, last, known = self._raw.get(cgroup), self._last.get(cgroup), self._known.last(cgroup)
        if found is None and last is not None and known is not None and last.says(known[1]):
            found = self._raw[cgroup] = known[0]
        return found

    def looked(self, heard_ns: int) -> None:
        """Note that all were read that were written to until ``heard_ns``, by the word of what sees every write."""
        with self._lock:
            self._watched.beat(time.monotonic_ns(), since_ns=max(heard_ns, self._watched.last_ns))

    def look(self, cgroup: str) -> None:
        """Read one cgroup, and keep what differs from the reading before."""
        at_ns = time.monotonic_ns()
        self._look(cgroup, at_ns, self._known.bytes(cgroup))
        last = self._last.get(cgroup)
        if last is not None and not last.empty:
            found = self._known.beside(cgroup, last)
            if found is not last:
                self.note(replace(found, at_ns=at_ns))

    def _look(self, cgroup: str, at_ns: int, raw: Raw) -> None:
        """Keep what differs from the reading before. :param at_ns: when it began to be read. :param raw: what was."""
        known = self._known
        if raw == self._raw.get(cgroup) or not any(raw):
            return
        meant = known.meaning(cgroup, raw, at_ns)
        if meant is not None:
            self._raw[cgroup] = raw
            self.note(meant)
            return
        changing: set[str] = set()
        for _ in range(ATTEMPTS):
            found = known.whole(cgroup)
            before, raw = raw, known.bytes(cgroup)
            if raw == before:  # nothing wrote while its files were read one after the other
                known.stood_still(cgroup, raw, found)
                self._raw[cgroup] = raw
                self.note(found)
                return
            files = zip(known.names(cgroup), before, raw, strict=True)
            changing.update(name for name, one, other in files if one != other)
        if len(changing) == 1 or any(changing <= files for files in TOGETHER):
            self.note(found)  # all else stood still: this was so at a moment
        with self._lock:
            if self._end_ns is None:
                self._never_at_rest[cgroup] = self._never_at_rest.get(cgroup, 0) + 1

    def note(self, found: CgroupFiles) -> None:
        """Take a reading that something made; one that was made when the window had ended is the next one's."""
        if found.empty:
            return
        with self._lock:
            if self._end_ns is not None and found.at_ns > self._end_ns:
                return
            before = self._last.get(found.cgroup)
            self._last[found.cgroup] = found
            if before is None or before.says(found):
                return
            if len(self._changes) >= MAX_CHANGES:
                self.dropped += 1
            else:
                self._changes.append(found)

    def end(self, at_ns: int) -> None:
        """Note that the window has ended."""
        with self._lock:
            self._end_ns = at_ns

    def never_at_rest(self) -> dict[str, int]:
        """Return the cgroups that were written to each time while they were read, with how often that was so."""
        with self._lock:
            return dict(self._never_at_rest)

    def last(self, cgroup: str) -> CgroupFiles | None:
        """Return the last reading in which the cgroup existed."""
        return self._last.get(cgroup)

    def gap_ns(self, end_ns: int) -> int:
        """Return the longest time between two readings of all, if the last one is made at ``end_ns``."""
        with self._lock:
            return self._swept.until(end_ns)[0]

    def unwatched_ns(self, end_ns: int) -> int:
        """Return the longest time in which they were neither read nor known to be unwritten, until ``end_ns``."""
        with self._lock:
            return self._watched.until(end_ns)[0]

    def changes(self, start_ns: int) -> tuple[CgroupFiles, ...]:
        """Return what differed, in order of time; times since ``start_ns``."""
        with self._lock:
            return tuple(replace(found, at_ns=max(0, found.at_ns - start_ns)) for found in self._changes)
