"""Whether time was spent while a CPU was its owner's, of which is known when it began and how much it was together.

On one CPU runs one task at a time: what is more than the time that was not the owner's was spent in the owner's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.model.held import Span
from toolkit.model.verdict import Offender


def union(every: Iterable[Sequence[Span]]) -> tuple[Span, ...]:
    """Return when any of them was."""
    found: list[Span] = []
    for begin, end in sorted(span for spans in every for span in spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return tuple(found)


def inside_ns(spans: Sequence[Span], begin_ns: int, end_ns: int) -> int:
    """Return how much of a time is in the spans."""
    return sum(max(0, min(end, end_ns) - max(begin, begin_ns)) for begin, end in spans)


def outside_ns(spans: Sequence[Span], begin_ns: int, end_ns: int) -> int:
    """Return how much of a time is in none of them."""
    return max(0, end_ns - begin_ns) - inside_ns(spans, begin_ns, end_ns)


def was_inside(spans: Sequence[Span], first_ns: int, total_ns: int, end_ns: int) -> bool | None:
    """Return whether a task ran in the spans of which is known when it came and for how long it ran since.

    ``None``: it came when the CPU was not the owner's yet, and may have been away by then.

    :param end_ns: of the window.
    """
    if all(first_ns >= end for _, end in spans):
        return False
    if any(begin <= first_ns < end for begin, end in spans):
        return True
    return True if total_ns > outside_ns(spans, first_ns, end_ns) else None


def stays_inside(
    known: Sequence[Offender], rest: Offender | None, spans: Sequence[Span], end_ns: int
) -> tuple[list[Offender], bool]:
    """Return the stays of one claim on one CPU that were the owner's time, and whether that is not known of others.

    :param rest: time whose begin is not known. :param end_ns: of the window.
    """
    where = [(_was_stay_inside(stay, spans, end_ns), stay) for stay in known]
    inside = [stay for found, stay in where if found]
    open_ = [stay for found, stay in where if found is None] + ([] if rest is None else [rest])
    if not open_:
        return inside, False
    first_ns = 0 if rest is not None else min(stay.first_at_ns for stay in open_)
    if sum(stay.total_ns for stay in open_) > outside_ns(spans, first_ns, end_ns):
        return [*inside, *open_], False
    return inside, True


def _was_stay_inside(stay: Offender, spans: Sequence[Span], end_ns: int) -> bool | None:
    """Return the same of a stay of which its last moment may be known, too."""
    last_ns = stay.last_at_ns
    if last_ns is None:
        return was_inside(spans, stay.first_at_ns, stay.total_ns, end_ns)
    if any(begin < last_ns <= end for begin, end in spans):
        return True
    if not any(stay.first_at_ns < end and begin < last_ns for begin, end in spans):
        return False
    return was_inside(spans, stay.first_at_ns, stay.total_ns, last_ns)
