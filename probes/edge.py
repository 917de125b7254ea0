"""One end of a window: what every witness read there, the ledger's own moment in the middle."""

from __future__ import annotations

import time
from collections.abc import Generator

from probes.readings import Moment
from probes.switches.ledger import Ledger
from probes.witness import Edge, Witness


def read_edge(ledger: Ledger, witnesses: tuple[Witness, ...], turn: bool = True) -> Edge:
    """Read everything at one end of a window, in the same order at both ends.

    :param turn: turn the ledger's window over; otherwise what is running is only counted up to now.
    """
    if turn:
        ledger.prepare_window()
    under_way = [(witness, witness.edge(turn)) for witness in witnesses]
    for _, steps in under_way:
        next(steps)
    now = time.monotonic_ns()
    if turn:
        ledger.new_window()
    else:
        ledger.split(ledger.sampled())
    turned = time.monotonic_ns()
    found: list[object] = []
    later = [(witness, steps) for witness, steps in reversed(under_way) if not _ended(steps, found)]
    for witness, steps in later:
        if not _ended(steps, found):
            raise RuntimeError(f"{type(witness).__name__} yields more than twice at an edge")
    moment = Moment(at_ns=now, turn_ns=turned - now, online=ledger.online(), wall_ns=now + wall_offset_ns())
    return Edge(moment, tuple(one for one in found if one is not None))


PAIRS = 5
"""So many pairs of clocks are read at most; one between whose readings nothing else ran is good."""
TOGETHER_NS = 20_000


def wall_offset_ns() -> int:
    """Return how far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC now.

    Both are read together: of several pairs that counts between whose readings the least time passed.
    """
    best_ns, offset_ns = None, 0
    for _ in range(PAIRS):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if best_ns is None or after - before < best_ns:
            best_ns, offset_ns = after - before, wall - (before + after) // 2
        if best_ns <= TOGETHER_NS:
            break
    return offset_ns


def _ended(steps: Generator[None, None, object], found: list[object]) -> bool:
    """Let a witness go on; returns whether it has come to its end, and keeps what it has read."""
    try:
        next(steps)
    except StopIteration as end:
        found.append(end.value)
        return True
    return False
