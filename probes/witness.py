"""The protocol of a witness: what an observer asks of each, whatever it is.

Four kinds of values, by how long they live:

- a :class:`Witness` lives as long as an observer; it is what the composition names (:mod:`probes.composition`),
- its :class:`Watch` lives as long as a window: what it gathers there,
- what it reads at an *edge* of a window (the end of one is the beginning of the next),
- its :class:`Reading`: everything it knows of one window, frozen. Making it is impure and reads files and maps;
  decoding it is pure, and gives its :class:`Part` of the evidence (:mod:`probes.build`).

Every method does nothing unless a witness says otherwise. Called under the observer's lock unless said otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from probes.options import ObserveOptions
from probes.programs import Side
from probes.subjects import Subject
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.claims import Claim
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Environment, Transition

E = TypeVar("E")
"""What a witness reads at an edge; ``None`` for most."""
R = TypeVar("R", bound="Reading")
W = TypeVar("W", bound="Watch[Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The ledger's own moment at an edge: every CPU is turned over, or (the window stays open) counted up to now.

    :param at_ns: CLOCK_MONOTONIC just before the first CPU.
    :param turn_ns: from ``at_ns`` until the last CPU.
    :param online: the CPUs that were online.
    """

    at_ns: int
    turn_ns: int = 0
    online: CpuSet = EMPTY


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
    :param subjects: claims that were removed meanwhile first.
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
    names: Mapping[int, str]
    sampled: CpuSet = EMPTY
    watched: CpuSet = EMPTY
    pods_root: str | None = None
    transitions: tuple[Transition, ...] = ()
    spots: tuple[BlindSpot, ...] = ()

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at which the window opened."""
        return self.first.at_ns

    @property
    def end_ns(self) -> int:
        """CLOCK_MONOTONIC of its end, or of this look."""
        return self.last.at_ns

    @property
    def claims(self) -> dict[str, Watched]:
        """Every claim once, by name: of two that had one name the later."""
        return {subject.name: subject for subject in self.subjects}


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


class Readings:
    """The readings of all witnesses of one window."""

    def __init__(self, frame: Frame, readings: Iterable[Reading]) -> None:
        self.frame = frame
        self.all = tuple(readings)

    def of(self, kind: type[R]) -> R:
        """Return the reading of a kind, for a witness that is compared with another.

        :raises KeyError: nobody made one.
        """
        for reading in self.all:
            if isinstance(reading, kind):
                return reading
        raise KeyError(kind.__name__)


class OpenWindow(Protocol):
    """What a watch may know of its window."""

    @property
    def number(self) -> int:
        """The programs' number of it."""

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at which it opened."""

    @property
    def end_ns(self) -> int:
        """CLOCK_MONOTONIC at which it ended; only of a closed window."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""

    @property
    def counted_ns(self) -> int:
        """When a closed window's counting had ended: every event of it had been sent."""

    def all_subjects(self) -> list[Subject]:
        """Return every claim watched during the window, also those removed meanwhile."""

    def present(self) -> list[Subject]:
        """Return every claim that is watched now, or was when the window ended."""

    def watch(self, kind: type[W]) -> W:
        """Return the watch of this kind."""

    def note(self, transition: Transition) -> None:
        """Take a transition whose start is CLOCK_MONOTONIC and whose end is now, or the window's."""


class Watch(Generic[E]):
    """One witness in one window."""

    def claim_added(self, subject: Subject) -> None:
        """Begin with a claim that is watched from now on; those that are watched already are not reported."""

    def claim_removed(self, subject: Subject, at_ns: int) -> None:
        """Keep what is known of a claim that is not watched any more since ``at_ns``."""

    def ending(self, subject: Subject) -> None:
        """Look at a claim whose tasks are about to be ended. Not under the lock."""

    def last_look(self, subject: Subject) -> None:
        """Read what cannot be read any more when the claim's cgroup is deleted."""

    def cgroup_changed(self, subject: Subject, made_ns: int | None) -> None:
        """Read a claim whose cgroup may be another one now; ``made_ns``: when that was made, where it is known."""

    def before_end(self) -> None:
        """Do what has to be done before the edge is read at which the window ends."""

    def close(self, edge: E, moment: Moment) -> None:
        """Keep what the next window would take away: the window has just ended at this edge."""

    def read(self, edge: E, moment: Moment) -> Reading | None:
        """Return what is known of the window up to this edge. It may still be open, and be read again."""
        del edge, moment
        return None


@dataclass(frozen=True, slots=True)
class Chore:
    """Something that the listening thread does every so often, not under the lock. 0: in every round (10 ms)."""

    period_s: float
    work: Callable[[], None]


class Witness(Generic[E]):
    """A source of evidence, composed into an observer."""

    SIDE: ClassVar[type[Side] | None] = None
    """What it has in the kernel, if anything; compiled and loaded with the others."""

    def __init__(self, windows: Any) -> None:
        """Begin with an observer (its :class:`probes.windows.Windows`): loaded, and without a claim yet."""

    def running(self) -> AbstractContextManager[object]:
        """Return what runs as long as the observer watches: threads of its own, sockets."""
        return nullcontext()

    def chores(self) -> tuple[Chore, ...]:
        """Return what the listening thread does for it."""
        return ()

    def begin(self, window: OpenWindow, first: E) -> Watch[E]:
        """Begin with a window; ``first``: what was read at the edge at which it opened."""
        del window, first
        return Watch()

    def edge(self, turn: bool) -> Generator[None, None, E | None]:
        """Read what has to be read at an edge: yields once, and returns what was read.

        Witnesses read in their order until they yield, then comes the ledger's own moment, then they go on in the
        opposite order: the last of the list is nearest to the moment on both sides.

        :param turn: the window ends here; otherwise it is a look at an open one.
        """
        del turn
        yield
        return None

    def claiming(self, subject: Subject) -> None:
        """Learn of a claim just before its cgroup is put under it."""

    def unclaiming(self, subject: Subject) -> None:
        """Forget a claim just before its cgroup is taken from it."""

    def verify(self, subject: Subject) -> None:
        """Make sure that what is known of a claim's cgroup is still so."""

    def look(self) -> None:
        """Take note of what the kernel has reported until now: a window ends, or a claim goes."""

    def catch_up(self) -> None:
        """Take note of what may still be under way: a window is about to end, or has ended. Not under the lock."""

    def wait_for(self, window: OpenWindow) -> None:
        """Wait for what was sent before a window closed. Not under the lock."""

    def forget_old(self) -> None:
        """Drop what belongs to windows whose evidence has been put together."""
