"""The moves and affinity changes of a window."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from probes.actions.decoder import ActionReading, Dropped
from probes.actions.reader import Actions, read_hierarchies
from probes.observer import Observer
from probes.witness import Edge, OpenWindow, Watch, Witness


class DroppedAround(NamedTuple):
    """Before and after the ledger's moment: what is dropped in between may be of either window, and counts for both."""

    before: Dropped
    after: Dropped


class ActionWatch(Watch):
    """One window."""

    def __init__(self, actions: Actions, window: OpenWindow, first: DroppedAround) -> None:
        self._actions, self._window, self._first = actions, window, first

    def read(self, edge: Edge) -> ActionReading:
        """Return the window so far."""
        actions, number = self._actions, self._window.number
        return ActionReading(
            first=self._first.before,
            last=edge.of(DroppedAround).after,
            moves=actions.moves(number),
            earlier=actions.left_before(number),
            affinities=actions.affinities(number),
            hierarchies=read_hierarchies(actions.loaded.root),
            blind_spots=tuple(actions.blind_spots),
        )


class ActionWitness(Witness):
    """What moved tasks and changed masks."""

    SIDE = Actions

    def __init__(self, observer: Observer) -> None:
        self._actions, self._ledger = observer.ledger.side(Actions), observer.ledger

    def begin(self, window: OpenWindow, first: Edge) -> ActionWatch:
        """Begin with a window."""
        return ActionWatch(self._actions, window, first.of(DroppedAround))

    def edge(self, turn: bool) -> Generator[None, None, DroppedAround]:
        """Read how many were not reported, on both sides."""
        del turn
        before = self._dropped()
        yield
        return DroppedAround(before, self._dropped())

    def forget_old(self) -> None:
        """Drop the windows before the present one."""
        self._actions.drop_old(self._ledger.window)

    def _dropped(self) -> Dropped:
        moves, affinities, leaves = self._actions.dropped()
        return Dropped(moves=moves, affinities=affinities, leaves=leaves)
