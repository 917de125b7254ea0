"""The thread that reads control files and counters: an error is a doubt of its window, and ends nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from probes.cgroups import file_reader
from probes.cgroups.control_files import ControlFiles
from probes.cgroups.file_reader import FileReader
from probes.cgroups.files import Files, FileWatch
from probes.loops import Loop
from probes.observer import Observer
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from probes.window import Window
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import ClaimSet

DEADLINE_S = 120.0
SECOND = 1_000_000_000


class _OpenWindow:
    """A window that takes every reading."""

    closed = False


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    """What an observer's parts share, with an open window and no claim; the files are due in every round."""
    monkeypatch.setattr(file_reader, "PERIOD_S", 0.0)
    monkeypatch.setattr(file_reader, "LOOK_S", 0.001)
    made = Observer(ClaimSet(claims=()), Path("/"), Ledger(Path("/"), ObserveOptions(), ()))
    made.hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/sys/fs/cgroup"))
    made.window = cast("Window", _OpenWindow())
    return made


class Reading:
    """Reads nothing, and fails at some of its turns."""

    def __init__(self, errors: dict[int, BaseException]) -> None:
        self.errors, self.turns = errors, 0
        self.done = threading.Event()

    def read(self, *_: object, **_how: object) -> None:
        self.turns += 1
        if self.turns in self.errors:
            raise self.errors[self.turns]
        if self.turns > max(self.errors, default=0) + 1:
            self.done.set()


def reads(observer: Observer, reading: Reading) -> Loop:
    """Return the loop as :meth:`Files.running` makes it."""
    return Loop(observer, "t", reader_of(observer, reading).round, FileReader.WITNESSES)


def reader_of(observer: Observer, reading: Reading) -> FileReader:
    """Return what reads all files by it."""
    return FileReader(observer, lambda _window: cast("ControlFiles", reading), period_s=file_reader.PERIOD_S)


def test_an_error_is_a_doubt_of_its_window_and_is_done_again(observer: Observer) -> None:
    """A file that cannot be read: the windows before and after it are whole."""
    before, reading = time.monotonic_ns(), Reading({2: OSError("no such device")})
    with reads(observer, reading):
        assert reading.done.wait(DEADLINE_S), "it goes on"
    after = time.monotonic_ns()

    (spot,) = observer.blindness.within(before, after)
    assert spot.text == "the observer met an error: no such device"
    assert spot.witnesses == (Witness.FILES, Witness.BANDWIDTH)
    assert observer.blindness.within(before - SECOND, before - 1) == ()
    assert observer.blindness.within(after, after + SECOND) == ()


def test_a_thread_that_ended_is_a_doubt_of_every_window_that_comes(observer: Observer) -> None:
    """Files at both ends of a window do not show what was changed in between and put back."""

    class Ends(BaseException):
        """As an interpreter that shuts down: no error of ours."""

    with reads(observer, Reading({1: Ends("gone")})) as loop:
        loop._thread.join(DEADLINE_S)
        assert not loop._thread.is_alive()
    later = time.monotonic_ns() + 3600 * SECOND

    (spot,) = observer.blindness.within(later, later + SECOND)
    assert (spot.text, spot.witnesses) == (
        "a thread of the observer ended early: gone",
        (Witness.FILES, Witness.BANDWIDTH),
    )


def test_what_could_not_be_read_is_read_in_the_next_round(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a period later; what was read is due a period later."""
    monkeypatch.setattr(file_reader, "PERIOD_S", 1000.0)
    reading = Reading({1: OSError("once")})
    reader = reader_of(observer, reading)
    reader._sweep.last_s = -1000.0

    with pytest.raises(OSError, match="once"):
        reader.round(lambda: False)
    reader.round(lambda: False)
    reader.round(lambda: False)

    assert reading.turns == 2


def test_the_witness_runs_this_loop(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a window are read by it, and nothing else has a thread for that."""
    asked = threading.Event()

    class Watching(_OpenWindow):
        def watch(self, kind: type[Any]) -> Any:
            assert kind is FileWatch
            asked.set()
            return self

        @property
        def files(self) -> Any:
            return self

        def read(self, cgroups: Iterator[str], *, rare: bool, sets_only: bool) -> None:
            assert list(cgroups) == []

    observer.window = cast("Window", Watching())
    running = Files(observer).running()
    assert isinstance(running, Loop)
    with running:
        assert asked.wait(DEADLINE_S)
    assert observer.blindness.within(0, time.monotonic_ns()) == ()


def test_a_pause_ends_when_it_is_woken(observer: Observer) -> None:
    """The next one is a pause again, and the end of the block does not wait for it."""
    rounds, again = [0], threading.Event()

    def work(_stopped: Any) -> float:
        rounds[0] += 1
        if rounds[0] > 1:
            again.set()
        return 10 * DEADLINE_S

    start = time.monotonic()
    with Loop(observer, "t", work, FileReader.WITNESSES) as loop:
        loop.wake()
        assert again.wait(DEADLINE_S)
    assert rounds == [2]
    assert time.monotonic() - start < DEADLINE_S
