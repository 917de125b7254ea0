"""The records of moves and affinity changes: a mirror of ``actions.h``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from probes.records import Record

ACTION_MOVE, ACTION_AFFINITY, ACTION_LEAVE = range(3)
MOVE_VISIT, MOVE_BORN = 1, 2


@dataclass(frozen=True, slots=True)
class ActionState(Record):
    """What a CPU sent and dropped (``struct action_state``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=4I3Q")
    window: int
    sent_moves: int
    sent_affinities: int
    sent_leaves: int
    dropped_moves: int
    dropped_affinities: int
    dropped_leaves: int


@dataclass(frozen=True, slots=True)
class Move(Record):
    """A task was moved to another cgroup (``struct move``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2IQ10I16s16s128s")
    kind: int
    window: int
    at_ns: int
    writer_tid: int
    writer_tgid: int
    tid: int
    tgid: int
    from_ident: int
    to_ident: int
    hierarchy: int
    whole_process: int
    writer_ident: int
    flags: int
    writer_comm: bytes
    comm: bytes
    path: bytes


@dataclass(frozen=True, slots=True)
class Affinity(Record):
    """An affinity mask was asked for (``struct affinity``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2IQ5Ii16s128s")
    kind: int
    window: int
    at_ns: int
    caller_tid: int
    caller_tgid: int
    caller_ident: int
    tid: int
    ident: int
    result: int
    caller_comm: bytes
    cpus: bytes
