"""Which pairs of claim and CPU metrics show by themselves, and which in one sum of the claim's other CPUs.

A node of 500 containers on 128 CPUs has 64,000 such pairs, five series each: more than a scrape should have. What is
shown alone, or summed up, stays so until its claim is forgotten, whoever goes meanwhile: no counter goes back.
Source: prometheus.io "Metric and label naming" (every combination of labels is a series), "Instrumentation".
"""

from __future__ import annotations

import threading
from collections.abc import Container

OTHER = "other"
"""The label ``cpu`` of a claim's sum of all CPUs that are not shown alone."""
MAX_PAIRS = 2000
MAX_BROKEN = 200
"""More pairs for time outside the claim, of those that are summed up otherwise."""


class _Pairs:
    """Those that were asked for, and whether each is shown alone: the first ones are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._alone: set[tuple[str, str]] = set()
        self._summed: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._summed)

    def labels(self, pair: tuple[str, str]) -> tuple[str, str]:
        if pair not in self._alone and pair not in self._summed:
            (self._alone if len(self._alone) < self._most else self._summed).add(pair)
        return pair if pair in self._alone else (pair[0], OTHER)

    def forget(self, claims: Container[str]) -> None:
        self._alone = {pair for pair in self._alone if pair[0] not in claims}
        self._summed = {pair for pair in self._summed if pair[0] not in claims}


class Series:
    """The pairs of one session. Windows that end and scrapes ask, each in its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pairs, self._broken = _Pairs(MAX_PAIRS), _Pairs(MAX_BROKEN)

    def of(self, claim: str, cpu: int) -> tuple[str, str]:
        """Return the labels under which a claim's time on a CPU counts."""
        with self._lock:
            return self._pairs.labels((claim, str(cpu)))

    def of_broken(self, claim: str, cpu: int, *, counts: bool) -> tuple[str, str]:
        """Return those for what is outside the claim: a CPU that is summed up has a series of its own from its first
        such time on, of which nothing is in the sum.

        :param counts: whether there is such time.
        """
        pair = (claim, str(cpu))
        with self._lock:
            shown = self._pairs.labels(pair)
            return self._broken.labels(pair) if counts and shown != pair else shown

    def summed(self) -> int:
        """Return how many pairs have no series of their own for all that is counted."""
        with self._lock:
            return len(self._pairs)

    def forget(self, claims: Container[str]) -> None:
        """Forget claims that no window names any more."""
        with self._lock:
            self._pairs.forget(claims)
            self._broken.forget(claims)
