"""A planted task that visits every CPU, and how far it has come: by the kernel's count, not by a rule under test.

Its worker writes once a round (``toolkit/apply/load/work.py``), and the kernel counts what a process writes.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.host import procfs
from toolkit.host.task_writes import writes

ROUNDS = 2
"""A round that ends in the window may have begun before it; the second is whole."""
SHOW_S = 15.0
"""How long at most until it has been on every CPU: beside others on each of them it takes its turns."""


class Escaper:
    """Use :meth:`begin`, then :meth:`shown` again and again. :param pid: its main process."""

    def __init__(self, pid: int, root: Path) -> None:
        self.pid = pid
        self._root = root
        self._base: int | None = None
        self._made = 0

    def rounds(self) -> int | None:
        """Return how many rounds its worker has made; ``None`` where that cannot be read."""
        # The kernel's own list: psutil would read every process of a machine that is being measured.
        workers = procfs.children(self.pid, self._root) or ()
        counts = [count for worker in workers if (count := writes(worker, self._root)) is not None]
        return sum(counts) if counts else None

    def begin(self) -> bool:
        """Count from now on; say whether the kernel counts: it cannot be waited for where it does not."""
        self._base = self.rounds()
        return self._base is not None

    def shown(self) -> bool:
        """Return whether it has been on every CPU since :meth:`begin`; ``True`` where the kernel does not count."""
        if self._base is not None and (now := self.rounds()) is not None:
            self._made = now - self._base
        return not self.hidden

    @property
    def hidden(self) -> str:
        """What was missing when :meth:`shown` was asked the last time; empty if nothing was."""
        if self._base is None or self._made >= ROUNDS:
            return ""
        return f"the planted task made {self._made} of {ROUNDS} rounds over all CPUs in {SHOW_S:.0f} s"
