"""The observer's two threads: one hears the programs and keeps the small clocks, one walks /proc.

A thread that meets an error notes what is missing by it and goes on; none ends the run, for what the kernel has counted
is worth telling. Whether it kept its pace is seen by the clocks of the window.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from functools import partial

from probes.lifecycle import look_for_cpus
from probes.window import Window
from probes.windows import Windows
from toolkit.model.blind_spots import EVERY_WITNESS, Witness

POLL_MS = 10
HOUSEKEEPING_S = 2.0
HOTPLUG_S = 0.1
AGAIN_S = 0.1
"""Pause after an error."""


class Listener:
    """Runs both threads from ``__enter__`` to ``__exit__``."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._stop = threading.Event()
        self._next_bin = self._next_hotplug = self._next_housekeeping = time.monotonic()
        hears = (self._hear, "pinproof-events", EVERY_WITNESS)
        scans = (self._scan, "pinproof-proc", (Witness.MASKS,))
        self._threads = [
            threading.Thread(target=self._guard, args=(work, witnesses), name=name, daemon=True)
            for work, name, witnesses in ((hears, scans) if windows.options.threads else (hears,))
        ]

    def __enter__(self) -> Listener:
        """Start."""
        # A full collection stops all our threads: 15 ms of CPU time, on a loaded host half a second. What is there
        # by now stays, so later collections need not look at it.
        gc.collect()
        gc.freeze()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop and wait for both."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        gc.unfreeze()

    def _guard(self, work: Callable[[], float], witnesses: tuple[Witness, ...]) -> None:
        """Do the work again and again, each time after the pause that it asks for."""
        last_ns = time.monotonic_ns()
        pause_s = 0.0
        try:
            while not self._stop.wait(pause_s):
                try:
                    pause_s = work()
                except Exception as error:
                    text = f"the observer met an error: {error or type(error).__name__}"
                    now_ns = time.monotonic_ns()
                    self._windows.blind(text, *witnesses, start_ns=last_ns, end_ns=now_ns)
                    pause_s = AGAIN_S
                last_ns = time.monotonic_ns()
        except BaseException as error:
            self._windows.blind(f"a thread of the observer ended early: {error or type(error).__name__}", *witnesses)

    def _hear(self) -> float:
        windows = self._windows
        windows.ledger.poll(POLL_MS)
        windows.settle()
        now = time.monotonic()
        if now >= self._next_bin:
            self._next_bin = now + windows.options.bin_ms / 1000
            with windows.lock:
                if windows.window is not None:
                    windows.window.add_bins()
        if now >= self._next_hotplug:
            self._next_hotplug = now + HOTPLUG_S
            look_for_cpus(windows)
        if now >= self._next_housekeeping:
            self._next_housekeeping = now + HOUSEKEEPING_S
            windows.housekeeping()
        return 0.0

    def _over(self, window: Window) -> bool:
        return self._stop.is_set() or window.closed

    def _scan(self) -> float:
        window = self._windows.window
        if window is not None and not window.closed:
            # Not under the lock: whoever holds it while a window closes must not make a gap.
            subjects = tuple(self._windows.subjects.values())
            window.masks.scan_all(subjects, partial(self._over, window))
        return self._windows.options.scan_ms / 1000
