"""What a source could not read: a line when that begins, and one when it is over.

What rests on such a part is undecided or skipped, and who watches is to know why without waiting for the end. A part
that comes and goes again and again has a few lines, and one that says that there are no more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Container, Iterable

from toolkit.model.names import printable
from toolkit.model.node_reading import MissingPart

SHOWN = 8
"""So many parts of one reading have lines of their own: a node has about a dozen."""
TURNS = 5
"""So often a part's begin is worth a line."""
WIDTH = 80 - len("00:00:00 ")
"""Of a line of the watch, which begins with the time."""
MAX_CHARS = 600
"""Of a part with its reason."""
MAX_PARTS = 1000
"""So many parts are remembered: names come from files of others."""


class NotRead:
    """:param report: told of each part that is not read, and of each that is read again, in lines of :data:`WIDTH`."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._now: frozenset[str] = frozenset()
        self._turns: dict[str, int] = {}

    def are(self, missing: Iterable[MissingPart], named: Container[str]) -> None:
        """Note what was not read this time. :param named: parts of which others report."""
        why: dict[str, list[str]] = {}
        for part in missing:
            if part.part not in named:
                why.setdefault(part.part, []).append(part.reason)
        begun, over = sorted(why.keys() - self._now), sorted(self._now - why.keys())
        self._now = frozenset(why)
        lines = [line for part in begun if (line := self._begins(part, why[part]))]
        lines += [f"read again: {printable(part)}" for part in over if self._turns.get(part, 0) <= TURNS]
        if len(lines) > SHOWN:
            lines[SHOWN:] = [f"{len(lines) - SHOWN} more parts are not read, or are read again"]
        for line in lines:
            text = line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]} ..."
            for piece in textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False):
                self._report(piece)

    def _begins(self, part: str, reasons: list[str]) -> str:
        """Return the line; empty: it had enough of them."""
        if part not in self._turns and len(self._turns) >= MAX_PARTS:
            self._turns.clear()
        turn = self._turns[part] = self._turns.get(part, 0) + 1
        if turn > TURNS:
            return f"not read: {printable(part)}, again and again: no more lines about it" if turn == TURNS + 1 else ""
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"not read: {printable(part)}: {printable(reasons[0])}{more}"
