"""What is known of one window, as frozen values: its frame, and the readings of all witnesses. Pure; no kernel.

:mod:`probes.witness` says how a reading comes about, :mod:`probes.build` makes the evidence of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from probes.options import ObserveOptions
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.claims import Claim
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Environment, Transition

T = TypeVar("T")
R = TypeVar("R", bound="Reading")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The ledger's own moment at an edge: every CPU is turned over, or (the window stays open) counted up to now.

    :param at_ns: CLOCK_MONOTONIC just before the first CPU.
    :param turn_ns: from ``at_ns`` until the last CPU.
    :param online: the CPUs that were online.
    :param wall_ns: CLOCK_REALTIME at ``at_ns``: both clocks were read together.
    """

    at_ns: int
    turn_ns: int = 0
    online: CpuSet = EMPTY
    wall_ns: int = 0

    @property
    def started_at(self) -> str:
        """The wall clock then, ISO 8601, to the microsecond."""
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.wall_ns // 1000)).isoformat(
            timespec="microseconds"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A claim that was watched in a window. ``present``: it still was when the window ended."""

    claim: Claim
    ident: int
    cpus: CpuSet
    present: bool = True

    @property
    def name(self) -> str:
        """The claim's name."""
        return self.claim.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is known of a window besides the readings of the witnesses.

    :param closed: it has ended; otherwise this is a look at it so far.
    :param subjects: the claims that this is about, those that were removed meanwhile first.
    :param others: claims that were watched, too, and that this is not about (:meth:`Readings.about`).
    :param other_names: their names: asked once for every row of the evidence.
    :param strangers: whether tasks without a claim belong here, too.
    :param names: claims by ident, also those of other windows.
    :param sampled: CPUs with a CPU-clock sampler.
    :param watched: the exclusive and reserved CPUs, at present.
    :param spots: what the parts of the observer noted that they did not see.
    """

    number: int
    started_at: str
    first: Moment
    last: Moment
    closed: bool
    environment: Environment
    options: ObserveOptions
    subjects: tuple[Watched, ...] = ()
    others: tuple[Watched, ...] = ()
    other_names: frozenset[str] = field(init=False)
    strangers: bool = True
    names: Mapping[int, str]
    sampled: CpuSet = EMPTY
    watched: CpuSet = EMPTY
    pods_root: str | None = None
    transitions: tuple[Transition, ...] = ()
    spots: tuple[BlindSpot, ...] = ()

    def __post_init__(self) -> None:
        """Derive the names."""
        object.__setattr__(self, "other_names", frozenset(other.name for other in self.others))

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at which the window opened."""
        return self.first.at_ns

    @property
    def end_ns(self) -> int:
        """CLOCK_MONOTONIC of its end, or of this look."""
        return self.last.at_ns

    def is_about(self, claim: str) -> bool:
        """Say whether what is known of a claim, by name, belongs here."""
        return claim not in self.other_names

    @property
    def claims(self) -> dict[str, Watched]:
        """Every claim once, by name: of two that had one name the later."""
        return {subject.name: subject for subject in self.subjects}

    @property
    def earlier(self) -> tuple[Watched, ...]:
        """The lives of claims that have begun anew under their name since: by its name only the last is judged."""
        last = self.claims
        return tuple(subject for subject in self.subjects if last[subject.name] is not subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one witness gives to the evidence.

    :param evidence, coverage: values of its own types (``toolkit/model/evidence``), whose fields are fields of
        ``Evidence`` and ``Coverage``.
    :param spots: what it did not see.
    """

    evidence: object | None = None
    coverage: object | None = None
    spots: Sequence[BlindSpot] = ()


class Reading(ABC):
    """Everything one witness knows of one window: a frozen dataclass of plain values."""

    @abstractmethod
    def decode(self, readings: Readings) -> Part:
        """Return the witness's part of the evidence. Pure: no file, no clock, no kernel."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of all witnesses of one window."""

    frame: Frame
    all: tuple[Reading, ...]

    def about(self, names: Collection[str]) -> Readings:
        """Return the same readings for these claims alone: evidence of the same type, without a row of the others.

        What the node counts is in both; tasks without a claim, which may be ten thousand, are with the others.
        """
        chosen = self._split(lambda name: name in names)
        return replace(chosen, frame=replace(chosen.frame, strangers=False))

    def without(self, names: Collection[str]) -> Readings:
        """Return the same readings for all claims but these."""
        return self._split(lambda name: name not in names)

    def _split(self, wanted: Callable[[str], bool]) -> Readings:
        frame = self.frame
        return replace(
            self,
            frame=replace(
                frame,
                subjects=tuple(subject for subject in frame.subjects if wanted(subject.name)),
                others=(*frame.others, *(subject for subject in frame.subjects if not wanted(subject.name))),
                transitions=tuple(change for change in frame.transitions if wanted(change.claim)),
            ),
        )

    def of(self, kind: type[R]) -> R:
        """Return the reading of a kind, for a witness that is compared with another.

        :raises KeyError: nothing made one.
        """
        return of_kind(self.all, kind)


def of_kind(found: Iterable[object], kind: type[T]) -> T:
    """Return the first value of a type. :raises KeyError: there is none."""
    for one in found:
        if isinstance(one, kind):
            return one
    raise KeyError(kind.__name__)
