"""What was published when: the CPU sets that bound at a moment that is over.

The programs judge by the sets that are there when an interval ends; an interval that user space cuts later is judged by
the same ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from dataclasses import dataclass, field

from toolkit.model.cpuset import EMPTY, CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a claim's tasks were held to from ``at_ns`` on; fields as for ``Ledger.publish``."""

    at_ns: int
    cpus: CpuSet
    since_ns: int = 0
    grace: CpuSet = EMPTY
    grace_until_ns: int = 0

    def binds_from(self, cpu: int) -> int:
        """Return the moment up to which time on a CPU outside ``cpus`` is a transition."""
        return max(self.since_ns, self.grace_until_ns) if cpu in self.grace else self.since_ns


@dataclass(slots=True)
class Published:
    """The sets of every claim (by ident) and of the watched CPUs, with their times."""

    _claims: dict[int, list[Bound]] = field(default_factory=dict)
    _watched: list[Bound] = field(default_factory=list)

    def claim(self, ident: int, bound: Bound) -> None:
        """Note what binds a claim from now on."""
        self._claims.setdefault(ident, []).append(bound)

    def watch(self, cpus: CpuSet, at_ns: int) -> None:
        """Note which CPUs are watched from now on."""
        self._watched.append(Bound(at_ns=at_ns, cpus=cpus))

    def of(self, ident: int, at_ns: int) -> Bound | None:
        """Return what bound a claim at a moment; ``None``: it was never watched."""
        return _at(self._claims.get(ident, []), at_ns)

    def watched(self, at_ns: int) -> CpuSet:
        """Return the CPUs that were watched at a moment."""
        found = _at(self._watched, at_ns)
        return EMPTY if found is None or found.at_ns > at_ns else found.cpus

    def keep(self, idents: Container[int]) -> None:
        """Forget all other claims."""
        self._claims = {ident: bounds for ident, bounds in self._claims.items() if ident in idents}

    def forget_before(self, at_ns: int) -> None:
        """Keep what bound at this moment and what came later; called when a window opens."""
        for bounds in (*self._claims.values(), self._watched):
            del bounds[: max(0, bisect_right(bounds, at_ns, key=lambda bound: bound.at_ns) - 1)]


def _at(bounds: list[Bound], at_ns: int) -> Bound | None:
    """Return the last entry up to a moment, or the first of all."""
    if not bounds:
        return None
    return bounds[max(0, bisect_right(bounds, at_ns, key=lambda bound: bound.at_ns) - 1)]
