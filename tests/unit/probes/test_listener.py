"""How long the listening thread waits for something to be heard: as long as nothing can come due before."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from probes import listener
from probes.listener import IDLE_MS, POLL_MS, _Hearing
from probes.witness import Chore


@dataclass
class Heard:
    """A ledger that sends nothing. ``waited``: how long each round would have waited (ms)."""

    waited: list[int] = field(default_factory=list)

    def poll(self, timeout_ms: int) -> None:
        """Take note of it."""
        self.waited.append(timeout_ms)


def hearing(*chores: Chore) -> tuple[Any, Heard]:
    """Return the work of the thread, with a witness that has these chores."""
    ledger = Heard()
    windows = SimpleNamespace(
        ledger=ledger, lock=threading.RLock(), witnesses=(SimpleNamespace(chores=lambda: chores),)
    )
    return _Hearing(windows), ledger  # type: ignore[arg-type]


@pytest.mark.parametrize(("idle", "waits"), [(True, IDLE_MS), (False, POLL_MS)])
def test_rounds_are_long_only_while_nothing_waits(idle: bool, waits: int) -> None:
    """An interval that waits for a word is looked at every 10 ms."""
    done: list[int] = []
    work, ledger = hearing(Chore(0.0, lambda: done.append(1), lambda: idle), Chore(60.0, lambda: done.append(2)))
    for _ in range(3):
        work.round(lambda: False)

    assert ledger.waited[1:] == [waits] * 2
    assert done == [1, 2, 1, 1], "what is done in every round is done in every one"


def test_a_thread_that_has_the_lock_is_not_asked_again_and_again() -> None:
    """A window of hundreds of claims turns over for a tenth of a second, and chores are overdue by then."""
    done: list[int] = []
    work, ledger = hearing(Chore(0.0, lambda: done.append(1)), Chore(1e-6, lambda: None))
    asked, answered = threading.Event(), threading.Event()

    def turn() -> None:
        with work._observer.lock:
            asked.set()
            answered.wait()

    other = threading.Thread(target=turn)
    other.start()
    asked.wait()
    for _ in range(3):
        work.round(lambda: False)
    answered.set()
    other.join()
    assert (ledger.waited[1:], done) == ([POLL_MS] * 2, [])
    for _ in range(2):
        work.round(lambda: False)
    assert done == [1, 1]
    assert ledger.waited[4] < POLL_MS


def test_no_round_goes_beyond_the_next_chore() -> None:
    """Slots of 20 ms are closed every 20 ms."""
    work, ledger = hearing(Chore(0.02, lambda: None))
    for _ in range(2):
        work.round(lambda: False)

    assert 1 <= ledger.waited[1] <= 21


def test_what_may_wait_ends_no_round() -> None:
    """It is done in the round that comes anyway, as slots are of which nothing is judged."""
    done: list[int] = []
    work, ledger = hearing(Chore(0.02, lambda: done.append(1), may_wait=lambda: True), Chore(60.0, lambda: None))
    for _ in range(2):
        work.round(lambda: False)

    assert ledger.waited[1] == IDLE_MS
    assert done[0] == 1


def test_what_is_due_as_often_is_done_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long one of them has taken: each round of its own is a wake-up of the thread."""
    clock, done = [100.0], list[str]()

    def slow() -> None:
        clock[0] += 0.0 if done else 0.02
        done.append("slow")

    monkeypatch.setattr(listener.time, "monotonic", lambda: clock[0])
    work, _ = hearing(Chore(0.1, slow), Chore(0.1, lambda: done.append("quick")))
    for _ in range(3):
        began_s = clock[0]
        work.round(lambda: False)
        clock[0] = began_s + 0.1

    assert done == ["slow", "quick"] * 3
