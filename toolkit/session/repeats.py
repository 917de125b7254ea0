"""Runs again what the machine was too busy to decide.

``undecided`` says that there is no evidence, neither for nor against: looking once more is the only way to get some.
``failed`` is evidence, and is never looked at again: an escape that happens now and then must not pass by luck.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

REPEATS = 4
"""How often at most a run that comes out undecided is repeated, unless somebody says otherwise: four more runs outlast
a burst of some seconds on a busy host; one that is busy all the time is not waited for."""


def repeat_undecided(
    attempt: Callable[[], T], undecided: Callable[[T], str | None], repeats: int
) -> tuple[T, tuple[str, ...]]:
    """Attempt until it is decided.

    :param undecided: say why a result is undecided; ``None``: it is decided.
    :param repeats: how often at most after the first time.
    :returns: the last result, and why those before it were thrown away.
    """
    thrown_away: list[str] = []
    while True:
        found = attempt()
        why = undecided(found)
        if why is None or len(thrown_away) >= repeats:
            return found, tuple(thrown_away)
        thrown_away.append(why)
