"""How wide a report is: 80 columns, the same in a log, in a ticket and in a pipe; on a terminal as wide as that is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

PLAIN = 80
LEAST, MOST = 40, 160
"""A narrower terminal breaks lines itself; a sentence of more columns cannot be read."""


class _Page:
    columns = PLAIN


def width() -> int:
    """Return the columns of a report."""
    return _Page.columns


def fit_terminal() -> None:
    """Take the terminal's columns: standard output is one."""
    _Page.columns = max(LEAST, min(MOST, shutil.get_terminal_size((PLAIN, 24)).columns))


@contextmanager
def plain() -> Iterator[None]:
    """Render for a file while the block runs."""
    before, _Page.columns = _Page.columns, PLAIN
    try:
        yield
    finally:
        _Page.columns = before
