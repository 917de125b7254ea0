"""What holds in every window that passed, of one rule about one subject: CPU sets that stayed, sums of times. Pure.

The measures of a summed verdict are those of one window. What is said of all of them rests on these, whose names begin
with ``windows_``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from toolkit.model.verdict import Measure

CHANGED = "changed"
"""The set of a subject that had more than one."""
_SETS = ("cpus", "allowed_cpus", "reserved_cpus")
_SUMMED = (
    *("transition_ns", "excused_ns", "system_ns", "kthread_ns", "percpu_kthread_ns", "sandbox_ns", "toolkit_ns"),
    *("canaries_ns", "nr_periods", "nr_throttled"),
)


@dataclass(slots=True)
class Throughout:
    """Add the measures of each window that passed with :meth:`add`."""

    count: int = 0
    sets: set[str] = field(default_factory=set)
    """At most two: whether there was more than one is all that is asked."""
    sums: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    """In how many windows each was measured: a sum is that of all windows or none."""

    def add(self, measures: dict[str, Measure]) -> None:
        """Add one window."""
        self.count += 1
        for name in _SETS:
            if name in measures and len(self.sets) < 2:
                self.sets.add(str(measures[name]))
        for name in _SUMMED:
            value = measures.get(name)
            if isinstance(value, int):
                self.sums[name] += value
                self.named[name] += 1

    def measures(self) -> dict[str, Measure]:
        """Return the set, or that it changed, and the sums of what every window measured."""
        found: dict[str, Measure] = {}
        if self.sets:
            found["windows_cpus"] = CHANGED if len(self.sets) > 1 else next(iter(self.sets))
        return found | {
            f"windows_{name}": self.sums[name] for name in _SUMMED if self.count and self.named[name] == self.count
        }
