"""The interrupt ledger of a window, and the kernel's own counts around the ledger's moment."""

from __future__ import annotations

from collections.abc import Generator

from probes.interrupts.decoder import InterruptReading, SoftirqCounts
from probes.interrupts.reader import Interrupts
from probes.node.system import read_softirqs
from probes.observer import Observer
from probes.witness import Edge, OpenWindow, Watch, Witness


class InterruptWatch(Watch):
    """One window."""

    def __init__(self, interrupts: Interrupts, window: OpenWindow, first: SoftirqCounts) -> None:
        self._interrupts, self._window, self._first = interrupts, window, first

    def read(self, edge: Edge) -> InterruptReading:
        """Return the window so far."""
        interrupts = self._interrupts
        return InterruptReading(
            first=self._first,
            last=edge.of(SoftirqCounts),
            rows=interrupts.rows(self._window.number),
            cpus=interrupts.cpus,
            blind_spots=interrupts.blind_spots,
            accounted=interrupts.accounted,
        )


class InterruptWitness(Witness):
    """Interrupts on the watched CPUs."""

    SIDE = Interrupts

    def __init__(self, observer: Observer) -> None:
        self._interrupts, self._root, self._ledger = observer.ledger.side(Interrupts), observer.root, observer.ledger

    def begin(self, window: OpenWindow, first: Edge) -> InterruptWatch:
        """Begin with a window."""
        return InterruptWatch(self._interrupts, window, first.of(SoftirqCounts))

    def edge(self, turn: bool) -> Generator[None, None, SoftirqCounts]:
        """Read the kernel's counts on both sides."""
        del turn
        counting = self._interrupts.counts_softirqs
        before = read_softirqs(self._root) if counting else {}
        yield
        return SoftirqCounts(before=before, after=read_softirqs(self._root) if counting else {})

    def forget_old(self) -> None:
        """Drop the windows before the present one."""
        self._interrupts.drop_old(self._ledger.window)
