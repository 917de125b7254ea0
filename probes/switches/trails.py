"""Where a task was at each moment: the history of moves, and an interval cut by it.

The programs report every move of a member and send the intervals during which one happened, or of which they cannot say
where the task was (``probes/switches/membership.h``, ``probes/switches/pieces.h``). What is found here is exact where
the kernel's word exists, and waits for it where it may still come:

- The kernel moves the threads of a process first and reports afterwards (``cgroup_attach_task``). Where its word says
  when the moving began (``probes/switches/moving.py``), what a task ran in between is between two places: it has left
  the one, and what binds it in the other need not be in force. Where it does not, a task that is found in a claim whose
  joining comes within the patience *after* the interval had not joined yet. A task of which no word comes, while no
  move is under way, was there all the time.
- Where cpusets are in a v1 hierarchy, a joining is complete with the later of its two attaches. A cpuset that comes
  within the patience after the identity completes the joining; without it the task is a member from the first.
- A word forgives only what came just before it, never anything earlier; but the kernel moves no task that exits: what
  such a thread runs after its process has completed a joining is still between the two.
- A process of several threads may be moved to where its leader is already: a word that changes nothing for some.

Source: kernel/cgroup/cgroup.c, ``cgroup_migrate_execute`` and ``cgroup_attach_task``.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from probes.switches.records import (
    EVENT_COMPLETE,
    PIECE_INCOMPLETE,
    PIECE_MEMBER,
    PIECE_OVERLOOKED,
    PIECE_UNANNOUNCED,
    PODS_IDENT,
    MoveEvent,
    Piece,
)

KEEP_NS = 60_000_000_000
"""How long a move is remembered: far longer than any interval between two ticks of the sampler, shorter than thread ids
take to come round."""
MAX_MOVES = 200_000
"""Moves remembered. More are a storm: what is forgotten is counted, and the run is incomplete."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A part of an interval that a task spent under one claim (``ident``), under none (0) or in a foreign pod.

    ``joining``: its joining was not complete; time outside is no violation, and a foreign pod's is not the pod's yet.
    ``origin``, ``left``: of whom it was before it left without ending, and whose leave that was, as ``struct member``.
    """

    ident: int
    cgroup: int
    from_ns: int
    to_ns: int
    joining: bool = False
    origin: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    """From ``at_ns`` on a task is under ``ident``; before, as far as this step knows, it was under ``before``."""

    at_ns: int
    begun_ns: int
    """When the kernel began to move the first thread; 0: not known."""
    ident: int
    before: int
    cgroup: int
    joined_ns: int
    awaiting: bool
    """The cpuset may follow."""
    completes: bool
    origin: int = 0
    left: int = 0


class UnderWay:
    """Whether a move that has begun, and whose word is not there yet, may explain where a task was found.

    :param begun: returns when the moves began (CLOCK_MONOTONIC) that the kernel has not ended.
    """

    def __init__(self, begun: Callable[[], tuple[int, ...]]) -> None:
        self._begun = begun
        self._looked = (0, 0)
        """From when to when it was looked."""
        self._found: tuple[int, ...] = ()

    def may_explain(self, at_ns: int, heard_ns: int) -> bool:
        """Return whether the word of a move that was under way at this moment may still come.

        What is not under way any more has sent its word before: it is here when everything up to the look was heard.
        """
        from_ns, to_ns = self._looked
        answered = at_ns < from_ns and to_ns < heard_ns
        may = not answered or any(begun_ns <= at_ns for begun_ns in self._found)
        if may and heard_ns > to_ns:
            from_ns = time.monotonic_ns()
            self._found = self._begun()
            self._looked = from_ns, time.monotonic_ns()
        return may


class Trails:
    """The moves of the last minute. :meth:`cut` is called by the thread that adds, too.

    :param begun: returns when the moves began (CLOCK_MONOTONIC) that the kernel has not ended; ``None``: not known, and
        a word counts that comes within the patience.
    """

    def __init__(self, patience_ns: int, begun: Callable[[], tuple[int, ...]] | None = None) -> None:
        self._patience_ns = patience_ns
        self._under_way = None if begun is None else UnderWay(begun)
        self._steps: dict[tuple[bool, int, int], list[_Step]] = {}
        self._order: deque[tuple[int, tuple[bool, int, int]]] = deque()
        self.forgotten = 0
        """Moves that had to be forgotten early."""

    def add(self, event: MoveEvent) -> None:
        """Remember one move, or a completed joining."""
        # Numbers of threads come round; the life says how many had this one before.
        whole = bool(event.whole_process)
        step = _Step(
            at_ns=event.at_ns,
            begun_ns=event.begun_ns,
            ident=event.to_ident,
            before=event.from_ident,
            cgroup=event.cgroup,
            joined_ns=event.joined_ns,
            awaiting=bool(event.incomplete),
            completes=event.kind == EVENT_COMPLETE,
            origin=event.origin,
            left=event.left,
        )
        self._remember((whole, event.tgid if whole else event.tid, event.life), step)

    def _remember(self, key: tuple[bool, int, int], step: _Step) -> None:
        steps = self._steps.setdefault(key, [])
        # CPUs hand their records over one after the other: nearly in order, seldom not.
        steps.insert(bisect_right(steps, step.at_ns, key=lambda known: known.at_ns), step)
        self._order.append((step.at_ns, key))
        while self._order and (self._order[0][0] < step.at_ns - KEEP_NS or len(self._order) > MAX_MOVES):
            old_ns, old = self._order.popleft()
            self.forgotten += old_ns >= step.at_ns - KEEP_NS
            known = self._steps.get(old, [])
            # The last one says where the task is now.
            if len(known) > 1:
                known.pop(0)
            elif not known or step.at_ns - known[0].at_ns > KEEP_NS:
                self._steps.pop(old, None)

    def cut(self, piece: Piece, heard_ns: int) -> tuple[Stay, ...] | None:
        """Cut an interval where its task was moved, or return ``None``: the word may still come.

        :param heard_ns: CLOCK_MONOTONIC; every event up to here has been added.
        """
        limit = piece.now_ns + self._patience_ns
        reported = self._of(piece)
        steps = _with_record(reported, piece)
        if steps is not reported and steps[-1].at_ns > piece.from_ns and heard_ns <= limit:
            return None  # the record was written, its event is under way
        stays = _stays(piece, steps)
        # Where it was at the interval's end the program asked the kernel: a history that ends elsewhere lacks a move.
        if stays[-1].ident != piece.cgroup_ident:
            # A move whose begin is known explains what came after it: the history has it already.
            moved = any(
                piece.now_ns <= step.at_ns <= limit and not step.completes and not step.begun_ns for step in steps
            )
            if not moved:
                if heard_ns <= limit:
                    return None
                if self._under_way is not None and self._under_way.may_explain(piece.now_ns, heard_ns):
                    return None
                # Nobody moved it in: it was there, however it came.
                stays[-1] = replace(stays[-1], ident=piece.cgroup_ident, cgroup=piece.cgroup)
        return self._marked(stays, steps, heard_ns, overlooked=bool(piece.flags & PIECE_OVERLOOKED))

    def _of(self, piece: Piece) -> list[_Step]:
        found = [*self._steps.get((False, piece.tid, piece.life), [])]
        found += self._steps.get((True, piece.tgid, piece.tgid_life), [])
        # A thread that no fork announced has no record: where its process leader went by itself, it counts as gone too.
        if piece.flags & PIECE_UNANNOUNCED:
            found += self._steps.get((False, piece.tgid, piece.tgid_life), [])
        return sorted(found, key=lambda step: step.at_ns)

    def _marked(
        self, stays: list[Stay], steps: list[_Step], heard_ns: int, *, overlooked: bool
    ) -> tuple[Stay, ...] | None:
        """Mark what was spent between the two attaches of a joining; ``None`` where the second may still come.

        A completion names the joining that it completes: it forgives no earlier one.

        :param overlooked: the second did not move this task, which exits: it has not ended for the last part.
        """
        done: list[Stay] = []
        for stay in stays:
            completed = any(
                step.completes
                and step.ident == stay.ident
                and step.joined_ns <= stay.from_ns
                and (stay.from_ns < step.at_ns or (overlooked and stay is stays[-1]))
                and step.at_ns <= step.joined_ns + self._patience_ns
                for step in steps
            )
            join = next((step for step in reversed(steps) if step.at_ns <= stay.from_ns), None)
            awaiting = join is not None and join.awaiting and join.ident == stay.ident
            if not completed and awaiting and join is not None and heard_ns <= join.joined_ns + self._patience_ns:
                return None
            done.append(replace(stay, joining=True) if completed else stay)
        return tuple(done)


def _with_record(steps: list[_Step], piece: Piece) -> list[_Step]:
    """Add what the kernel's record says of a task whose joining was not reported: that of a fork is not.

    A record that is being written at this moment says nothing yet.
    """
    if not piece.flags & PIECE_MEMBER or piece.member_ns > piece.now_ns:
        return steps
    if any(step.at_ns >= piece.member_ns for step in steps):
        return steps
    record = _Step(
        at_ns=piece.member_ns,
        begun_ns=0,
        ident=piece.member_ident,
        before=0,
        cgroup=0,
        joined_ns=piece.joined_ns,
        awaiting=bool(piece.flags & PIECE_INCOMPLETE),
        completes=False,
        origin=piece.member_origin,
        left=piece.member_left,
    )
    return [*steps, record]


def _stays(piece: Piece, steps: list[_Step]) -> list[Stay]:
    """Return the parts of an interval as the history has them."""
    before = [step for step in steps if step.at_ns <= piece.from_ns]
    later = [step for step in steps if step.at_ns > piece.from_ns]
    # A task that was never seen to move before was where its first move came from.
    ident = before[-1].ident if before else later[0].before if later else 0
    cgroup = next((step.cgroup for step in reversed(before) if step.cgroup), 0)
    left = (before[-1].origin, before[-1].left) if before else (0, 0)
    stays, begin = [], piece.from_ns
    for step in later:
        # From one pod to another: it is a pod's all the time.
        between = step.begun_ns and not step.ident == ident == PODS_IDENT
        leaves_ns = max(begin, step.begun_ns if between else step.at_ns)
        if leaves_ns >= piece.now_ns:
            break  # the interval is over: the move is of the next one
        if step.ident == ident != PODS_IDENT and not step.completes:
            continue  # its process was moved to where this thread was already
        if leaves_ns > begin or not between:
            stays.append(Stay(ident, cgroup, begin, leaves_ns, False, *left))
        ident, cgroup, begin = step.ident, step.cgroup or cgroup, min(step.at_ns, piece.now_ns)
        left = step.origin, step.left
        if between:
            stays.append(Stay(ident, cgroup, leaves_ns, begin, joining=True))
        if begin == piece.now_ns:
            return _ending(stays, piece)
    return _ending([*stays, Stay(ident, cgroup, begin, piece.now_ns, False, *left)], piece)


def _ending(stays: list[Stay], piece: Piece) -> list[Stay]:
    """Name the cgroup of the last part as the program did, where it ends there."""
    if stays[-1].ident == piece.cgroup_ident:
        stays[-1] = replace(stays[-1], cgroup=piece.cgroup)
    return stays
