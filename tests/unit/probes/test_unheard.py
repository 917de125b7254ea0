"""What the observer was told and could not take in: threads that end, rings that cannot be read, moves that are too
many. Each is a doubt of its window, up to the verdicts, and of no other.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from probes.build import build
from probes.loops import Loop
from probes.observer import Observer
from probes.options import ObserveOptions
from probes.readings import Moment, Readings
from probes.ringbuf import BUSY, Rings
from probes.switches import trails, witness
from probes.switches.decoder import SwitchEdge, SwitchReading
from probes.switches.ledger import Ledger
from probes.switches.records import EVENT_MOVE, MoveEvent
from probes.switches.watch import SwitchWatch
from probes.switches.witness import Switches
from probes.window import Window
from probes.witness import Edge
from tests.unit.probes.readings import FRAME, SWITCHES, but
from tests.unit.probes.ring_memory import Kernel
from tests.unit.validators.evidence_builder import coverage
from tests.unit.validators.trust_builder import CLAIMS, healthy
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.blind_spots import EVERY_WITNESS, BlindSpot
from toolkit.model.blind_spots import Witness as Kind
from toolkit.model.claims import ClaimSet
from toolkit.model.verdict import Outcome, worst
from validators.registry import judge

DEADLINE_S = 120.0
SECOND = 1_000_000_000


@pytest.fixture
def observer() -> Observer:
    """What an observer's parts share, on programs that are not loaded: only their ring is there."""
    made = Observer(ClaimSet(claims=()), Path("/"), Ledger(Path("/"), ObserveOptions(), ()))
    made.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    return made


def window_of(observer: Observer, switches: Switches, start_ns: int, end_ns: int, counted_ns: int) -> Window:
    """Return a window that has ended and is being finished."""
    edges = [Edge(Moment(at_ns=at_ns), ()) for at_ns in (start_ns, end_ns)]
    window = Window(
        ledger=observer.ledger,
        subjects=observer.subjects,
        number=1,
        first=edges[0],
        started_at="",
        last=edges[1],
        counted_ns=counted_ns,
    )
    window.watches[switches] = switches.begin(window, Edge(Moment(at_ns=0), (SwitchEdge(),)))
    observer.closing = window
    return window


def verdict(spots: tuple[BlindSpot, ...]) -> Outcome:
    """Judge evidence that is healthy but for these spots."""
    return worst(one.outcome for one in judge(CLAIMS, healthy(coverage=coverage(blindness=spots))))


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.001)


class _Ends(BaseException):
    """As an interpreter that shuts down, or a greenlet's kill: no error of ours."""


def test_a_thread_that_ends_is_a_doubt_of_everything_from_then_on(observer: Observer) -> None:
    """Nothing is there any more that could say when: all windows that come are undecided."""

    def work(_stopped: Callable[[], bool]) -> float:
        raise _Ends("gone")

    with Loop(observer, "t", work, EVERY_WITNESS) as loop:
        loop._thread.join(DEADLINE_S)
        assert not loop._thread.is_alive()
    later = time.monotonic_ns() + 3600 * SECOND
    (spot,) = observer.blindness.within(later, later + SECOND)
    assert "a thread of the observer ended early: gone" in spot.text
    assert verdict((spot,)) is Outcome.UNDECIDED


def test_a_thread_that_meets_an_error_goes_on_and_taints_its_window(observer: Observer) -> None:
    """One error: the windows before and after it are whole."""
    before, rounds, done = time.monotonic_ns(), [0], threading.Event()

    def work(_stopped: Callable[[], bool]) -> float:
        rounds[0] += 1
        if rounds[0] == 2:
            raise OSError("no such thing")
        if rounds[0] > 3:
            done.set()
        return 0.001

    with Loop(observer, "t", work, (Kind.SWITCHES,)):
        assert done.wait(DEADLINE_S), "it goes on"
    after = time.monotonic_ns()
    (spot,) = observer.blindness.within(before, after)
    assert (spot.text, spot.witnesses) == ("the observer met an error: no such thing", (Kind.SWITCHES,))
    assert observer.blindness.within(before - SECOND, before - 1) == ()
    assert observer.blindness.within(after, after + SECOND) == ()
    assert verdict((spot,)) is Outcome.UNDECIDED


@contextmanager
def hearing(observer: Observer, ring: Kernel, wait_ms: int = 1, begun: list[int] | None = None) -> Iterator[None]:
    """Listen to a ring as the observer's thread does. :param begun: gets a number for each wait that begins."""
    rings = Rings({})
    rings._rings.append(ring.ring)
    observer.ledger._rings = rings

    def work(_stopped: Callable[[], bool]) -> float:
        if begun is not None:
            begun.append(len(begun))
        observer.ledger.poll(wait_ms)
        return 0.0

    with Loop(observer, "t", work, EVERY_WITNESS, observer.ledger.wake):
        yield


