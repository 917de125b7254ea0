"""Text of strangers (thread names, paths, names in files) made safe for a terminal."""

from __future__ import annotations

from toolkit.model.names import printable

__all__ = ["count", "printable", "printable_lines"]


def printable_lines(text: str) -> str:
    """Make text of several lines safe for a terminal; the lines stay lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def count(number: int, one: str, many: str = "") -> str:
    """Write ``1 verdict`` and ``2 verdicts``. :param many: the plural where it is not just an ``s`` more."""
    return f"{number} {one if number == 1 else many or one + 's'}"
