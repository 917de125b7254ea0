"""Circles are looked for between windows: what was there before stays, what is new goes, and so do our thresholds."""

from __future__ import annotations

import gc
import weakref

from probes import garbage


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


def test_circles_go_when_they_are_sought_and_not_before() -> None:
    """As many objects as a window makes do not have them looked for; those that were there before are not looked at."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with garbage.seldom_sought():
        assert gc.get_freeze_count() > frozen
        gone = weakref.ref(Circle())
        many: list[list[int]] = [[] for _ in range(garbage.NEW_OBJECTS // 2)]
        assert gone() is not None
        del many
        garbage.seek()
        assert gone() is None
        assert gc.get_threshold()[0] == garbage.NEW_OBJECTS
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_more_than_a_window_makes_is_looked_through_at_once() -> None:
    """A program that never ends a window must not gather garbage without end."""
    with garbage.seldom_sought():
        gone = weakref.ref(Circle())
        many: list[list[int]] = [[] for _ in range(garbage.NEW_OBJECTS * 11 // 10)]
        assert gone() is None
        del many
