"""Numbers in sentences. Nothing here decides anything."""

from __future__ import annotations


def count(number: int, one: str, many: str = "") -> str:
    """Write ``1 verdict`` and ``2 verdicts``. :param many: the plural where it is not just an ``s`` more."""
    return f"{number} {one if number == 1 else many or one + 's'}"
