"""Numbers, times and kinds of values in sentences: the one place, so that one thing is written the same everywhere.

Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta


def kind_of(value: object) -> str:
    """Name the kind of a value in a YAML or JSON document, in words for people rather than Python's."""
    match value:
        case None:
            return "nothing"
        case bool():  # before int, of which bool is one
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"a {type(value).__name__}"


def count(number: int, one: str, many: str = "") -> str:
    """Write ``1 verdict`` and ``2 verdicts``. :param many: the plural where it is not just an ``s`` more."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(parts: Sequence[str]) -> str:
    """Write ``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def and_more(left: int, kind: str = "", *, aside: bool = False) -> str:
    """Write how many are not named, behind those that are: `` and 3 more``; nothing where none is left.

    :param kind: of what. :param aside: `` (and 3 more)``, behind one that stands for all.
    """
    text = f"and {left} more {kind}".rstrip()
    return "" if left <= 0 else f" ({text})" if aside else f" {text}"


def first_of(parts: Sequence[str], most: int, between: str = ", ") -> str:
    """Name the first of many, and how many more there are: ``a, b and 3 more``."""
    return between.join(parts[:most]) + and_more(len(parts) - most)


def first_lines(lines: Sequence[str], most: int, where: str = "") -> list[str]:
    """Return the first of many lines, and one with how many more there are. :param where: behind it, where they are."""
    more = and_more(len(lines) - most).lstrip()
    return [*lines[:most], *([f"{more} {where}".rstrip()] if more else [])]


def digits(value: float) -> str:
    """Write a number that is not negative in three digits or more, never with an exponent: ``0.25``, ``3210``."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 1e-4 else f"{value:.9f}".rstrip("0").rstrip(".")


def milliseconds(ns: int) -> str:
    """Write a time for people; what is too short for a tenth of a millisecond is not written as none."""
    return f"{ns / 1e6:.1f} ms" if ns >= 50_000 else f"{digits(ns / 1e3)} us"


def brief(ns: int) -> str:
    """Write a length of time in three digits, without an exponent: ``3210 ms``, ``0.25 ms``, ``4.5 us``."""
    return f"{digits(ns / 1e6)} ms" if ns >= 50_000 else f"{digits(ns / 1e3)} us"


def seconds(ns: int) -> str:
    """Write a moment or a length of a window for people."""
    return f"{ns / 1e9:.1f} s"


def moment(ns: int) -> str:
    """Write a moment of a window after ``since`` or ``from``: ``7.0 s``, ``3.2 s before the window``."""
    return seconds(ns) if ns >= 0 else f"{seconds(-ns)} before the window"


NOT_NAMED = "(not named)"
"""Stands where a task's name would, of one that is known by its claim alone."""


def since_open(ns: int) -> str:
    """Write when something was, by the window: ``at 2.250 s``, or ``31.5 s before the window``; no time is negative."""
    return f"at {ns / 1e9:.3f} s" if ns >= 0 else f"{-ns / 1e9:.1f} s before the window"


def clock(started_at: str, at_ns: int) -> str:
    """Write a moment on the wall clock: ``12:03:04.123 UTC``, with the date where it is another than the window's.

    :param started_at: when the window opened, ISO 8601. :param at_ns: since then.

    Empty where that is not known: a picture of a node has no window.
    """
    try:
        opened = datetime.fromisoformat(started_at)
    except ValueError:
        return ""
    if opened.tzinfo is None:
        return ""
    then = opened + timedelta(microseconds=at_ns // 1000)
    date = "" if then.date() == opened.date() else f"{then.date().isoformat()} "
    zone = then.strftime("%z")
    return f"{date}{then.isoformat(timespec='milliseconds')[11:23]} {'UTC' if zone == '+0000' else zone}"
