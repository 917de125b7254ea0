"""What ``watch`` says on standard error while a window is open: the first of a thing at once, then one line for it each
ten seconds for as long as it lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from probes.observer import Violation
from toolkit.cli.common import say_line
from toolkit.report.live_lines import Pending
from toolkit.session.counters import Look
from toolkit.session.record import Record
from validators.rules import layers_agree

EVERY_S = 10.0


class LiveLines:
    """Called with each violation, then :meth:`tick` again and again, and :meth:`ended` with each window."""

    def __init__(self) -> None:
        self._said_s: dict[str, float] = {}
        self._next_s = time.monotonic() + EVERY_S
        self._pending = Pending()
        self._goes_on = False
        """Whether something was reported, or counted, since the last lines."""

    def __call__(self, violation: Violation) -> None:
        """Report a subject at once, unless it was reported a moment ago; the next lines sum up."""
        self._goes_on = True
        now_s, key = time.monotonic(), violation.claim
        if now_s - self._said_s.get(key, float("-inf")) < EVERY_S:
            return
        self._said_s[key] = now_s
        show_line(f"{violation.claim}: {violation.comm} ({violation.tid}) ran on CPU {violation.cpu}, outside its set")

    def tick(self, look: Callable[[], Look]) -> None:
        """Say what goes on, when it is time. Nothing is read while nothing goes on."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        if self._goes_on and (found := look().open) is not None:
            self._goes_on = self._pending.look(found)
        lines = self._pending.lines()
        self._said_s = {key: said for key, said in self._said_s.items() if self._goes_on or now_s - said < EVERY_S}
        for line in lines:
            show_line(line)

    def ended(self, record: Record) -> None:
        """Take the rest of a window that has ended."""
        layers = [verdict for verdict in record.result.verdicts if verdict.rule == layers_agree.ID]
        self._pending.ended(record.claims, record.evidence, layers)


def show_line(text: str) -> None:
    """Print one line with the time, on standard error."""
    say_line(f"{time.strftime('%H:%M:%S')} {text}", err=True)
