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
  within the patience after the identity completes the joining. One that comes later does so where it is proven that a
  joining was under way (:meth:`Trails._proven`): whatever moves a task in may wait long for a CPU on a busy node.
  Without it the task is a member from the first.
- How long a joining takes is the writer's doing, and the node's; what the joining task runs meanwhile is its own. A
  runtime's child waits for it. So each thread has the patience in CPU time, for all its joinings of a claim together:
  what runs for longer outside was there to run.
- Each thread has its own history: what its process was moved to as a whole and what it was moved to by itself. Its
  leader's moves neither complete nor forgive it.
- A word forgives only what came just before it, never anything earlier; but the kernel moves no task that exits: what
  such a thread runs after its process has completed a joining is still between the two, and one that ended while the
  others were moved one by one was not left out by anything.
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
    EVENT_ENDED,
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
    ``origin``, ``left``: whose it was before it left without ending, and whose leave that was, as ``struct member``.
    ``joined_ns``, ``complete_ns``: when such a joining began and was complete, where it has two attaches; else 0.
    """

    ident: int
    cgroup: int
    from_ns: int
    to_ns: int
    joining: bool = False
    origin: int = 0
    left: int = 0
    joined_ns: int = 0
    complete_ns: int = 0


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
    ends: bool = False
    """It is no move: the thread ended between its two joinings."""
    by_outsider: bool = True
    """What moved it was not under the claim that it moved to, or moved itself."""


Key = tuple[str, int, int]
"""Whose steps they are: a thread or a process by number and life, or a joining by process and time."""


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
    :param joining_ns: how long a cpuset may come after the identity where a joining is proven.
    :param at_home: says whether a claim (by ident) allowed a CPU at a moment.
    """

    def __init__(
        self,
        patience_ns: int,
        begun: Callable[[], tuple[int, ...]] | None = None,
        joining_ns: int = 0,
        at_home: Callable[[int, int, int], bool] = lambda ident, cpu, at_ns: False,
    ) -> None:
        self._patience_ns, self._joining_ns, self._at_home = patience_ns, max(patience_ns, joining_ns), at_home
        self._under_way = None if begun is None else UnderWay(begun)
        self._steps: dict[Key, list[_Step]] = {}
        self._order: deque[tuple[int, Key]] = deque()
        self._spent = Spent()
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
            ends=event.kind == EVENT_ENDED,
            by_outsider=event.writer_ident != event.to_ident or event.writer_tgid == event.tgid,
        )
        self._remember(("process", event.tgid, event.life) if whole else ("thread", event.tid, event.life), step)
        if step.completes:
            self._remember(("joining", event.tgid, event.joined_ns), step)

    def _remember(self, key: Key, step: _Step) -> None:
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
        everything = self._of(piece)
        reported = [step for step in everything if not step.ends]
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
                # Nothing moved it in: it was there, however it came.
                stays[-1] = replace(stays[-1], ident=piece.cgroup_ident, cgroup=piece.cgroup)
        ends = [step for step in everything if step.ends]
        return self._marked(piece, stays, steps, ends, heard_ns)

    def _of(self, piece: Piece) -> list[_Step]:
        found = [*self._steps.get(("thread", piece.tid, piece.life), [])]
        found += self._steps.get(("process", piece.tgid, piece.tgid_life), [])
        # A thread that no fork announced has no record: where its process's leader was by itself before, it began.
        if piece.flags & PIECE_UNANNOUNCED:
            leader = self._steps.get(("thread", piece.tgid, piece.tgid_life), [])
            found += (step for step in leader if step.at_ns <= piece.now_ns)
        return sorted(found, key=lambda step: step.at_ns)

    def _marked(
        self, piece: Piece, stays: list[Stay], steps: list[_Step], ends: list[_Step], heard_ns: int
    ) -> tuple[Stay, ...] | None:
        """Mark what was spent between the two attaches of a joining; ``None`` where the second may still come.

        A completion names the joining that it completes: it forgives no earlier one.
        """
        done: list[Stay] = []
        for stay in stays:
            # The second attach does not move a task that exits: it has not ended for the last part.
            overlooked = bool(piece.flags & PIECE_OVERLOOKED) and stay is stays[-1]
            complete = next((step for step in reversed(steps) if _completes(step, stay, overlooked)), None)
            join = next((step for step in reversed(steps) if step.at_ns <= stay.from_ns), None)
            joined = complete or (join if join and join.awaiting and join.ident == stay.ident else None)
            if joined is None or stay.joining or self._at_home(stay.ident, piece.cpu, piece.now_ns):
                done.append(stay)
                continue
            by_ns = self._complete_ns(piece, stay, joined.joined_ns, steps, ends, complete, heard_ns)
            if by_ns is None:
                return None
            done.append(replace(stay, joining=True, joined_ns=joined.joined_ns, complete_ns=by_ns) if by_ns else stay)
        return tuple(done)

    def _complete_ns(
        self,
        piece: Piece,
        stay: Stay,
        joined_ns: int,
        steps: list[_Step],
        ends: list[_Step],
        complete: _Step | None,
        heard_ns: int,
    ) -> int | None:
        """Return when the joining in which a thread was outside was complete; 0: none was, ``None``: not known yet."""
        task = (piece.tid, piece.life, stay.ident)
        if self._spent.with_stay(task, joined_ns, stay) > self._patience_ns:
            return 0
        end = next((end for end in ends if end.joined_ns == joined_ns), None)
        if complete is None and end is not None:
            # It was not left out: when it was there no more, the others of its process were still being moved.
            others = self._steps.get(("joining", piece.tgid, joined_ns), [])
            complete = next((step for step in others if step.ident == stay.ident and step.at_ns >= end.at_ns), None)
            if complete is None and piece.tid == piece.tgid:
                return 0
        proven = self._proven(stay, joined_ns, steps) and (complete is None or complete.by_outsider)
        limit_ns = joined_ns + (self._joining_ns if proven else self._patience_ns)
        if complete is not None:
            return complete.at_ns if complete.at_ns <= limit_ns else 0
        if any(step.at_ns > stay.from_ns and step.ident != stay.ident for step in steps):
            return 0  # it has left
        return None if heard_ns <= limit_ns else 0

    @staticmethod
    def _proven(stay: Stay, joined_ns: int, steps: list[_Step]) -> bool:
        """Return whether a task was being moved in: by something that is no member, or by itself, for the first time.

        A task of the claim that takes others out and in again, or itself, proves nothing.
        """
        before = (step for step in steps if step.at_ns < joined_ns)
        if any(stay.ident in (step.ident, step.before) for step in before):
            return False
        return all(step.by_outsider for step in steps if step.awaiting and step.joined_ns == joined_ns)


