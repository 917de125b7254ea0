"""The protocol of a witness: what an observer asks of each, whatever it is.

Four kinds of values, by how long they live:

- a :class:`Witness` lives as long as an observer; it is what the composition names (:mod:`probes.composition`),
- its :class:`Watch` lives as long as a window: what it gathers there,
- what it reads at an *edge* of a window (the end of one is the beginning of the next),
- its :class:`Reading`: everything it knows of one window, frozen. Making it is impure and reads files and maps;
  decoding it is pure, and gives its part of the evidence (:mod:`probes.readings`, :mod:`probes.build`).

Every method does nothing unless a witness says otherwise. Called under the observer's lock unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from probes.programs import Side
from probes.readings import Moment, Reading, of_kind
from probes.subjects import PodsRoot, Subject
from toolkit.model.evidence import Transition

T = TypeVar("T")
W = TypeVar("W", bound="Watch")


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a window: the ledger's own moment, and around it what witnesses read, each a value of its own type.

    Read as the end of one window it is the beginning of the next.
    """

    moment: Moment
    found: tuple[object, ...]

    def of(self, kind: type[T]) -> T:
        """Return what a witness read, by its type.

        :raises KeyError: nothing read it.
        """
        return of_kind(self.found, kind)


class OpenWindow(Protocol):
    """What a watch may know of its window."""

    transitions: list[Transition]
    """Changes of claims, in the order in which they were noted."""

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


class Watch:
    """One witness in one window."""

    def claim_added(self, subject: Subject) -> None:
        """Begin with a claim that is watched from now on; those that are watched already are not reported."""

    def promised(self, subject: Subject) -> None:
        """Take note of what a claim that goes on is promised from now on: its quota, its part, its memory nodes."""

    def claim_removed(self, subject: Subject, at_ns: int) -> None:
        """Keep what is known of a claim that is not watched any more since ``at_ns``."""

    def ending(self, subject: Subject) -> None:
        """Look at a claim whose tasks are about to be ended. Not under the lock."""

    def last_look(self, subject: Subject) -> None:
        """Read what cannot be read any more when the claim's cgroup is deleted."""

    def cgroup_changed(self, subject: Subject, made_ns: int | None) -> None:
        """Read a claim whose cgroup may be another one now; ``made_ns``: when that was made, where it is known."""

    def again(self, subject: Subject) -> None:
        """Read a claim once more that goes on: its turn has come."""

    def before_end(self) -> None:
        """Do what has to be done before the edge is read at which the window ends."""

    def close(self, edge: Edge) -> None:
        """Keep what the next window would take away: the window has just ended at this edge."""

    def read(self, edge: Edge) -> Reading | None:
        """Return what is known of the window up to this edge. It may still be open, and be read again."""
        del edge
        return None


@dataclass(frozen=True, slots=True)
class Chore:
    """Something that the listening thread does every so often, not under the lock.

    :param period_s: 0: in every round.
    :param idle: whether there is nothing to do in every round until something is heard: rounds may be longer.
    :param may_wait: whether it may be done later than its time, in the round that comes anyway.
    """

    period_s: float
    work: Callable[[], None]
    idle: Callable[[], bool] = lambda: True
    may_wait: Callable[[], bool] = lambda: False


class Witness:
    """A source of evidence, composed into an observer: it is made with that (:class:`probes.observer.Made`)."""

    SIDE: ClassVar[type[Side] | None] = None
    """What it has in the kernel, if anything; compiled and loaded with the others."""

    def __init__(self, observer: object) -> None:
        """Begin with its :class:`probes.observer.Observer`; one that needs nothing of it keeps nothing."""

    def running(self) -> AbstractContextManager[object]:
        """Return what runs as long as the observer watches: threads of its own, sockets."""
        return nullcontext()

    def stirred(self) -> bool:
        """Say whether something was reported of which nothing has taken note yet (:meth:`look`, or what reads files).

        Not under the lock; asked in each round of what hears.
        """
        return False

    def chores(self) -> tuple[Chore, ...]:
        """Return what the listening thread does for it."""
        return ()

    def begin(self, window: OpenWindow, first: Edge) -> Watch:
        """Begin with a window; ``first``: the edge at which it opened."""
        del window, first
        return Watch()

    def edge(self, turn: bool) -> Generator[None, None, object]:
        """Read what has to be read at an edge: yields once or twice, and returns what was read: a value of a type of
        its own (:meth:`Edge.of`), or ``None``.

        Witnesses read in their order until they yield, then comes the ledger's own moment, then they go on in the
        opposite order: the last of the list is nearest to the moment on both sides. What yields a second time reads the
        rest when everything has read.

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

    def claiming_pods(self, pods: PodsRoot) -> None:
        """Learn of the cgroup that all pods are in, just before it is published."""

    def unclaiming_pods(self, pods: PodsRoot) -> None:
        """Forget it just before another takes its place."""

    def verify_pods(self, pods: PodsRoot) -> None:
        """Make sure that what is known of it is still so."""

    def state_folder(self, folder: Path) -> None:
        """Learn in which folder a kubelet keeps its state files: the one that was known before, or another."""

    def look(self) -> None:
        """Take note of what the kernel has reported until now: a window ends, or a claim goes."""

    def catch_up(self) -> None:
        """Take note of what may still be under way: a window is about to end, or has ended. Not under the lock."""

    def wait_for(self, window: OpenWindow) -> None:
        """Wait for what was sent before a window closed. Not under the lock."""

    def forget_old(self) -> None:
        """Drop what belongs to windows whose evidence has been put together."""
