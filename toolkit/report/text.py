"""Text of strangers (thread names, paths, names in files) made safe for a terminal."""

from __future__ import annotations

from toolkit.text.names import printable

__all__ = ["printable", "printable_lines"]


def printable_lines(text: str) -> str:
    """Make text of several lines safe for a terminal; the lines stay lines."""
    return "\n".join(printable(line) for line in text.split("\n"))