class Spent:
    """The CPU time that threads spent outside in joinings of a claim: of the last minute."""

    def __init__(self) -> None:
        self._stays: dict[tuple[int, int, int], dict[int, tuple[int, int]]] = {}
        self._order: deque[tuple[int, tuple[int, int, int], int]] = deque()

    def with_stay(self, task: tuple[int, int, int], joined_ns: int, stay: Stay) -> int:
        """Return what a thread (number, life, ident of the claim) has spent up to the end of this joining so far.

        A stay may be asked for again; it counts once.
        """
        stays = self._stays.setdefault(task, {})
        if stay.from_ns not in stays:
            self._order.append((stay.from_ns, task, stay.from_ns))
        stays[stay.from_ns] = (joined_ns, stay.to_ns - stay.from_ns)
        while self._order and self._order[0][0] < stay.from_ns - KEEP_NS:
            _, old, from_ns = self._order.popleft()
            known = self._stays.get(old, {})
            known.pop(from_ns, None)
            if not known:
                self._stays.pop(old, None)
        return sum(ns for joined, ns in stays.values() if joined <= joined_ns)


def _completes(step: _Step, stay: Stay, overlooked: bool) -> bool:
    """Return whether a step completes the joining that a stay is in."""
    if not step.completes or step.ident != stay.ident or step.joined_ns > stay.from_ns:
        return False
    return stay.from_ns < step.at_ns or overlooked


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
