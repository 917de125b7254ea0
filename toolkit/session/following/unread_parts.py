"""Parts that a source could not read: a line when a part is not read, and one when it is read again.

Verdicts that rest on such a part are undecided or skipped; the user is to see the reason while the watch goes on.
A part that changes again and again gets a few lines, and a last one that states that no more follow.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Container, Iterable

from toolkit.model.node_reading import MissingPart
from toolkit.text.names import printable

SHOWN = 8
"""Parts of one reading with lines of their own, at most: a node has about a dozen."""
TURNS = 5
"""Lines about the same part, at most."""
WIDTH = 80 - len("00:00:00 ")
"""Of a line of the watch, which begins with the time."""
MAX_CHARS = 600
"""Of a part with its reason."""
MAX_PARTS = 1000
"""Parts that are remembered, at most: their names come from files that others write."""


class UnreadParts:
    """:param report: gets a line for each part that is not read, or is read again; lines of :data:`WIDTH`."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._now: frozenset[str] = frozenset()
        self._turns: dict[str, int] = {}

    def note(self, missing: Iterable[MissingPart], named: Container[str]) -> None:
        """Note the parts that were not read this time. :param named: parts that are reported elsewhere."""
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
        """Return the line; empty: the part has had its lines."""
        if part not in self._turns and len(self._turns) >= MAX_PARTS:
            self._turns.clear()
        turn = self._turns[part] = self._turns.get(part, 0) + 1
        if turn > TURNS:
            return f"not read: {printable(part)}, again and again: no more lines about it" if turn == TURNS + 1 else ""
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"not read: {printable(part)}: {printable(reasons[0])}{more}"
