"""A cgroup that is tracked by its name: the steps are the same for a claim's, and for the one that all pods are in.

The kernel side (:mod:`probes.cgroups.claimed_paths`) puts a new one in its place before anything can join; here its
number is tracked, and compared with the name's from time to time. What follows of it is each tracker's own.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from probes.cgroups.claimed_paths import ClaimedPaths, News
from probes.observer import Observer
from probes.subjects import Tracked
from toolkit.errors import InputError
from toolkit.host import cgroupfs

F = TypeVar("F", bound=Tracked)


class Tracker(ABC, Generic[F]):
    """Use :meth:`track` and :meth:`verify`; all methods are called under the observer's lock."""

    def __init__(self, observer: Observer, names: ClaimedPaths) -> None:
        self._observer, self._names = observer, names

    def track(self, one: F) -> None:
        """Take note of what the kernel side reported."""
        news = self._names.news(one.path, one.events)
        if news.total == one.events:
            return
        one.events = news.total
        for event in news.events:
            if event.made:
                self._is_now(one, event.number)
            elif event.number == one.cgroup_id:
                one.gone = True
        self._reported(one, news)

    def verify(self, one: F) -> None:
        """Compare the number of the cgroup that has the name now with the known one."""
        now_ns = time.monotonic_ns()
        number = self._number(one)
        if number not in (one.cgroup_id, None) or (number is None) != one.gone:
            self.track(one)  # the kernel side may have reported it meanwhile
            number = self._number(one)
        if number is None:
            self._missing(one, now_ns)
            one.gone = True
        elif one.gone or number != one.cgroup_id:
            self._found_out(one, number, now_ns)
        else:
            self._unchanged(one)
        one.checked_ns = now_ns

    def _reported(self, one: F, news: News) -> None:
        """Take note of events; the number is tracked already."""

    def _missing(self, one: F, now_ns: int) -> None:
        """No cgroup has the name; ``one.gone`` says whether that was known."""

    @abstractmethod
    def _found_out(self, one: F, number: int, now_ns: int) -> None:
        """A new cgroup exists that nothing reported."""

    def _unchanged(self, one: F) -> None:
        """It is the known one."""

    def _is_now(self, one: F, number: int) -> None:
        if number != one.cgroup_id:
            # Nothing can be in it any more; dying tasks have been counted as its own until now.
            self._observer.ledger.drop_root(one.cgroup_id)
        one.cgroup_id, one.gone = number, False
        self._track_legacy(one)

    def _track_legacy(self, one: F) -> None:
        for controller, number in cgroupfs.legacy_ids(self._observer.hierarchy, one.path).items():
            if number != one.legacy_ids.get(controller):
                # The old one's tasks are gone or going; the kernel side has put the new one in its place.
                self._observer.ledger.drop_legacy(controller, one.legacy_ids.get(controller))
                one.legacy_ids = one.legacy_ids | {controller: number}

    def _number(self, one: F) -> int | None:
        try:
            return cgroupfs.cgroup_id(self._observer.hierarchy, one.path)
        except InputError:
            return None
