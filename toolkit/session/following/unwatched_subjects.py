"""Subjects that a source names and that cannot be watched: a line when that begins, a blind spot as long as it lasts.

Such a subject has no verdict, and nothing else would show that. It may disturb every other subject of the node, so the
blind spot weakens all witnesses and names no claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.blind_spots import EVERY_WITNESS, Witness
from toolkit.model.claims import Claim

SHOWN = 3


class Sight(Protocol):
    """Where blind spots are noted (an observer)."""

    def blind(self, what: str, *witnesses: Witness, start_ns: int | None = None, end_ns: int | None = None) -> None:
        """Note one; without an end it goes on."""

    def sighted(self, what: str) -> None:
        """Note that one is over."""


class UnwatchedSubjects:
    """:param report: gets one line for each subject that is not watched."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._why: dict[str, str] = {}
        self._spot = ""

    def note(self, why: Mapping[str, str], sight: Sight) -> None:
        """Note the subjects that are not watched from now on, each with its reason; all others are watched, or gone."""
        for name in why.keys() - self._why.keys():
            self._report(f"{name} is not watched: {why[name]}")
        self._why = dict(why)
        spot = _text(self._why)
        if spot == self._spot:
            return
        if spot:  # before the other ends: no moment lies between them
            sight.blind(spot, *EVERY_WITNESS, start_ns=time.monotonic_ns())
        if self._spot:
            sight.sighted(self._spot)
        self._spot = spot


def _text(why: Mapping[str, str]) -> str:
    if not why:
        return ""
    named = sorted(why)
    shown = "; ".join(f"{name}: {why[name]}" for name in named[:SHOWN])
    more = f" (and {len(named) - SHOWN} more)" if len(named) > SHOWN else ""
    return f"{len(named)} subject{'' if len(named) == 1 else 's'} not watched: {shown}{more}"


def is_there(hierarchy: Hierarchy, claim: Claim) -> bool:
    """Return whether the claim's cgroup exists: one that has vanished meanwhile needs no line."""
    try:
        return cgroupfs.exists(hierarchy, claim.cgroup)
    except (InputError, OSError):
        return True  # no path of a cgroup: it cannot be watched, and that is reported
