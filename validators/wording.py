"""Words that reasons share, so that the same thing is called the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.wording import count


def milliseconds(ns: int) -> str:
    """Write a time for people; what is too short for a tenth of a millisecond is not written as none."""
    return f"{ns / 1e6:.1f} ms" if ns >= 50_000 else f"{ns / 1e3:.3g} us"


def seconds(ns: int) -> str:
    """Write a moment or a length of a window for people."""
    return f"{ns / 1e9:.1f} s"


def listed(parts: Sequence[str]) -> str:
    """Write ``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


plural = count
"""Under the name that reads better beside counts."""
