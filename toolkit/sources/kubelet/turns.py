"""Whose status a reading need not ask for: of most containers the layers agree, and 0.7 ms each add up."""

from __future__ import annotations

from toolkit.sources.kubelet.allocated import allocations
from toolkit.sources.kubelet.asked import asked_of
from toolkit.sources.kubelet.control_words import ControlWords
from toolkit.sources.kubelet.followed import Followed

TURNS, A_TURN = 10, 10
"""Readings in which every container's status is asked for once, whatever it says; more where these would ask for more
than so many in one.
"""


class Turns:
    """Of one node, from reading to reading."""

    def __init__(self) -> None:
        self._turn = 0
        self._differed: frozenset[str] = frozenset()
        """Ids of containers whose layers did not agree at the last reading."""
        self._spared: tuple[str, ...] = ()
        """Ids of those that agreed then, and at the one before as far as they were there, and whose turn it is not."""

    def take(self, now: Followed) -> None:
        """Spare the statuses of containers whose layers agree, all but some in turn.

        Of one that has just begun to agree the runtime is asked once more: whether it followed its cgroup, or something
        else wrote that and put it back.
        """
        self._turn += 1
        agree = {one: index for index, one in now.agree}
        before, self._differed = self._differed, frozenset(now.subjects.keys() - agree.keys())
        turns = max(TURNS, -(-len(agree) // A_TURN))
        self._spared = tuple(one for one, index in agree.items() if one not in before and (index + self._turn) % turns)

    def spared(self, last: Followed | None, words: ControlWords) -> tuple[str, ...]:
        """Return whose status need not be asked for. Of those whose quota or limit of memory is not what was asked for
        it is: they were resized, or drift. A kubelet that writes down what it has allocated promises by that.

        :param last: what followed from the last reading.
        """
        if last is None or allocations(last.reading):
            return self._spared
        known = last.subjects
        return tuple(
            one
            for one in self._spared
            if one in known and words.as_asked(known[one].limited or known[one].cgroup, asked_of(known[one]))
        )
