"""What a source names and nobody watches: a line when that begins, and a blind spot for as long as it lasts.

Of what is not watched there is no verdict, and nothing else would say so: what it does to others is the node's, so the
spot is every witness's and nobody's alone.
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


class Unwatched:
    """:param report: told of each subject that is not watched, one line."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._why: dict[str, str] = {}
        self._spot = ""

    def are(self, why: Mapping[str, str], sight: Sight) -> None:
        """Note what is not watched from now on, by name with the reason; all else is, or is gone."""
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
    """Return whether the claim's cgroup exists: one that has vanished meanwhile is no reason worth a word."""
    try:
        return cgroupfs.exists(hierarchy, claim.cgroup)
    except (InputError, OSError):
        return True  # no path of a cgroup: nobody can watch it, and that is said
