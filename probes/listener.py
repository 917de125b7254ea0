"""The observer's two threads: one hears the programs and keeps the small clocks, one walks /proc."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from probes.lifecycle import look_for_cpus

if TYPE_CHECKING:
    from probes.observer import Observer
    from probes.window import Window

POLL_MS = 10
HOUSEKEEPING_S = 2.0
HOTPLUG_S = 0.1


class Listener:
    """Runs both threads from ``__enter__`` to ``__exit__``; an error in one is raised at the end."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guard, args=(self._hear,), name="pinproof-events", daemon=True)]
        if observer.options.threads:
            self._threads.append(
                threading.Thread(target=self._guard, args=(self._scan,), name="pinproof-proc", daemon=True)
            )

    def __enter__(self) -> Listener:
        """Start."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop and wait for both."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._errors and exc[0] is None:
            raise self._errors[0]

    def _guard(self, work: object) -> None:
        try:
            assert callable(work)
            work()
        except BaseException as error:  # handed to the thread that owns the observer
            self._errors.append(error)
            self._observer.blind(f"a thread of the observer ended early: {error}")

    def _hear(self) -> None:
        observer = self._observer
        next_bin = next_hotplug = next_housekeeping = time.monotonic()
        while not self._stop.is_set():
            observer.ledger.poll(POLL_MS)
            observer.settle()
            now = time.monotonic()
            if now >= next_bin:
                next_bin = now + observer.options.bin_ms / 1000
                with observer.lock:
                    if observer.window is not None:
                        observer.window.add_bins()
            if now >= next_hotplug:
                next_hotplug = now + HOTPLUG_S
                look_for_cpus(observer)
            if now >= next_housekeeping:
                next_housekeeping = now + HOUSEKEEPING_S
                observer.housekeeping()

    def _over(self, window: Window) -> bool:
        return self._stop.is_set() or window.closed

    def _scan(self) -> None:
        observer = self._observer
        while not self._stop.is_set():
            window = observer.window
            if window is not None and not window.closed:
                with observer.lock:
                    subjects = list(observer.subjects.values())
                stop = partial(self._over, window)
                for subject in subjects:
                    window.masks.scan(subject, window.start_ns, stop)
                window.masks.scans += not stop()
            self._stop.wait(observer.options.scan_ms / 1000)
