"""What a source stated, with the times at which it was read, cut into windows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from toolkit.model.evidence.following import Forgotten, Gauges, GivingBack, Granted, Making
from toolkit.model.layers import LayerView
from toolkit.model.state_files import StateReading

Value = TypeVar("Value", LayerView, StateReading)
Span = TypeVar("Span", Gauges, Granted, Making)
Lasting = TypeVar("Lasting", GivingBack, Forgotten)
"""A span of one claim that may have no end yet (``until_ns`` ``None``)."""


@dataclass(slots=True)
class Stretch(Generic[Value]):
    """Readings in a row that gave the same value: the first and the last of them (CLOCK_MONOTONIC)."""

    value: Value
    first_ns: int
    last_ns: int


def cut(spans: Iterable[Span], start_ns: int, end_ns: int, *, beyond: bool = False) -> tuple[Span, ...]:
    """Return those that reach into a window, up to its end; times since it opened.

    :param beyond: with all of their time. What runs when a window ends is counted to the moment at which its CPU goes
        over to the next window: a little more.
    """
    return tuple(
        replace(
            one,
            since_ns=one.since_ns - start_ns,
            until_ns=(one.until_ns if beyond else min(one.until_ns, end_ns)) - start_ns,
        )
        for one in spans
        if one.since_ns <= end_ns and one.until_ns >= start_ns
    )


def cut_lasting(spans: Iterable[Lasting], start_ns: int, end_ns: int) -> tuple[Lasting, ...]:
    """Return those that reach into a window; times since it opened. One that ends after the window has no end in it."""
    return tuple(
        replace(
            one,
            since_ns=one.since_ns - start_ns,
            until_ns=None if one.until_ns is None or one.until_ns > end_ns else one.until_ns - start_ns,
        )
        for one in spans
        if one.since_ns <= end_ns and (one.until_ns is None or one.until_ns >= start_ns)
    )


def ended(spans: Iterable[Lasting], claim: str, at_ns: int) -> list[Lasting]:
    """Return the same spans: those of a claim that have no end yet end at this moment."""
    return [replace(one, until_ns=at_ns) if one.claim == claim and one.until_ns is None else one for one in spans]


def of_window(
    stretches: Iterable[Stretch[Value]],
    start_ns: int,
    end_ns: int,
    after_ns: int = 0,
    old_ns: int | None = None,
    before_ns: int = 0,
) -> list[Value]:
    """Return a value at its first and its last reading; what was said last before the window, with its time.

    The first may lie before the window: what outlives two reconciles is no lag. The last may have come after it: then
    it was so at the window's end.

    :param old_ns: what was said last before that is not said in this window.
    :param after_ns: another value that was said first so soon after the window is returned, too, with its time.
    :param before_ns: so are others that were said so long before it: what stands on while they change has begun there.
    """
    stretches = tuple(stretches)
    if len(stretches) == 1:  # most of thousands
        (one,) = stretches
        said = one.first_ns <= end_ns and (one.last_ns >= start_ns or old_ns is None or one.last_ns >= old_ns)
        return _ends(one, start_ns, end_ns) if said else []
    begun = [one for one in stretches if one.first_ns <= end_ns]
    inside = [one for one in begun if one.last_ns >= start_ns] or [
        one for one in begun[-1:] if old_ns is None or one.last_ns >= old_ns
    ]
    first_ns = min((one.first_ns for one in inside), default=start_ns)
    found = [
        value
        for one in begun
        if inside and (one.first_ns >= first_ns or one.last_ns >= start_ns - before_ns)
        for value in _ends(one, start_ns, end_ns)
    ]
    later = [one for one in stretches if end_ns < one.first_ns <= end_ns + after_ns]
    return found + [replace(one.value, at_ns=one.first_ns - start_ns) for one in later[:1] if found]


def _ends(one: Stretch[Value], start_ns: int, end_ns: int) -> list[Value]:
    """Return the value at its first reading, and at the last that is not after the window."""
    last_ns = min(one.last_ns, end_ns)
    first = replace(one.value, at_ns=one.first_ns - start_ns)
    return [first] if last_ns == one.first_ns else [first, replace(one.value, at_ns=last_ns - start_ns)]
