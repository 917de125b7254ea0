"""The moves and affinity changes of a window."""

from __future__ import annotations

from collections.abc import Generator

from probes.actions.decoder import ActionReading, Dropped
from probes.actions.reader import Actions, read_hierarchies
from probes.readings import Moment
from probes.windows import Windows
from probes.witness import OpenWindow, Watch, Witness

Around = tuple[Dropped, Dropped]
"""Before and after the ledger's moment: what is dropped in between may be of either window, and counts for both."""


class ActionWatch(Watch[Around]):
    """One window."""

    def __init__(self, actions: Actions, window: OpenWindow, first: Around) -> None:
        self._actions, self._window, self._first = actions, window, first

    def read(self, edge: Around, moment: Moment) -> ActionReading:
        """Return the window so far."""
        del moment
        actions, number = self._actions, self._window.number
        return ActionReading(
            first=self._first[0],
            last=edge[1],
            moves=actions.moves(number),
            earlier=actions.left_before(number),
            affinities=actions.affinities(number),
            hierarchies=read_hierarchies(actions.loaded.root),
            blind_spots=tuple(actions.blind_spots),
        )


class ActionWitness(Witness[Around]):
    """What moved tasks and changed masks."""

    SIDE = Actions

    def __init__(self, windows: Windows) -> None:
        self._actions, self._ledger = windows.ledger.side(Actions), windows.ledger

    def begin(self, window: OpenWindow, first: Around) -> ActionWatch:
        """Begin with a window."""
        return ActionWatch(self._actions, window, first)

    def edge(self, turn: bool) -> Generator[None, None, Around]:
        """Read how many were not reported, on both sides."""
        del turn
        before = self._dropped()
        yield
        return before, self._dropped()

    def forget_old(self) -> None:
        """Drop the windows before the present one."""
        self._actions.drop_old(self._ledger.window)

    def _dropped(self) -> Dropped:
        moves, affinities, leaves = self._actions.dropped()
        return Dropped(moves=moves, affinities=affinities, leaves=leaves)
