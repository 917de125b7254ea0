"""Threads of an observer that do something again and again.

A thread that meets an error notes what is missing by it and goes on; none ends the run, for what the kernel has counted
is worth reporting. Whether it kept its pace is seen by the clocks of the window.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from probes.observer import Observer
from probes.waits import Waits
from toolkit.model.blind_spots import Witness

AGAIN_S = 0.1
"""Pause after an error."""


class Loop:
    """Does the work from ``__enter__`` to ``__exit__``, each time after the pause (s) that it asks for.

    :param work: given a function that says whether it is to stop.
    :param witnesses: whose evidence is incomplete where the work meets an error.
    :param end_wait: ends a wait of the work itself, so that stopping does not take as long.
    """

    def __init__(
        self,
        observer: Observer,
        name: str,
        work: Callable[[Callable[[], bool]], float],
        witnesses: tuple[Witness, ...],
        end_wait: Callable[[], None] | None = None,
    ) -> None:
        self._observer, self._work, self._witnesses, self._end_wait = observer, work, witnesses, end_wait
        self._stop, self._bell = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Loop:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop and wait."""
        self._stop.set()
        self.wake()
        if self._end_wait is not None:
            self._end_wait()
        self._thread.join()

    def wake(self) -> None:
        """End the pause, or the next one; may be called by any thread."""
        self._bell.set()

    def _run(self) -> None:
        observer, witnesses = self._observer, self._witnesses
        last_ns = time.monotonic_ns()
        waits = Waits(observer.root / "proc/thread-self")
        pause_s = 0.0
        try:
            while True:
                if pause_s and self._bell.wait(pause_s):
                    self._bell.clear()
                if self._stop.is_set():
                    break
                try:
                    pause_s = self._work(self._stop.is_set)
                except Exception as error:
                    text = f"the observer met an error: {error or type(error).__name__}"
                    observer.blind(text, *witnesses, start_ns=last_ns, end_ns=time.monotonic_ns())
                    pause_s = AGAIN_S
                now_ns = time.monotonic_ns()
                # What it looked at meanwhile has its own clock, which leaves it in doubt: this says why.
                if late := waits.long():
                    observer.blind(late, start_ns=last_ns, end_ns=now_ns)
                last_ns = now_ns
        except BaseException as error:
            observer.blind(f"a thread of the observer ended early: {error or type(error).__name__}", *witnesses)
