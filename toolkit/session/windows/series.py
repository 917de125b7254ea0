"""Which pairs of labels metrics show by themselves, and which in a sum: claim and CPU, rule and subject.

A node of 500 containers on 128 CPUs has 64,000 pairs of claim and CPU, five series each, and 4,000 pairs of rule and
subject, eight series each: more than a scrape should have. What is shown alone, or summed up, stays so until its claim
(its subject) is forgotten, whatever goes meanwhile: no counter goes back.
Source: prometheus.io "Metric and label naming" (every combination of labels is a series), "Instrumentation".
"""

from __future__ import annotations

import threading
from collections.abc import Container
from enum import StrEnum

OTHER = "other"
"""The second label of a sum: of a claim's CPUs, of a rule's subjects, that are not shown alone. Of all claims: both."""
MAX_PAIRS = 2000
"""Pairs of claim and CPU."""
MAX_VERDICTS = 2000
"""Pairs of rule and subject."""
MAX_BROKEN = 200
"""More pairs of each kind for what is broken (time outside the claim, a rule that failed), of those that are summed up
otherwise."""

MAX_HISTOGRAMS = 100
"""Claims with histograms of their own: classic ones have 24 series a claim."""


class Detail(StrEnum):
    """What has series of its own."""

    RULE = "rule"
    """Rules; of claims, subjects and CPUs there are sums: a node has as many series with 1 claim as with 500."""
    CLAIM = "claim"
    """Pairs of claim and CPU, and of rule and subject, within the limits above."""


class _Pairs:
    """Those that were asked for, and whether each is shown alone: the first ones are.

    :param most: how many are. :param forgotten_by: which of the two labels a pair is forgotten by.
    """

    def __init__(self, most: int, forgotten_by: int = 0) -> None:
        self._most, self._by = most, forgotten_by
        self._alone: set[tuple[str, str]] = set()
        self._summed: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._summed)

    def labels(self, pair: tuple[str, str]) -> tuple[str, str]:
        if pair not in self._alone and pair not in self._summed:
            (self._alone if len(self._alone) < self._most else self._summed).add(pair)
        return pair if pair in self._alone else (pair[0], OTHER)

    def alone(self, pair: tuple[str, str]) -> bool:
        return pair in self._alone

    def forget(self, names: Container[str]) -> None:
        self._alone = {pair for pair in self._alone if pair[self._by] not in names}
        self._summed = {pair for pair in self._summed if pair[self._by] not in names}


class Series:
    """The pairs of one session. Windows that end and scrapes ask, each in its own thread."""

    def __init__(self, detail: Detail = Detail.CLAIM) -> None:
        self._by_claim = detail is Detail.CLAIM
        pairs, verdicts, broken = (MAX_PAIRS, MAX_VERDICTS, MAX_BROKEN) if self._by_claim else (0, 0, 0)
        self._lock = threading.Lock()
        self._pairs, self._broken = _Pairs(pairs), _Pairs(broken)
        self._waits = _Pairs(MAX_HISTOGRAMS if self._by_claim else 0)
        self._verdicts, self._failed = _Pairs(verdicts, forgotten_by=1), _Pairs(broken, forgotten_by=1)

    @property
    def by_claim(self) -> bool:
        """Whether claims have series of their own."""
        return self._by_claim

    def of(self, claim: str, cpu: int) -> tuple[str, str]:
        """Return the labels under which a claim's time on a CPU counts."""
        with self._lock:
            return self._of_claim(self._pairs.labels((claim, str(cpu))))

    def of_broken(self, claim: str, cpu: int, *, counts: bool) -> tuple[str, str]:
        """Return those for what is outside the claim: a CPU that is summed up has a series of its own from its first
        such time on, of which nothing is in the sum.

        :param counts: whether there is such time.
        """
        pair = (claim, str(cpu))
        with self._lock:
            shown = self._pairs.labels(pair)
            return self._of_claim(self._broken.labels(pair) if counts and shown != pair else shown)

    def of_level(self, claim: str, level: int) -> tuple[str, str] | None:
        """Return the labels under which the bandwidth of a claim's cgroup counts, or of one above it (level 1, 2, ...).

        :returns: ``None``: it does not count. A cgroup above is that of many claims: a sum would have it many times.
        """
        if self._by_claim:
            return claim, str(level)
        return (OTHER, str(level)) if level == 0 else None

    def of_waits(self, claim: str) -> str:
        """Return the label under which the lengths of a claim's waits count."""
        pair = (claim, "")
        with self._lock:
            return claim if self._waits.labels(pair) == pair else OTHER

    def of_intruder(self, cpu: int, owner: str) -> tuple[str, str]:
        """Return the labels under which time of tasks without a claim counts."""
        return (str(cpu) if self._by_claim else OTHER), owner

    def _of_claim(self, labels: tuple[str, str]) -> tuple[str, str]:
        return labels if self._by_claim else (OTHER, OTHER)

    def of_verdict(self, rule: str, subject: str) -> tuple[str, str]:
        """Return the labels under which the verdicts of a rule about a subject count now."""
        pair = (rule, subject)
        with self._lock:
            return pair if self._failed.alone(pair) else self._verdicts.labels(pair)

    def of_failed(self, rule: str, subject: str) -> tuple[str, str]:
        """Return the labels under which a rule that has failed for a subject counts from its next verdict on.

        Its first failure is in the sum: what asks whether a counter rises does not see one that begins with 1.
        """
        pair = (rule, subject)
        with self._lock:
            shown = self._verdicts.labels(pair)
            return shown if shown == pair else self._failed.labels(pair)

    def summed(self) -> int:
        """Return how many pairs of claim and CPU have no series of their own for all that is counted."""
        with self._lock:
            return len(self._pairs)

    def summed_verdicts(self) -> int:
        """Return how many pairs of rule and subject had none from their first verdict on."""
        with self._lock:
            return len(self._verdicts)

    def forget(self, subjects: Container[str]) -> None:
        """Forget claims, and other subjects of rules, that no window names any more."""
        with self._lock:
            for pairs in (self._pairs, self._broken, self._waits, self._verdicts, self._failed):
                pairs.forget(subjects)
