"""What ``watch`` says on standard error while a window is open: the first of a thing at once, then one line for it each
ten seconds (``--lines-every``) for as long as it lasts.
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
"""Unless somebody says otherwise."""


class LiveLines:
    """Called with each violation, then :meth:`tick` again and again, and :meth:`ended` with each window.

    :param every_s: seconds from one line about a thing to the next.
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._said_s: dict[str, float] = {}
        self._next_s = time.monotonic() + every_s
        self._pending = Pending()
        self._goes_on = False
        """Whether something was reported, or counted, since the last lines."""

    def __call__(self, violation: Violation) -> None:
        """Report a subject at once, unless it was reported a moment ago; the next lines sum up."""
        self._goes_on = True
        now_s, key = time.monotonic(), violation.claim
        if now_s - self._said_s.get(key, float("-inf")) < self._every_s:
            return
        self._said_s[key] = now_s
        show_line(f"{violation.claim}: {violation.comm} ({violation.tid}) ran on CPU {violation.cpu}, outside its set")

    def tick(self, look: Callable[[], Look]) -> None:
        """Say what goes on, when it is time. Nothing is read while nothing goes on."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        if self._goes_on and (found := look().open) is not None:
            self._goes_on = self._pending.look(found)
        lines = self._pending.lines()
        lately_s = now_s - self._every_s
        self._said_s = {key: said_s for key, said_s in self._said_s.items() if self._goes_on or said_s > lately_s}
        for line in lines:
            show_line(line)

    def ended(self, record: Record) -> None:
        """Take the rest of a window that has ended."""
        layers = [verdict for verdict in record.result.verdicts if verdict.rule == layers_agree.ID]
        self._pending.ended(record.claims, record.evidence, layers)


def show_line(text: str) -> None:
    """Print one line with the time, on standard error."""
    say_line(f"{time.strftime('%H:%M:%S')} {text}", err=True)
