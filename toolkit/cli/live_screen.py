"""``watch --live``: the terminal behind the live view. What is printed meanwhile is shown in it, and printed after it.

Keys are read where standard input is the terminal, too; the view is drawn on standard error, so that standard output
stays what it is.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

import click

from toolkit.errors import HostUnsupportedError
from toolkit.session.windows.counters import SessionState

if TYPE_CHECKING:
    from toolkit.report.live_board import Board

EVERY_S = 0.5
LOOKS = 50
"""So many times as long as a look has taken there is none: on a node of hundreds of containers one is dear."""
KEPT = 2_000
"""Lines that were printed meanwhile; of more the last are printed at the end."""
_ARROWS = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}


def require_live() -> bool:
    """End where there can be no live view, before anything is begun; else return that there can.

    :raises click.UsageError: standard error is no terminal. :raises HostUnsupportedError: rich is not installed.
    """
    if not sys.stderr.isatty():
        raise click.UsageError(
            "--live needs a terminal, and standard error is none (without it there is a line for each event)"
        )
    try:
        import rich  # noqa: F401
    except ImportError:
        raise HostUnsupportedError("--live needs rich: pip install 'pinproof[live]'") from None
    return True


class _Meanwhile(io.TextIOBase):
    """Takes the place of a stream while the view has its terminal: the lines that were printed."""

    def __init__(self, lines: deque[str]) -> None:
        self._lines, self._rest = lines, ""

    def write(self, text: str) -> int:
        """Take a text; a line is one once it is ended."""
        *whole, self._rest = (self._rest + text).split("\n")
        self._lines.extend(whole)
        return len(text)

    def isatty(self) -> bool:
        """Return that it is none: nothing draws on it."""
        return False


class Screen:
    """The view while it is open: call :meth:`tick` again and again."""

    def __init__(self, terminal: TextIO, keys: int | None, said: deque[str]) -> None:
        # Not at the top: a watch without a view needs no rich.
        from rich.console import Console
        from rich.live import Live

        from toolkit.report.live_board import Looks
        from toolkit.report.live_view import Choice

        self._console = Console(file=terminal, force_terminal=True)
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._keys, self._said = keys, said
        self._looks, self.choice = Looks(), Choice()
        self._board: Board | None = None
        self._look_s = self._draw_s = 0.0

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._live.stop()

    def tick(self, read_state: Callable[[], SessionState]) -> None:
        """Obey keys, look at the open window if it is time, and draw."""
        now_s, pressed = time.monotonic(), self._pressed()
        if not self.choice.paused and now_s >= self._look_s:
            began_s = time.thread_time()
            self._board = self._looks.look(read_state()) or self._board
            self._look_s = now_s + max(EVERY_S, LOOKS * (time.thread_time() - began_s))
        if pressed or now_s >= self._draw_s:
            self._draw_s = now_s + EVERY_S
            self._draw()

    def _draw(self) -> None:
        from toolkit.report.live_view import drawn

        with suppress(OSError):
            events = list(self._said)[-20:]
            screen = drawn(self._board, events, self.choice, self._console.width, self._console.height)
            self._live.update(screen, refresh=True)

    def _pressed(self) -> bool:
        """Take the keys that were pressed; ``q`` ends the watch as an interrupt does."""
        if self._keys is None or not select.select([self._keys], [], [], 0)[0]:
            return False
        text = os.read(self._keys, 64).decode("utf-8", "replace")
        for key in [_ARROWS[text]] if text in _ARROWS else text:
            if key == "q":
                os.kill(os.getpid(), signal.SIGINT)
            self.choice = self.choice.after(key)
        return bool(text)


@contextmanager
def live_screen(asked: bool = True) -> Iterator[Screen | None]:
    """Open the view until the block ends; then what was printed meanwhile is printed. ``None``: it is not asked for."""
    if not asked:
        yield None
        return
    terminal, output = sys.stderr, sys.stdout
    errors, printed = deque[str](maxlen=KEPT), deque[str](maxlen=KEPT)
    with _unbuffered_keys() as keys:
        try:
            with Screen(terminal, keys, errors) as screen:
                sys.stderr = _Meanwhile(errors)
                if output.isatty():
                    sys.stdout = _Meanwhile(printed)
                yield screen
        finally:
            sys.stderr, sys.stdout = terminal, output
            for lines, err in ((printed, False), (errors, True)):
                for line in lines:
                    with suppress(OSError):
                        click.echo(line, err=err)


@contextmanager
def _unbuffered_keys() -> Iterator[int | None]:
    """Yield the descriptor of the keyboard, whose keys come one by one until the block ends; none: there is none."""
    try:
        keys = sys.stdin.fileno()
        before = termios.tcgetattr(keys)
    except (OSError, ValueError, termios.error):
        yield None
        return
    tty.setcbreak(keys)
    try:
        yield keys
    finally:
        with suppress(termios.error):
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