def test_a_ring_that_cannot_be_read_is_a_doubt_of_its_window_alone(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU stands still in the middle of a record: what it sent is unread when the patience is over."""
    monkeypatch.setattr(witness, "EVENTS_S", 0.05)
    ring, switches = Kernel(), Switches(observer)
    ring.send(b"unfinished", BUSY)
    now = time.monotonic_ns()
    window = window_of(observer, switches, now - SECOND, now, now)
    with hearing(observer, ring):
        switches.wait_for(window)

    (spot,) = observer.blindness.within(window.start_ns, window.end_ns)
    assert "events were still unread" in spot.text
    assert observer.blindness.within(window.end_ns, window.end_ns + SECOND) == ()
    assert verdict((spot,)) is Outcome.UNDECIDED


def test_the_patience_begins_when_the_counting_has_ended(observer: Observer) -> None:
    """Counting took ten minutes: what was heard after the window's end but before that end is not all of it.

    The deadline is not over either: what comes in time leaves no doubt.
    """
    ring, switches = Kernel(), Switches(observer)
    now = time.monotonic_ns()
    window = window_of(observer, switches, now - 601 * SECOND, now - 600 * SECOND, now)
    observer.ledger.heard_ns = now - SECOND
    busy = ring.send(b"unfinished", BUSY)
    waiting = threading.Thread(target=switches.wait_for, args=(window,))
    with hearing(observer, ring):
        waiting.start()
        until(lambda: ring.ring.held_up, "the ring was looked at")
        assert waiting.is_alive(), "it was heard after the window's end, not after its counting's"
        ring.poke(busy, struct.pack("=I", len(b"unfinished")))
        waiting.join(DEADLINE_S)

    assert not waiting.is_alive()
    assert observer.ledger.heard_ns > now
    assert observer.blindness.within(window.start_ns, window.end_ns) == ()


def test_nothing_waits_for_a_word_that_does_not_come(observer: Observer) -> None:
    """The listener began to wait for a minute before the window ended: the window ends at once, the listener too."""
    switches = Switches(observer)

    def end_a_window() -> None:
        begun = list[int]()
        with hearing(observer, Kernel(), 60_000, begun):
            until(lambda: bool(begun), "a thread listens")
            now = time.monotonic_ns()
            observer.ledger.heard_ns = now - SECOND
            switches.wait_for(window_of(observer, switches, now - SECOND, now, now))

    def end() -> None:
        begun = list[int]()
        with hearing(observer, Kernel(), 60_000, begun):
            until(lambda: bool(begun), "a thread listens")

    for work in (end_a_window, end):
        ending = threading.Thread(target=work, daemon=True)
        ending.start()
        ending.join(DEADLINE_S)
        assert not ending.is_alive(), work.__name__
    assert observer.blindness.within(0, time.monotonic_ns()) == ()


def test_moves_that_had_to_be_forgotten_leave_the_window_undecided(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than are remembered: how many is in the coverage of that window, not of the next."""
    monkeypatch.setattr(trails, "MAX_MOVES", 100)
    ledger, switches = observer.ledger, Switches(observer)
    now = time.monotonic_ns()

    def storm(count: int) -> None:
        for number in range(count):
            event = MoveEvent(EVENT_MOVE, 1, now + number, 0, now + number, 9, number, number, 0, 0, 1, 0)
            switches.event(MoveEvent.LAYOUT.pack(*(getattr(event, name) for name in MoveEvent.__slots__)))

    class Empty:
        def items(self) -> tuple[()]:
            return ()

    ledger.offenders = ledger.intruders = Empty()  # type: ignore[assignment]
    ledger.waits = ledger.culprits = Empty()  # type: ignore[assignment]
    window = window_of(observer, switches, now, now + SECOND, now)
    storm(100)
    edge = Edge(Moment(at_ns=now + SECOND), (SwitchEdge(),))
    whole = window.watch(SwitchWatch).read(edge)
    storm(7)
    torn = window.watch(SwitchWatch).read(edge)
    next_one = window_of(observer, switches, now, now + SECOND, now)
    after = next_one.watch(SwitchWatch).read(edge)

    assert [one.dropped for one in (whole, torn, after)] == [0, 7, 0]
    assert (lost(whole), lost(torn)) == (0, 7)
    assert worst(one.outcome for one in judge(CLAIMS, healthy(coverage=coverage(map_full=7)))) is Outcome.UNDECIDED


def lost(reading: SwitchReading) -> int:
    """Return what the coverage says of a window in which only this was not kept."""
    return build(Readings(FRAME, but(replace(SWITCHES, dropped=reading.dropped)))).coverage.map_full
