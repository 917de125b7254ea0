"""What a measure of a rule is: its kind, its unit, which way is better, and the smallest difference that matters.

A rule declares its measures beside its page (:class:`validators.rule.RuleDoc`); sums over windows and gates ask there.
The unit is the end of the name (``throttled_ns``: nanoseconds).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from toolkit.model.serde import stage_value

UNITS = {
    "ns_per_s": "ns/s",
    "ns": "ns",
    "us": "us",
    "ms": "ms",
    "cpus": "CPUs",
    "bytes": "bytes",
    "ratio": "ratio",
    "hz": "Hz",
    "count": "",
    "switches": "switches",
    "samples": "samples",
}
"""End of a name -> unit, the longest first."""


class Kind(StrEnum):
    """How values of several windows, or runs, come together."""

    AMOUNT = "amount"
    """Of a window: a time, a number of events. Summed."""
    LEVEL = "level"
    """That a window reached: the longest, a rate, how many there were. The largest is kept."""
    SET = "set"
    """The subject's CPUs or nodes."""
    WORD = "word"
    """Something else: a name, a limit, a moment. Said where every window says the same."""


class Better(StrEnum):
    """Which way a measure is better."""

    LESS = "less"
    MORE = "more"
    NEITHER = "neither"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureKind:
    """One measure, or several whose names differ in a part.

    :param name: its name; ``*`` stands for a part that the machine or the claim gives (a page size, a cgroup).
    :param relative, absolute: the smallest difference that a gate looks at: as a part of the value before, and in the
        measure's unit; both must be exceeded. ``relative`` ``None``: gates do not compare it.
    """

    name: str
    kind: Kind
    better: Better = Better.NEITHER
    relative: float | None = None
    absolute: float = 0.0

    @property
    def unit(self) -> str:
        """The unit, by the end of the name; empty: it is a number of things, or has none."""
        return next((unit for end, unit in UNITS.items() if self.name == end or self.name.endswith(f"_{end}")), "")

    @property
    def gated(self) -> bool:
        """Whether gates compare it."""
        return self.relative is not None


def amounts(*names: str, better: Better = Better.NEITHER) -> tuple[MeasureKind, ...]:
    """Declare sums that no gate compares."""
    return tuple(MeasureKind(name=name, kind=Kind.AMOUNT, better=better) for name in names)


def levels(*names: str, better: Better = Better.NEITHER) -> tuple[MeasureKind, ...]:
    """Declare largest values that no gate compares."""
    return tuple(MeasureKind(name=name, kind=Kind.LEVEL, better=better) for name in names)


def sets(*names: str) -> tuple[MeasureKind, ...]:
    """Declare the subject's CPUs or nodes."""
    return tuple(MeasureKind(name=name, kind=Kind.SET) for name in names)


def words(*names: str) -> tuple[MeasureKind, ...]:
    """Declare what is neither summed nor compared."""
    return tuple(MeasureKind(name=name, kind=Kind.WORD) for name in names)


def gated(name: str, kind: Kind, better: Better, *, relative: float, absolute: float) -> tuple[MeasureKind, ...]:
    """Declare a measure that gates compare."""
    return (MeasureKind(name=name, kind=kind, better=better, relative=relative, absolute=absolute),)


def find(declared: Iterable[MeasureKind], name: str) -> MeasureKind | None:
    """Return the declaration of a measure: by its name, else by a pattern."""
    patterns = []
    for one in declared:
        if one.name == name:
            return one
        if "*" in one.name:
            patterns.append(one)
    return next((one for one in patterns if fnmatchcase(name, one.name)), None)
