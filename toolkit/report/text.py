"""Text of strangers (thread names, paths, names in files) made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Make a piece of text safe for a terminal: no control characters, no line breaks, no change of direction."""
    return "".join(char if char.isprintable() else "?" for char in text)


def printable_lines(text: str) -> str:
    """Do the same for text of several lines, which stay lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def count(number: int, one: str, many: str = "") -> str:
    """Write ``1 verdict`` and ``2 verdicts``. :param many: the plural where it is not just an ``s`` more."""
    return f"{number} {one if number == 1 else many or one + 's'}"
