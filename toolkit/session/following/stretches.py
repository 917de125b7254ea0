"""What a source stated, with the times at which it was read, cut into windows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from toolkit.model.evidence.following import Gauges
from toolkit.model.layers import LayerView
from toolkit.model.state_files import StateReading

Value = TypeVar("Value", LayerView, StateReading)


@dataclass(slots=True)
class Stretch(Generic[Value]):
    """Readings in a row that gave the same value: the first and the last of them (CLOCK_MONOTONIC).

    What a layer said is no promise, and in no row of the timeline.
    """

    value: Value
    first_ns: int
    last_ns: int


def cut(spans: Iterable[Gauges], start_ns: int, end_ns: int) -> tuple[Gauges, ...]:
    """Return those that reach into a window, up to its end; times since it opened."""
    return tuple(
        replace(one, since_ns=one.since_ns - start_ns, until_ns=min(one.until_ns, end_ns) - start_ns)
        for one in spans
        if one.since_ns <= end_ns and one.until_ns >= start_ns
    )


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
