"""What holds in every window that passed, of one rule about one subject. Pure.

A measure is one of three things: an amount of a window (a time, a number of events), which is summed; a level that it
reached (the longest, a rate, how many there were), of which the largest is kept; or something else (a set, a name, a
limit), which is said where every window says the same. Where it was not measured in every one nothing is said. Names
begin with ``windows_``, those of the largest with ``windows_max_``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TypeGuard

from toolkit.model.verdict import Measure

CHANGED = "changed"
"""The set of a subject that had more than one."""
_SETS = ("cpus", "allowed_cpus", "reserved_cpus")
_SUMMED = frozenset(
    (
        *("transition_ns", "excused_ns", "system_ns", "kthread_ns", "percpu_kthread_ns", "sandbox_ns", "toolkit_ns"),
        *("canaries_ns", "unknown_ns", "foreign_workload_ns", "run_ns", "exclusive_ns", "irq_ns", "softirq_ns"),
        *("steal_ns", "standstill_ns", "throttled_ns", "run_delay_ns", "window_ns", "out_of_set_ns"),
        *("nr_periods", "nr_throttled", "nr_bursts", "burst_ns", "ancestors_nr_throttled"),
        *("irq_count", "softirq_count", "samples"),
        *("switches_judged", "switches_kernel", "switches_skew", "switches_untraced", "out_of_set_switches"),
        *("out_of_set_samples", "transition_switches", "transitions_count", "deviations_count", "readings_count"),
        *("scans_count", "proc_scans", "lost_events", "map_full", "missed_runs", "hotplug_events"),
        "allocation_errors",
    )
)
_LARGEST = frozenset(
    (
        *("out_of_set_longest_ns", "longest_gap_ms", "longest_ms", "lag_ms", "overlap_ms", "forgotten_ms"),
        *("positive_control_latency_ms", "busiest_cpu_ratio", "noise_low_ns_per_s", "noise_high_ns_per_s"),
        *("usage_cpus", "threads_count", "narrowed_threads_count", "wide_threads_count", "masks_count"),
        *("processes_count", "joining_processes_count", "entries_count", "blocks_count", "stale_pods_count"),
        *("ended_entries_count", "blind_spots_count"),
    )
)
_AMOUNT_ENDS = ("_refused_count",)
"""How names of amounts end that have a page size in them."""
_LEVEL_ENDS = ("_bytes", "_longest_ms")


class _Kind(Enum):
    SET, AMOUNT, LEVEL, OTHER = range(4)


@lru_cache(maxsize=1024)  # of names that run files may have made up
def _kind(name: str) -> _Kind:
    """Return what a measure of this name is: asked of every measure of every verdict."""
    if name in _SETS:
        return _Kind.SET
    if name in _SUMMED or name.endswith(_AMOUNT_ENDS):
        return _Kind.AMOUNT
    return _Kind.LEVEL if name in _LARGEST or name.endswith(_LEVEL_ENDS) else _Kind.OTHER


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

    def add(self, measures: dict[str, Measure]) -> None:
        """Add one window."""
        self.count += 1
        for name, value in measures.items():
            self.named[name] += 1
            kind = _kind(name)
            if kind is _Kind.SET:
                self.sets |= {str(value)} if len(self.sets) < 2 else set()
            elif kind is _Kind.AMOUNT and _is_number(value):
                self.sums[name] = self.sums.get(name, 0) + value
            elif kind is _Kind.LEVEL and _is_number(value):
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
