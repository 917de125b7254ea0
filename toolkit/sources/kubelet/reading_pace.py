"""How often a kubelet's node is read where nothing shows that it has changed: as what a reading costs allows.

Source: docs/facts.md K-kubelet-2 (the reconcile period).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from toolkit.sources.live_source import EVERY_S, SourceReading

SHARE, EVERY_MAX_S = 0.0025, 10.0
"""Of a CPU: a twelfth of what a watch of 500 containers may cost in all. And the longest time between two readings
without a sign: a kubelet's usual reconcile period. What a node writes has a sign: state files, CPUs of containers,
cgroups that come and go.
"""
RETRY_MAX_S = 4.0
"""The longest time after a reading that was not answered. Where that was known at once, the two beside it are still
less than 15 s apart, from which on what changed in a window is not known.
"""


class ReadingPace:
    """Of one source. :param asked_s: seconds from one reading to the next, as the user said."""

    def __init__(self, asked_s: float) -> None:
        self._asked_s = asked_s
        self.cost_s, self.answered = 0.0, True
        """CPU time of the last reading, and whether the runtime answered it."""

    def take(self, read: Callable[[], SourceReading]) -> SourceReading:
        """Read, and note what it cost."""
        began_s, self.answered = time.thread_time(), False
        try:
            reading = read()
            self.answered = reading.complete
            return reading
        finally:
            self.cost_s = time.thread_time() - began_s

    @property
    def every_s(self) -> float:
        """Seconds until the next reading: as was asked for, and a node of hundreds of containers, where nothing was
        asked for, more seldom: reading takes :data:`SHARE` of a CPU.
        """
        if self._asked_s != EVERY_S:
            return self._asked_s
        return min(max(EVERY_S, self.cost_s / SHARE), EVERY_MAX_S if self.answered else RETRY_MAX_S)
