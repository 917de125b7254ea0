"""How a scan reads threads: all threads read from ``/proc``, or the kernel's list of tasks and a sample from there.

``/proc`` as long as that is cheap enough for the pace that is asked for, or cheaper than a pass over all tasks of a
machine on which few are a claim's. What is known for that stays from window to window.
"""

from __future__ import annotations

from collections.abc import Callable

from probes.masks.iterator import TaskIterator
from probes.masks.sample import Sample
from probes.masks.strays import Strays

THREAD_NS = 20_000
"""CPU time of a thread that is read from ``/proc``."""
PAUSES, LISTED_PAUSES = 139, 499
"""CPU times of a scan that the scanner rests after it, by its method. Where it reads ``/proc`` alone it takes at most
one part in 140 of a CPU: 70 threads are read as often as the options ask for, 10,000 every 28 s. Else one part in 500:
10,000 every 6 to 12 s."""
AWAKE_NS = 250_000_000
"""The longest rest where a warm CPU reads all threads as often as the options ask for. After a third of a second of
sleep a virtual machine may need twenty times the CPU time for the same reading, because its host has given its caches
away. A rest by that time would be of seconds, and the next reading as dear: the pace would keep the CPU cold that makes
it slow."""


class ScanMethod:
    """How many threads there are, and what a pass costs; as long as the observer.

    :param tasks: ``None``: every thread is read from ``/proc``.
    :param wanted_pause_ns: between two scans, if they are cheap enough.
    """

    def __init__(
        self, strays: Strays, sample: Sample, tasks: TaskIterator | None = None, wanted_pause_ns: int = 0
    ) -> None:
        self.strays, self.sample = strays, sample
        self._affordable_ns = wanted_pause_ns // PAUSES
        self._tasks = tasks if tasks is not None and tasks.usable else None
        self.threads: int | None = None
        """Of all claims, in the last scan; ``None``: not known yet."""
        self.pass_ns = 0
        """CPU time of the last pass; 0: it is to be found out."""
        self.once_ns = 0
        """CPU time of the last scan for what is done once in a window: the rows of all threads are made."""
        self.pauses = PAUSES
        """CPU times of the last scan to rest after it."""

    def begin(self) -> None:
        """Begin with a window."""
        self.pass_ns = 0  # there may be fewer tasks now
        if self._tasks is not None:
            self._tasks.known.turn()

    def pause_ns(self, took_ns: int) -> int:
        """Return how long the scanner rests after a scan that took this CPU time, without what the options ask for."""
        rest_ns = self.pauses * took_ns
        few = self.threads is not None and self.threads * THREAD_NS <= self._affordable_ns
        return min(rest_ns, AWAKE_NS) if few and self.pauses == PAUSES else rest_ns

    def next(self, count: Callable[[], int]) -> TaskIterator | None:
        """Return what lists the threads in the scan that begins; ``None``: they are read from ``/proc``.

        :param count: counts the claims' threads, for the first scan: a pass over a large machine for a few of them
            would be followed by a long rest.
        """
        if self.threads is None:
            self.threads = count()
        dear = self.threads * THREAD_NS > max(self._affordable_ns, self.pass_ns)
        tasks, self.once_ns = self._tasks if dear else None, 0
        self.pauses = PAUSES if tasks is None else LISTED_PAUSES
        return tasks
