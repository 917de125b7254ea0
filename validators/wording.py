"""Words that reasons share, so that the same thing is called the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence


def milliseconds(ns: int) -> str:
    """Write a time for people; what is too short for a tenth of a millisecond is not written as none."""
    return f"{ns / 1e6:.1f} ms" if ns >= 50_000 else f"{ns / 1e3:.3g} us"


def seconds(ns: int) -> str:
    """Write a moment or a length of a window for people."""
    return f"{ns / 1e9:.1f} s"


def listed(parts: Sequence[str]) -> str:
    """Write ``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def plural(number: int, one: str, many: str) -> str:
    """Write ``1 switch`` and ``2 switches``."""
    return f"{number} {one if number == 1 else many}"
