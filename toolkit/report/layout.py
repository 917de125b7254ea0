"""The width of a report, and how text and tables are fitted into it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import tabulate

from toolkit.report.page import width
from toolkit.report.text import printable

# tabulate would make each column two wider than its header: seven columns lose 14 of the 80.
tabulate.MIN_PADDING = 0


def paragraph(text: str, first: str = "", rest: str | None = None) -> str:
    """Wrap text that may hold names of strangers.

    :param first: stands before the first line. :param rest: before the others; ``None``: ``first`` again.
    """
    return textwrap.fill(
        printable(text),
        width(),
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_on_hyphens=False,
    )


def bullets(texts: Sequence[str]) -> str:
    """Return a list, each item wrapped below itself."""
    return "\n".join(paragraph(text, "- ", "  ") for text in texts)


def table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """Return a table as wide as its cells."""
    return tabulate.tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True)


def plain(rows: Sequence[Sequence[object]]) -> str:
    """Return rows in columns as wide as their cells, without a header."""
    return tabulate.tabulate(rows, tablefmt="plain", disable_numparse=True)


def fitted(
    rows: Sequence[tuple[str, ...]], headers: tuple[str, ...], flexible: tuple[int, ...], shares: tuple[float, ...]
) -> str:
    """Fit a table into the width: the flexible columns share, by ``shares``, what the others leave, and wrap."""
    clean = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(len(header), *(len(row[i]) for row in clean)) for i, header in enumerate(headers)]
    room = width() - 2 * (len(headers) - 1) - sum(one for i, one in enumerate(widths) if i not in flexible)
    limits = list(widths)
    left = max(room, 10 * len(flexible))
    for index, share in zip(flexible[:-1], shares[:-1], strict=True):
        limits[index] = min(widths[index], max(8, int(room * share)))
        left -= limits[index]
    limits[flexible[-1]] = max(8, left)
    wrapped = [tuple(_wrapped(cell, limits[i]) for i, cell in enumerate(row)) for row in clean]
    return table(wrapped, headers)


def _wrapped(cell: str, limit: int) -> str:
    # Not tabulate's own wrapping, which breaks names at their hyphens.
    return "\n".join(textwrap.wrap(cell, limit, break_on_hyphens=False))
