"""The observer's own thread: hears the programs, and does the chores of all witnesses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from probes.garbage import seldom_sought
from probes.loops import Loop
from probes.observer import Observer
from probes.witness import Chore
from toolkit.model.blind_spots import EVERY_WITNESS

POLL_MS = 10
"""Of a round in which something may come due."""
IDLE_MS = 500
"""Of one in which nothing can before something is heard: what the programs send ends every round at once (a claimed
cgroup that was made or deleted, too), and so do a write that the kernel reports and a CPU that went or came
(:meth:`probes.programs.Programs.end_by`, ``wake``). Less than chores that may wait for it are allowed to."""


class _Hearing:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        now = time.monotonic()
        self._due: list[tuple[Chore, float]] = [
            (chore, now) for witness in observer.witnesses for chore in witness.chores()
        ]
        self._refused = False
        """Whether the lock was held by another thread when chores were to be done."""

    def round(self, _stopped: Callable[[], bool]) -> float:
        """Hear what the programs have sent, and do every chore whose time has come."""
        self._observer.ledger.poll(self._wait_ms())
        # A window that turns over holds the lock for as long as everything is read, and chores need it. They are due
        # again when it is free: what the programs send meanwhile would be lost as soon as a ring is full.
        self._refused = not self._observer.lock.acquire(blocking=False)
        if self._refused:
            return 0.0
        self._observer.lock.release()
        # One moment for all: what is due as often stays due together, and wakes this thread once.
        now = time.monotonic()
        for index, (chore, due) in enumerate(self._due):
            if now >= due:
                self._due[index] = (chore, now + chore.period_s)
                chore.work()
        return 0.0

    def _wait_ms(self) -> int:
        """Return how long may be waited for something to be heard: not beyond the next chore."""
        if self._refused or not all(chore.idle() for chore, _ in self._due):
            return POLL_MS
        due_s = min((due for chore, due in self._due if chore.period_s and not chore.may_wait()), default=float("inf"))
        return max(1, int(min(IDLE_MS, (due_s - time.monotonic()) * 1000 + 1)))


@contextmanager
def listening(observer: Observer) -> Iterator[None]:
    """Listen while the block runs."""
    hearing = _Hearing(observer)
    with seldom_sought(), Loop(observer, "pinproof-events", hearing.round, EVERY_WITNESS, observer.ledger.wake):
        yield
