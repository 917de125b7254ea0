"""What holds in every window that passed, of one rule about one subject. Pure.

What a measure is its rule says (:class:`toolkit.model.measures.Kind`): amounts are summed, of levels the largest is
kept, and what is neither is said where every window says the same. Where it was not measured in
every one nothing is said. Names begin with ``windows_``, those of the largest with ``windows_max_``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeGuard

from toolkit.model.measures import Kind
from toolkit.model.verdict import Measure
from validators.registry import kind_of

CHANGED = "changed"
"""The set of a subject that had more than one."""


def _is_number(value: Measure) -> TypeGuard[int | float]:
    # A tuple: `int | float` would be made anew for each measure of each verdict.
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(slots=True)
class Throughout:
    """Add the measures of each window that passed with :meth:`add`."""

    count: int = 0
    sets: set[str] = field(default_factory=set)
    """At most two: whether there was more than one is all that is asked."""
    sums: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    same: dict[str, Measure] = field(default_factory=dict)
    """What each window said that had it, unless one said something else."""
    named: Counter[str] = field(default_factory=Counter)
    """In how many windows each was measured: a sum is that of all windows or none."""

    def add(self, rule: str, measures: dict[str, Measure]) -> None:
        """Add one window. :param rule: whose they are: it says what each of them is."""
        self.count += 1
        for name, value in measures.items():
            self.named[name] += 1
            kind = kind_of(rule, name)
            if kind is Kind.SET:
                self.sets |= {str(value)} if len(self.sets) < 2 else set()
            elif kind is Kind.AMOUNT and _is_number(value):
                self.sums[name] = self.sums.get(name, 0) + value
            elif kind is Kind.LEVEL and _is_number(value):
                self.largest[name] = max(self.largest.get(name, value), value)
            elif self.named[name] == 1:
                self.same[name] = value
            elif self.same.get(name) != value:
                self.same.pop(name, None)

    def measures(self) -> dict[str, Measure]:
        """Return the set, or that it changed, and what is true of every window."""
        found: dict[str, Measure] = {}
        if self.sets:
            found["windows_cpus"] = CHANGED if len(self.sets) > 1 else next(iter(self.sets))
        found |= {f"windows_{name}": value for name, value in self.sums.items() if self._everywhere(name)}
        found |= {f"windows_max_{name}": value for name, value in self.largest.items() if self._everywhere(name)}
        return found | {f"windows_{name}": value for name, value in self.same.items() if self._everywhere(name)}

    def _everywhere(self, name: str) -> bool:
        return self.named[name] == self.count
