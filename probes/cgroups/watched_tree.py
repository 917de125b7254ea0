"""The cgroups whose control files are read: those of all claims and all above them, each once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from probes.cgroups.bandwidth import lineage


@dataclass(frozen=True, slots=True)
class WatchedTree:
    """:param cgroups: each behind those above it.
    :param above: the topmost, and those of more than one claim: what is granted there may change without a write."""

    cgroups: tuple[str, ...] = ()
    above: tuple[str, ...] = ()

    @classmethod
    def of(cls, claimed: Iterable[str]) -> WatchedTree:
        """Return the tree of claims' cgroups."""
        users = Counter(level for cgroup in claimed for level in lineage(cgroup))
        return cls(tuple(sorted(users)), tuple(one for one, count in users.items() if count > 1 or one.count("/") == 1))

    def below(self, cgroup: str) -> tuple[str, ...]:
        """Return those below one of them."""
        above = cgroup.rstrip("/") + "/"
        return tuple(level for level in self.cgroups if level.startswith(above))
