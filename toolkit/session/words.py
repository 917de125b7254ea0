"""Words with the times at which they were read, cut into windows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from toolkit.model.evidence.following import Gauges, Granted, Making
from toolkit.model.layers import LayerView
from toolkit.model.state_files import StateReading

Value = TypeVar("Value", LayerView, StateReading)
Span = TypeVar("Span", Gauges, Making)


@dataclass(slots=True)
class Word(Generic[Value]):
    """The same value, from its first reading to its last (CLOCK_MONOTONIC)."""

    value: Value
    first_ns: int
    last_ns: int


def cut(spans: Iterable[Span], start_ns: int, end_ns: int) -> tuple[Span, ...]:
    """Return those that reach into a window, up to its end; times since it opened."""
    return tuple(
        replace(one, since_ns=one.since_ns - start_ns, until_ns=min(one.until_ns, end_ns) - start_ns)
        for one in spans
        if one.since_ns <= end_ns and one.until_ns >= start_ns
    )


def granted_in(spans: Iterable[Granted], start_ns: int, end_ns: int) -> tuple[Granted, ...]:
    """Return those that reach into a window, with all of their time.

    What runs when a window ends is counted to the moment at which its CPU goes over to the next window: a little more.
    """
    return tuple(
        replace(one, since_ns=one.since_ns - start_ns, until_ns=one.until_ns - start_ns)
        for one in spans
        if one.since_ns <= end_ns and one.until_ns >= start_ns
    )


def of_window(
    words: Iterable[Word[Value]],
    start_ns: int,
    end_ns: int,
    after_ns: int = 0,
    old_ns: int | None = None,
    before_ns: int = 0,
) -> list[Value]:
    """Return a value at its first and its last reading; what was said last before the window, with its time.

    The first may lie before the window: what outlives two reconciles is no lag. The last may have come after it: then
    it was so at the window's end.

    :param old_ns: what was said last before that is no word of this window.
    :param after_ns: another value that was said first so soon after the window is returned, too, with its time.
    :param before_ns: so are others that were said so long before it: what stands on while they change has begun there.
    """
    words = tuple(words)
    begun = [word for word in words if word.first_ns <= end_ns]
    inside = [word for word in begun if word.last_ns >= start_ns] or [
        word for word in begun[-1:] if old_ns is None or word.last_ns >= old_ns
    ]
    first_ns = min((word.first_ns for word in inside), default=start_ns)
    found = [
        replace(word.value, at_ns=at_ns - start_ns)
        for word in begun
        if inside and (word.first_ns >= first_ns or word.last_ns >= start_ns - before_ns)
        for at_ns in sorted({word.first_ns, min(word.last_ns, end_ns)})
    ]
    later = [word for word in words if end_ns < word.first_ns <= end_ns + after_ns]
    return found + [replace(word.value, at_ns=word.first_ns - start_ns) for word in later[:1] if found]
