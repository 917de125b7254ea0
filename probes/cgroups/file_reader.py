"""What a thread reads: control files and counters once a second, and whether a claim's cgroup is the known one.

A cgroup's counters are read so that something is known of it when it is deleted; the longer ago, the more of its CPU
time only the ledger knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from probes.cgroups.bandwidth import lineage
from probes.windows import Windows
from probes.witness import OpenWindow
from toolkit.model.blind_spots import Witness

PERIOD_S = 1.0
LOOK_S = 0.1
COUNTERS_A_ROUND = 100
"""Claims whose counters are read in one round, with all levels above: dearer than control files, and less urgent. So
is the comparison of a cgroup's id where the kernel side follows the name."""


class FileReader:
    """The work of a ``Loop``: one that meets an error is a doubt of the windows that it falls in, and is done again.

    :param read_files: reads the control files of cgroups in a window.
    :param period_s: seconds from one reading to the next, to ``LOOK_S``.
    """

    WITNESSES = (Witness.FILES, Witness.BANDWIDTH)
    """What is missing where it fails; a cgroup's identity is compared with what was known before, however late."""

    def __init__(
        self, windows: Windows, read_files: Callable[[OpenWindow, Iterable[str]], None], period_s: float = PERIOD_S
    ) -> None:
        self._windows, self._read_files, self._period_s = windows, read_files, period_s
        self._turn = 0
        self._due = time.monotonic() + period_s

    def round(self, stopped: Callable[[], bool]) -> float:
        """Look who is there; read everything where that is due; return the pause (s) until the next round."""
        del stopped
        with self._windows.lock:
            self._windows.look()
        now = time.monotonic()
        if now >= self._due:
            self.read()
            # Not before it: what could not be read is read again in the next round, not a period later.
            self._due = now + self._period_s
        return LOOK_S

    def read(self) -> None:
        """Read everything once; the observer's lock is held for one claim at a time."""
        windows = self._windows
        window = windows.window
        if window is None or window.closed:
            return
        with windows.lock:
            windows.verify_pods()
            subjects = list(windows.subjects.values())
        cgroups = dict.fromkeys(level for subject in subjects for level in lineage(subject.claim.cgroup))
        self._read_files(window, cgroups)
        first, count = self._turn, len(subjects)
        self._turn = (first + COUNTERS_A_ROUND) % max(1, count)
        for index, subject in enumerate(subjects):
            with windows.lock:
                if window.closed or windows.subjects.get(subject.name) is not subject:
                    continue
                in_turn = (index - first) % count < COUNTERS_A_ROUND
                if in_turn or not subject.reported:
                    windows.verify(subject)
                if in_turn and not subject.gone:
                    window.cgroup_changed(subject)
