"""One end of a window: what every witness read there, the ledger's own moment in the middle."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from probes.readings import Moment
from probes.state import State
from probes.witness import Witness


@dataclass(frozen=True, slots=True)
class Edge:
    """``found``: by witness. Read as the end of one window it is the beginning of the next."""

    moment: Moment
    found: dict[Witness[Any], Any]


def read_edge(state: State, witnesses: tuple[Witness[Any], ...], turn: bool = True) -> Edge:
    """Read everything at one end of a window, in the same order at both ends.

    :param turn: turn the ledger's window over; otherwise what is running is only counted up to now.
    """
    ledger = state.ledger
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
    found: dict[Witness[Any], Any] = {}
    later = [(witness, steps) for witness, steps in reversed(under_way) if not _ended(witness, steps, found)]
    for witness, steps in later:
        if not _ended(witness, steps, found):
            raise RuntimeError(f"{type(witness).__name__} yields more than twice at an edge")
    return Edge(Moment(at_ns=now, turn_ns=turned - now, online=ledger.online()), found)


def _ended(witness: Witness[Any], steps: Generator[None, None, Any], found: dict[Witness[Any], Any]) -> bool:
    """Let a witness go on; returns whether it has come to its end, and keeps what it has read."""
    try:
        next(steps)
    except StopIteration as end:
        found[witness] = end.value
        return True
    return False
