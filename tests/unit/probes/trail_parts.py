"""What the tests of trails build: moves, pieces of them, and the parts that come of it."""

from __future__ import annotations

from probes.switches.records import (
    EVENT_MOVE,
    EVENT_PIECE,
    PIECE_MEMBER,
    MoveEvent,
    Piece,
)
from probes.switches.trails import Trails

PATIENCE = 75
LONG_AGO = -(10**9)
LATER = 10**9


def move(at_ns: int, to: int, before: int, tid: int = 10, whole: int = 1, life: int = 0) -> MoveEvent:
    return MoveEvent(EVENT_MOVE, whole, at_ns, 0, at_ns, 900 + to, tid, 10, life, before, to, 0)


def piece(
    begin: int,
    end: int,
    now_in: int,
    record: tuple[int, int] | None = None,
    flags: int = 0,
    tid: int = 10,
    life: int = 0,
    joined_ns: int = 0,
) -> Piece:
    flags |= PIECE_MEMBER if record else 0
    ident, at_ns = record or (0, 0)
    ids = (tid, 10, 1, life, 0, ident, 0, 0, now_in, 0, 2, flags)
    return Piece(EVENT_PIECE, 1, begin, end, begin, 900 + now_in, at_ns, joined_ns, 0, *ids, b"x")


def parts(trails: Trails, one: Piece, heard_ns: int = LATER) -> list[tuple[int, int, int]] | None:
    stays = trails.cut(one, heard_ns)
    return None if stays is None else [(stay.ident, stay.from_ns, stay.to_ns) for stay in stays]


def trails_of(*events: MoveEvent) -> Trails:
    trails = Trails(PATIENCE)
    for event in events:
        trails.add(event)
    return trails
