"""The names of claimed cgroups in the kernel, and what happened to them: deleted, made, made again.

Mirror of ``probes/cgroups/cgroups.h``. The program keeps each name's last events in the map itself, so that reading
late loses nothing but the dates of events beyond :data:`KEPT_EVENTS`.

Source: include/trace/events/cgroup.h (``cgroup_mkdir``, ``cgroup_rmdir``), kernel/cgroup/cgroup.c (both under
``cgroup_mutex``; ``mkdir`` before ``kernfs_activate``).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from probes.program import Program
from probes.programs import Programs, Side
from probes.switches.records import limits
from toolkit.host import cgroupfs

PATH_BYTES = 512
KEPT_EVENTS = 16
GONE, MADE = 1, 2
_HEAD = struct.Struct("=IIIIQ")
_EVENT = struct.Struct("=QQQ")
VALUE_BYTES = _HEAD.size + KEPT_EVENTS * _EVENT.size
TRIES = 8
_FIRST = bytes(4)
"""The key of an array's first entry."""


@dataclass(frozen=True, slots=True)
class CgroupEvent:
    """A claimed cgroup was made or deleted at this moment of CLOCK_MONOTONIC. ``number``: the cgroup's id."""

    at_ns: int
    number: int
    made: bool


@dataclass(frozen=True, slots=True)
class News:
    """Events of one name in their order, those before ``undated`` of them that are too old to be known one by one."""

    total: int
    events: tuple[CgroupEvent, ...] = ()
    undated: int = 0


class ClaimedPaths(Side):
    """The maps, and the programs that write them."""

    SOURCE = "cgroups/cgroups.bpf.c"
    RAW_TRACEPOINTS: ClassVar[dict[str, str]] = {"cgroup_mkdir": "on_cgroup_mkdir", "cgroup_rmdir": "on_cgroup_rmdir"}
    PROGRAMS = (Program(name="on_cgroup_mkdir"), Program(name="on_cgroup_rmdir"))

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs)
        self.paths = programs.table("claimed_paths", PATH_BYTES, VALUE_BYTES)
        self._counter = programs.table("path_events", 4, 8)
        self._made = programs.table("cgroups_made", 4, 8)

    def release(self) -> None:
        """Let every name be no claim's: a new cgroup of one must not become a claim's again."""
        for path in tuple(self.paths.keys()):
            self.paths.delete(path)

    def claim(self, cgroup: str, slot: int, ident: int, legacy: Collection[str]) -> bool:
        """Let a new cgroup of this name be the claim's at once; ``False`` where the name is too long for the kernel, or
        nothing is loaded there.

        :param legacy: controllers in whose v1 hierarchies it has a cgroup of its name.
        """
        key = _key(cgroup)
        if key is None or not self.loaded.observed:
            return False
        self.paths.update(key, _HEAD.pack(slot, ident, "cpuset" in legacy, limits(legacy), 0).ljust(VALUE_BYTES, b"\0"))
        return True

    def forget(self, cgroup: str) -> None:
        """Let the name be no claim's."""
        key = _key(cgroup)
        if key is not None:
            self.paths.delete(key)

    def count(self) -> int:
        """Return how many events there were, of all names: it changes whenever there is news."""
        return self._counter.words(_FIRST)[0]

    def made(self) -> int:
        """Return how many cgroups of the machine were made since the programs were loaded.

        One is counted before its directory can be seen: what looks for it at once may find nothing yet.
        """
        return self._made.words(_FIRST)[0]

    def news(self, cgroup: str, known: int) -> News:
        """Return what happened to a name since ``known`` events."""
        key = _key(cgroup)
        data = None if key is None else self.paths.lookup(key)
        for _ in range(TRIES):
            again = None if key is None else self.paths.lookup(key)
            if again == data:
                break
            data = again  # an event came while it was read
        return News(known) if data is None else decode(data, known)


def decode(data: bytes, known: int) -> News:
    """Read ``struct claimed``: the events after the first ``known`` ones, as far as they are kept."""
    *_, total = _HEAD.unpack_from(data)
    first = max(known, total - KEPT_EVENTS)
    events = []
    for number in range(first, total):
        at_ns, cgroup, kind = _EVENT.unpack_from(data, _HEAD.size + number % KEPT_EVENTS * _EVENT.size)
        events.append(CgroupEvent(at_ns=at_ns, number=cgroup, made=kind == MADE))
    return News(total=total, events=tuple(events), undated=first - known)


def _key(cgroup: str) -> bytes | None:
    raw = os.fsencode("/" + cgroupfs.relative(cgroup.rstrip("/")))
    return raw.ljust(PATH_BYTES, b"\0") if len(raw) < PATH_BYTES else None
