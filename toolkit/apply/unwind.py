"""Signals that end a program would leave a sandbox standing, or half of it: let them unwind it, and wait for that."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def signals_unwind() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, where nothing handles them yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Let signals that end the program do so after the block: what it undoes must not stay half undone.

    For blocks that end soon by themselves. Signals that are ignored stay so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # None is a handler that Python did not set, and cannot set again.
    taken = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in taken:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)
        for again in dict.fromkeys(came):
            signal.raise_signal(again)
