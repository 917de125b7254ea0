"""The observer and its windows: what is told while one is just being opened belongs to it."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from probes import observer as module
from probes.observer import Observer
from probes.switches.records import EVENT_OUTSIDE, Detail
from probes.switches.witness import Switches
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.claims import ClaimSet

DEADLINE_S = 10.0


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


@pytest.mark.parametrize(("told_for", "count"), [(1, 1), (2, 0)])
def test_what_is_told_while_a_window_opens_is_kept(monkeypatch: pytest.MonkeyPatch, told_for: int, count: int) -> None:
    """The programs count for a window as soon as it has begun, before its object is there: the listener waits for it.

    A detail of another window is none of this one's.
    """
    watcher = Observer(ClaimSet(claims=()))
    watcher.names[5] = "pod/db"
    watcher.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    lock = _Lock()
    monkeypatch.setattr(watcher, "lock", lock)
    listener = threading.Thread(target=Switches(watcher).event, args=(detail(5, told_for),))

    def opening(_observer: Observer, _witnesses: object) -> Any:
        """Let the listener hear of a violation before there is a window to put it in."""
        listener.start()
        deadline = time.monotonic() + DEADLINE_S
        while listener.is_alive() and not lock.asked.wait(0.001):
            assert time.monotonic() < deadline, "the listener neither waits nor ends"
        return SimpleNamespace(number=1, start_ns=1_000, closed=False)

    monkeypatch.setattr(module.Window, "open", opening)
    watcher.open_window()
    listener.join(DEADLINE_S)

    assert not listener.is_alive()
    assert [(found.claim, found.tid, found.ns) for found in watcher.poll()] == [("pod/db", 7, 2_000)] * count
