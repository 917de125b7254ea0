"""State files of a followed node that are wrong: a line when that is read, not when the window ends.

What is wrong, and from when on it is no moment between two saves of the kubelet, rule ``checkpoint`` says; the verdict
of the window has it with its author.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from toolkit.model.state_files import StateReading
from toolkit.sources.live_source import SourceReading
from validators.rules import checkpoint
from validators.state_files.standing import LASTS_NS


class BrokenFiles:
    """:param report: gets one line for each thing that is wrong, when it is certain first."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._seen: list[StateReading] = []
        self._said: set[str] = set()
        self._doubts = False
        """Whether something is wrong that may be over in a moment."""

    def note(self, reading: SourceReading, at_ns: int) -> None:
        """Take a reading. :param at_ns: when it began (CLOCK_MONOTONIC)."""
        new = [replace(state, at_ns=at_ns) for state in reading.state_files]
        if not new:
            return
        same = bool(self._seen) and replace(self._seen[-1], at_ns=at_ns) == new[-1]
        # One from before the time that counts stays: what is wrong may stand since then.
        old = sum(one.at_ns < at_ns - LASTS_NS for one in self._seen)
        self._seen = [*self._seen[max(0, old - 1) :], *new]
        if same and not self._doubts:
            return
        wrong = checkpoint.wrong_now(self._seen, reading.claims)
        self._doubts = any(moments for _, moments in wrong.values())
        lines = {f"{subject}: {text}" for subject, (faults, _) in wrong.items() for text in faults}
        for line in sorted(lines - self._said):
            self._report(line)
        self._said = lines
