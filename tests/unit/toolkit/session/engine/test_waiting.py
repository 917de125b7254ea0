"""What waits in an open window wakes seldom while nothing happens, and at once when something does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from probes.observer import Observer
from probes.options import ObserveOptions
from probes.subjects import Violation
from probes.switches.ledger import Ledger
from tests.unit.toolkit.session.followed import Node
from toolkit.model.claims import ClaimSet
from toolkit.session.engine import observe
from toolkit.session.engine.observe import Observation
from toolkit.session.engine.stopping import stop_on_signals
from toolkit.sources.live_source import SourceReading

DEADLINE_S = 120.0
FOUND = Violation(
    claim="a", tid=1, tgid=1, comm="hog", cpu=3, first_at_ns=0, reported_at_ns=0, ns=1000, window=1
)  # fmt: skip


class Open(Observation):
    """An open window over no kernel."""

    def __init__(self, stopped: Sequence[int] = ()) -> None:
        observer = Observer(ClaimSet(claims=()), Path("/"), Ledger(Path("/"), ObserveOptions(), ()))
        self.observer, self.stopped = observer, stopped
        self.reported: list[Violation] = []
        self._report = self.reported.append


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pause that is not ended last for longer than any test."""
    monkeypatch.setattr(observe, "IDLE_TICK_S", 10 * DEADLINE_S)


def test_a_wait_in_which_nothing_happens_is_mostly_sleep() -> None:
    """A watch waits all day: it looks once a second, and not twenty times."""
    pauses: list[float] = []
    Open().wait(1.2, pauses.append)
    assert len(pauses) <= 2
    assert pauses[-1] >= 1.2, "it ends in time"


@pytest.mark.usefixtures("patient")
def test_what_waits_for_something_looks_often() -> None:
    """Nothing gives notice of it."""
    looks: list[bool] = []
    start = time.monotonic()
    Open().wait(DEADLINE_S, until=lambda: looks.append(True) or len(looks) > 4)  # type: ignore[func-returns-value]
    assert time.monotonic() - start < DEADLINE_S / 2


@pytest.mark.usefixtures("patient")
def test_a_report_ends_the_pause() -> None:
    """It is handled at once, and the wait goes on."""
    opened = Open()
    threading.Timer(0.05, opened.observer.report, (FOUND,)).start()
    seconds: list[float] = []

    def progress(passed: float) -> None:
        seconds.append(passed)
        opened.stopped = (signal.SIGTERM,)

    opened.wait(DEADLINE_S, progress)
    assert opened.reported == [FOUND]
    assert len(seconds) == 1
    assert seconds[0] < DEADLINE_S / 2


@pytest.mark.usefixtures("patient")
def test_a_signal_ends_the_wait() -> None:
    """A pause of the main thread goes on when a handler returns: what waits is woken by it."""
    with stop_on_signals() as stopped:
        opened, start = Open(stopped), time.monotonic()
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        opened.wait(DEADLINE_S)
        assert time.monotonic() - start < DEADLINE_S / 2
    assert stopped == [signal.SIGTERM]


@pytest.mark.usefixtures("patient")
def test_a_reading_is_applied_as_soon_as_it_is_there(tmp_path: Path) -> None:
    """A container that begins meanwhile is unwatched until then."""
    node, opened, start = Node(tmp_path), Open(), time.monotonic()
    node.say(node.claim("a"))
    node.source.next.append(SourceReading(claims=ClaimSet(claims=(node.claim("a"), node.claim("b")))))

    def progress(_passed: float) -> None:
        node.follower.apply_reading(cast(Observation, node))
        if "b" in node.watched:
            opened.stopped = (signal.SIGTERM,)

    with node.follower.waking(opened.wake):
        asked = threading.Thread(target=read_once, args=(node,))
        asked.start()
        opened.wait(DEADLINE_S, progress)
        asked.join()
    assert node.watched == {"a", "b"}
    assert time.monotonic() - start < DEADLINE_S / 2


def read_once(node: Node) -> None:
    """Have the source read once more."""
    heard, deadline = node.follower.ask(), time.monotonic() + DEADLINE_S
    while not heard() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_wake_up_before_the_wait_is_not_lost() -> None:
    """The next pause ends at once; the one after it is a pause again."""
    opened, start = Open(), time.monotonic()
    opened.wake()
    assert opened.observer.poll(DEADLINE_S) == ()
    assert time.monotonic() - start < DEADLINE_S / 2
    assert opened.observer.poll(0.01) == ()
    opened.observer.report(FOUND)
    opened.wake()
    assert opened.observer.poll(DEADLINE_S) == (FOUND,)
    assert opened.observer.poll() == ()
