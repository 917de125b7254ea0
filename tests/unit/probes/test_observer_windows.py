"""The observer and its windows: what is told while one is just being opened belongs to it."""

from __future__ import annotations

import dataclasses
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import pytest

from probes import observer as module
from probes.composition import new_ledger
from probes.listener import listening
from probes.observer import Observer, Violation
from probes.switches.ledger import Ledger
from probes.switches.records import EVENT_OUTSIDE, Detail
from probes.switches.witness import Switches
from probes.window import Window
from probes.witness import Chore
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.claims import ClaimSet

DEADLINE_S = 120.0


class _Lock:
    """A lock that says when a second thread asks for it."""

    def __init__(self) -> None:
        self.inner, self.owner = threading.RLock(), 0
        self.asked = threading.Event()

    def __enter__(self) -> None:
        if self.owner not in (0, threading.get_ident()):
            self.asked.set()
        self.inner.acquire()
        self.owner = threading.get_ident()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.owner = 0
        self.inner.release()


def detail(ident: int, window: int) -> bytes:
    """Return a violation as the programs tell it."""
    record = Detail(
        start_ns=1_000,
        end_ns=3_000,
        kind=EVENT_OUTSIDE,
        ident=ident,
        tid=7,
        tgid=7,
        cpu=1,
        window=window,
        comm=b"db",
    )
    return Detail.LAYOUT.pack(*dataclasses.astuple(record))


def open_window() -> Any:
    """Return window 1, in which nothing waits to be cut."""
    window = SimpleNamespace(number=1, start_ns=1_000, closed=False)
    window.watch = lambda _kind: SimpleNamespace(window=window, waiting=[], cut=lambda _pieces: [])
    return window


@pytest.mark.parametrize(("told_for", "count"), [(1, 1), (2, 0)])
def test_what_is_told_while_a_window_opens_is_kept(monkeypatch: pytest.MonkeyPatch, told_for: int, count: int) -> None:
    """The programs count for a window as soon as it has begun, before its object is there: the listener waits for it.

    A detail of another window is none of this one's.
    """
    watcher = Observer(ClaimSet(claims=()), Path("/"), new_ledger(Path("/")))
    watcher.names[5] = "pod/db"
    watcher.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    lock = _Lock()
    monkeypatch.setattr(watcher, "lock", lock)
    switches = Switches(watcher)

    def hear() -> None:
        switches.event(detail(5, told_for))
        switches.cut()

    listener = threading.Thread(target=hear)

    def opening(*_: object) -> Any:
        """Let the listener hear of a violation before there is a window to put it in."""
        listener.start()
        deadline = time.monotonic() + DEADLINE_S
        while listener.is_alive() and not lock.asked.wait(0.001):
            assert time.monotonic() < deadline, "the listener neither waits nor ends"
        return open_window()

    monkeypatch.setattr(module.Window, "open", opening)
    watcher.open_window()
    listener.join(DEADLINE_S)

    assert not listener.is_alive()
    assert [(found.claim, found.tid, found.ns) for found in watcher.poll()] == [("pod/db", 7, 2_000)] * count


def test_the_listener_does_not_wait_for_a_window_that_turns_over() -> None:
    """What the programs send is heard while the lock is taken: their rings stay empty. The chores come later."""
    watcher = Observer(ClaimSet(claims=()), Path("/"), new_ledger(Path("/")))
    watcher.names[5] = "pod/db"
    watcher.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    switches = Switches(watcher)
    heard = threading.Event()
    polls: list[int] = []
    ended: list[int] = []

    def poll(_timeout_ms: int) -> None:
        switches.event(detail(5, 1))
        polls.append(len(watcher.poll()))
        if len(polls) == 100:
            heard.set()
        time.sleep(0.001)

    watcher.ledger = cast("Ledger", SimpleNamespace(poll=poll, wake=lambda: ended.append(1), heard_ns=0))
    watcher.witnesses = (cast("Switches", SimpleNamespace(chores=lambda: (Chore(0.0, switches.cut),))),)
    watcher.window = cast("Window", open_window())

    with ExitStack() as running, watcher.lock:
        running.enter_context(listening(watcher))
        in_time = heard.wait(DEADLINE_S)
    assert in_time, "it is heard in every round"
    assert ended, "nothing waits at its end for what could still be sent"
    assert sum(polls[:100]) == 0
    switches.cut()
    assert len(watcher.poll()) + sum(polls) == len(polls)


def test_what_one_thread_reports_is_reported_for_the_other() -> None:
    """A window ends when all is cut: what the listener has just taken, and not reported yet, belongs to it."""
    reporting, go_on = threading.Event(), threading.Event()

    def slow(_violation: Violation) -> None:
        reporting.set()
        assert go_on.wait(DEADLINE_S)

    watcher = Observer(ClaimSet(claims=()), Path("/"), new_ledger(Path("/")), slow)
    watcher.names[5] = "pod/db"
    watcher.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    watcher.window = cast("Window", open_window())
    switches = Switches(watcher)
    switches.event(detail(5, 1))
    listener, ender = (threading.Thread(target=switches.cut) for _ in range(2))
    listener.start()
    assert reporting.wait(DEADLINE_S)
    ender.start()
    ender.join(0.05)
    assert ender.is_alive(), "it waits for the report"
    go_on.set()
    listener.join(DEADLINE_S)
    ender.join(DEADLINE_S)
    assert len(watcher.poll()) == 1


def test_a_round_in_which_nothing_was_heard_waits_for_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to cut and nothing to report; what is heard for a window that is not there yet is kept."""
    watcher = Observer(ClaimSet(claims=()), Path("/"), new_ledger(Path("/")))
    watcher.names[5] = "pod/db"
    watcher.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    watcher.window = cast("Window", open_window())
    switches = Switches(watcher)
    taken, real = list[int](), switches._due

    def due() -> list[Violation]:
        taken.append(1)
        return real()

    monkeypatch.setattr(switches, "_due", due)

    switches.cut()
    assert taken == []
    switches.event(detail(5, 1))
    switches.cut()
    assert (len(taken), len(watcher.poll())) == (1, 1)
    watcher.closing = watcher.window
    switches.cut()
    assert len(taken) == 2, "a window that ends is cut to its end"
