"""Signals are noted; a second wish interrupts; a hangup never does, and stays ignored where it was."""

from __future__ import annotations

import os
import signal

import pytest

from toolkit.apply.unwind import signals_wait
from toolkit.session.engine.stopping import InsistedError, StoppedError, go_on, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted(number: int) -> None:
    """It ends nothing by itself, and everything is as before afterwards."""
    before = signal.getsignal(number)
    with stop_on_signals() as stopped:
        go_on(stopped)
        os.kill(os.getpid(), number)
        assert stopped == [number]
        with pytest.raises(StoppedError) as caught:
            go_on(stopped)
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) is before


def test_a_user_who_asks_twice_means_it() -> None:
    """The same signal again interrupts; a hangup and a termination that come together do not."""
    with stop_on_signals() as stopped:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert stopped == [signal.SIGHUP, signal.SIGTERM, signal.SIGHUP]
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGTERM)
        assert caught.value.number == signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_user_who_insists_waits_for_what_is_being_undone(number: int) -> None:
    """However often: the second wish interrupts when the host is as it was, and not in the middle."""
    undone = False

    def undo() -> None:
        nonlocal undone
        with signals_wait():
            for _ in range(3):
                os.kill(os.getpid(), number)
            undone = True

    with stop_on_signals() as stopped:
        undo()
        assert stopped == [number]
        undone = False
        with pytest.raises(InsistedError) as caught:
            undo()
    assert undone
    assert caught.value.number == number


def test_what_is_ignored_stays_so_while_something_is_undone() -> None:
    """nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_wait():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_ignored_hangup_stays_ignored() -> None:
    """nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stopped == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_it_says() -> None:
    """Ctrl-C is what it was called before."""
    assert str(StoppedError(signal.SIGINT)) == "interrupted"
    assert str(StoppedError(signal.SIGHUP, "; not run: b")) == "stopped by SIGHUP; not run: b"
