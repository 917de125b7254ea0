"""Signals are noted; a second wish interrupts; a hangup never does, and stays ignored where it was."""

from __future__ import annotations

import os
import signal

import pytest

from toolkit.session.stopping import StoppedError, go_on, stop_on_signals


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


def test_who_asks_twice_means_it() -> None:
    """The same signal again interrupts; a hangup and a termination that come together do not."""
    with stop_on_signals() as stopped:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert stopped == [signal.SIGHUP, signal.SIGTERM, signal.SIGHUP]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


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
