"""How long a thread of the observer waited for a CPU, and for which: why it did not look in time.

Source: Documentation/scheduler/sched-stats.rst (``/proc/<pid>/task/<tid>/schedstat``, the second number);
proc(5), ``/proc/<pid>/stat``, field 39.
"""

from __future__ import annotations

from pathlib import Path

LONG_NS = 500_000_000
"""A shorter wait is within what every witness allows for (``WAIT_NS`` of the thread masks)."""
_PROCESSOR = 36
"""Its place after the command's name and its parenthesis; field 39 of all."""


class Waits:
    """Of the thread that calls :meth:`long`. :param folder: its own in ``/proc``."""

    def __init__(self, folder: Path) -> None:
        self._schedstat, self._stat = folder / "schedstat", folder / "stat"
        self._waited_ns = self._read()

    def long(self) -> str:
        """Say for which CPU the thread waited since the last call; empty: not long, or the kernel does not count."""
        before_ns, now_ns = self._waited_ns, self._read()
        self._waited_ns = now_ns
        if before_ns is None or now_ns is None or now_ns - before_ns <= LONG_NS:
            return ""
        return (
            f"the observer waited {(now_ns - before_ns) / 1e9:.2f} s for CPU {self._cpu()}, where other tasks ran "
            "(watch --nice and --rt give it a priority of its own)"
        )

    def _read(self) -> int | None:
        try:
            return int(self._schedstat.read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def _cpu(self) -> str:
        """Return the CPU that it got: the kernel leaves a task that waits where it is, as long as that is no idler."""
        try:
            return self._stat.read_text().rpartition(")")[2].split()[_PROCESSOR]
        except (OSError, IndexError):
            return "(not known)"
