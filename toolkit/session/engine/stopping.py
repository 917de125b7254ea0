"""Signals that ask a verb to stop: the window that is open closes, and what was seen is judged, printed and saved.

One place for every verb with windows. A signal is noted, never acted on: what waits is woken, and looks at the note.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from toolkit.errors import PinproofError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(PinproofError):
    """A signal came before what was asked for was done."""

    def __init__(self, number: int, what: str = "") -> None:
        """Name the signal and what was not done. :param what: follows the signal's name."""
        self.exit_code = 128 + number
        name = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
        super().__init__(f"{name}{what}")


def go_on(stopped: Sequence[int]) -> None:
    """Return if nothing asked to stop.

    :raises StoppedError: something did.
    """
    if stopped:
        raise StoppedError(stopped[0])


class InsistedError(KeyboardInterrupt):
    """The same signal came again. :ivar number: it."""

    def __init__(self, number: int) -> None:
        self.number = number


class Signals(list[int]):
    """The signals that came, in their order.

    A pause of the main thread (PEP 475) goes on when a handler returns: what pauses there says how it is woken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wake: Callable[[], None] = lambda: None
        """Called by the handler: takes no lock that the main thread may have."""


@contextmanager
def stop_on_signals() -> Iterator[Signals]:
    """Turn SIGINT, SIGTERM and SIGHUP into entries of the list.

    What sends SIGINT or SIGTERM a second time means it: that interrupts. SIGHUP never does: a terminal that goes away
    is sent by the kernel and by the shell, and systemd sends SIGTERM and SIGHUP together. Where SIGHUP is ignored
    (nohup), it stays so.
    """
    stopped = Signals()

    def note(number: int, _frame: FrameType | None) -> None:
        if number in stopped and number != signal.SIGHUP:
            raise InsistedError(number)
        stopped.append(number)
        stopped.wake()

    taken = [one for one in SIGNALS if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in taken}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
