"""Control files byte for byte, and what they meant when they last stood still: most readings find the same bytes.

Of an observer, for all its windows; threads may share it. A cgroup that is gone, or made anew, has other bytes or none,
and is read anew. Their descriptors stay open (:mod:`toolkit.host.kept_files`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.kept_files import GROUPS_AT_ONCE, KeptFiles, Places
from toolkit.model.cpuset import EMPTY
from toolkit.model.evidence import CgroupFiles

ATTEMPTS = 5
"""What writes once has done so after two of them."""
Raw = tuple[bytes | None, ...]
SETS = "cpuset."
"""How the names of files of sets begin: the kernel itself changes these, by a hotplug or for a partition beside. All
others change by a write to them alone.
"""


@dataclass(slots=True)
class Absent:
    """Directories that a round of readings has not found: what is below one of them is not there either.

    A container is in some v1 hierarchies only, and so are all beside it.
    """

    since_ns: int
    """When the round began."""
    folders: set[str] = field(default_factory=set)


class KnownFiles:
    """What is known of each cgroup's files. :param kept: reads them."""

    def __init__(self, hierarchy: Hierarchy, kept: KeptFiles) -> None:
        self.hierarchy, self._kept = hierarchy, kept
        self._layout = cgroupfs.control_layout(hierarchy)
        self._places: dict[str, Places] = {}
        self._set_places: dict[str, Places] = {}
        self._known: dict[str, tuple[Raw, CgroupFiles]] = {}
        self._lock = threading.Lock()
        """For what changes or goes through ``_known``: windows end in one thread while another reads files."""

    def names(self, cgroup: str) -> list[str]:
        """Return the names of a cgroup's files."""
        return [name for _, names in self._places_of(cgroup) for name in names]

    def bytes(self, cgroup: str, absent: Absent | None = None) -> Raw:
        """Read a cgroup's files, one after the other; ``None`` for one that cannot be read.

        :param absent: of the round in which it is read, if it is one.
        """
        return self._read_in(self._places_of(cgroup), absent)

    def bytes_of_each(self, cgroups: Sequence[str], absent: Absent) -> Iterator[tuple[str, int, Raw]]:
        """Read the files of many, as :meth:`bytes` reads one's; yields each with when it began to be read.

        :param cgroups: those above others before these.
        """
        return self._of_each(cgroups, self._places_of, absent)

    def sets_of_each(self, cgroups: Sequence[str], absent: Absent) -> Iterator[tuple[str, int, Raw]]:
        """Read their files of sets alone, as :meth:`bytes_of_each`."""
        return self._of_each(cgroups, self._set_places_of, absent)

    def _of_each(
        self, cgroups: Sequence[str], places_of: Callable[[str], Places], absent: Absent
    ) -> Iterator[tuple[str, int, Raw]]:
        for first in range(0, len(cgroups), GROUPS_AT_ONCE):
            some = cgroups[first : first + GROUPS_AT_ONCE]
            at_ns = time.monotonic_ns()
            together = self._kept.read_groups([places_of(cgroup) for cgroup in some])
            for cgroup, at_hand in zip(some, together, strict=True):
                if at_hand is None:
                    alone_ns = time.monotonic_ns()
                    yield cgroup, alone_ns, self._read_in(places_of(cgroup), absent)
                else:
                    yield cgroup, at_ns, at_hand

    def sets_in(self, cgroup: str, raw: Raw) -> Raw:
        """Return what :meth:`sets_of_each` would, of what :meth:`bytes` returned."""
        return tuple(data for name, data in zip(self.names(cgroup), raw, strict=True) if name.startswith(SETS))

    def _read_in(self, places: Iterable[tuple[str, tuple[str, ...]]], absent: Absent | None) -> Raw:
        found: list[bytes | None] = []
        for folder, names in places:
            if absent is not None and folder[: folder.rindex("/")] in absent.folders:
                absent.folders.add(folder)
                found += [None] * len(names)
                continue
            read = self._kept.read(folder, names)
            if absent is not None and not any(read) and not os.path.exists(folder):  # noqa: PTH110 hundreds of them
                absent.folders.add(folder)
            found += read
        return tuple(found)

    def renew(self) -> None:
        """Make sure that what is open is what has its name."""
        self._kept.renew()

    def _places_of(self, cgroup: str) -> Places:
        found = self._places.get(cgroup)
        if found is None:
            found = self._places[cgroup] = cgroupfs.files_in(self._layout, cgroup)
        return found

    def _set_places_of(self, cgroup: str) -> Places:
        found = self._set_places.get(cgroup)
        if found is None:
            of_sets = ((folder, _of_sets(names)) for folder, names in self._places_of(cgroup))
            found = self._set_places[cgroup] = tuple((folder, names) for folder, names in of_sets if names)
        return found

    def whole(self, cgroup: str) -> CgroupFiles:
        """Read what a cgroup's files say."""
        return read_whole(self.hierarchy, cgroup)

    def meaning(self, cgroup: str, raw: Raw, at_ns: int) -> CgroupFiles | None:
        """Return what these bytes say, read at ``at_ns``; ``None``: they are not those that are known."""
        known = self._known.get(cgroup)
        return None if known is None or known[0] != raw else replace(known[1], at_ns=at_ns)

    def beside(self, cgroup: str, found: CgroupFiles) -> CgroupFiles:
        """Return a reading with what the files say now that are in none of the bytes: the rare ones, read anew.

        They are opened each time: ten more descriptors of each cgroup would cost more than they are worth.
        """
        side = cgroupfs.read_side(self.hierarchy, cgroup)
        if all(getattr(found, name) == said for name, said in side.items()):
            return found
        with self._lock:
            known = self._known.get(cgroup)
            if known is not None:
                self._known[cgroup] = known[0], replace(known[1], **side)  # type: ignore[arg-type]
        return replace(found, **side)  # type: ignore[arg-type]

    def last(self, cgroup: str) -> tuple[Raw, CgroupFiles] | None:
        """Return the bytes that last stood still, and what they meant."""
        return self._known.get(cgroup)

    def stood_still(self, cgroup: str, raw: Raw, found: CgroupFiles) -> None:
        """Keep what bytes mean that were the same before and after it was read."""
        with self._lock:
            self._known[cgroup] = raw, found

    def read_all(self, cgroups: Iterable[str]) -> dict[str, CgroupFiles]:
        """Read all of them once, at an edge of a window."""
        absent = Absent(time.monotonic_ns())
        each = self.bytes_of_each(sorted(cgroups), absent)
        return {cgroup: self._what_it_says(cgroup, at_ns, raw, absent) for cgroup, at_ns, raw in each}

    def read(self, cgroup: str) -> CgroupFiles:
        """Read a cgroup once: what it says, known or not."""
        at_ns = time.monotonic_ns()
        return self._what_it_says(cgroup, at_ns, self.bytes(cgroup), Absent(at_ns))

    def _what_it_says(self, cgroup: str, at_ns: int, raw: Raw, absent: Absent) -> CgroupFiles:
        if absent.folders and any(folder in absent.folders for folder, _ in self._places_of(cgroup)):
            at_ns = absent.since_ns  # so old may be what is known of that directory
        found = self.meaning(cgroup, raw, at_ns)
        if found is None:
            found = self.whole(cgroup)
            if any(raw) and self.bytes(cgroup) == raw:
                self.stood_still(cgroup, raw, found)
            return found
        return self.beside(cgroup, found)

    def forget(self, cgroups: Iterable[str]) -> None:
        """Read these anew: they may be other cgroups now."""
        others = tuple(cgroups)
        self._kept.forget(folder for cgroup in others for folder, _ in self._places_of(cgroup))
        with self._lock:
            for cgroup in others:
                self._known.pop(cgroup, None)

    def keep(self, cgroups: Iterable[str]) -> None:
        """Forget all others. Which files a cgroup has is looked up again: a controller may have come."""
        wanted = frozenset(cgroups)
        before, self._layout = self._layout, cgroupfs.control_layout(self.hierarchy)
        same = before == self._layout
        self._places, self._set_places = (
            {cgroup: places for cgroup, places in known.items() if same and cgroup in wanted}
            for known in (self._places, self._set_places)
        )
        self._kept.keep(folder for cgroup in wanted for folder, _ in self._places_of(cgroup))
        with self._lock:
            for cgroup in [cgroup for cgroup in self._known if cgroup not in wanted]:
                del self._known[cgroup]


def _of_sets(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name.startswith(SETS))


def read_whole(hierarchy: Hierarchy, cgroup: str) -> CgroupFiles:
    """Read a cgroup's files. Where request and grant differ, something may have written between the two: read again."""
    found = cgroupfs.read_files(hierarchy, cgroup, time.monotonic_ns())
    for _ in range(ATTEMPTS):
        # On v2 an empty request asks for what the parent has.
        if found.cpus in (found.cpus_effective, EMPTY) and found.mems in (found.mems_effective, EMPTY):
            break
        before, found = found, cgroupfs.read_files(hierarchy, cgroup, time.monotonic_ns())
        if before.says(found):
            break
    return found
