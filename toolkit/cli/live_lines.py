"""What ``watch`` says on standard error while a window is open: the first of a thing at once, then one line for it each
ten seconds (``--lines-every``) for as long as it lasts. With ``--json`` each is a document on standard output, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from probes.observer import Violation
from toolkit.cli.common import print_json_line, say_line
from toolkit.cli.ending import Output
from toolkit.report.live_lines import Pending
from toolkit.session.engine.record import Record
from toolkit.session.windows.counters import SessionState
from toolkit.session.windows.open_faults import OpenFaults, of_node
from validators.rules import exclusive_cpus

EVERY_S = 10.0
"""Unless something says otherwise."""
LOOKS = 1000
"""So many times as long as a look at the open window has kept a CPU busy there is none: a thousandth of it. On a node
of hundreds of containers windows end before that, and say more."""
HELD_NS = 10_000_000_000
"""How long the node's next reading is awaited: longer than the longest pause between two readings."""


EVENT = "pinproof.event/1"
"""The schema of a line in JSON: ``at`` (UTC), ``text``, and of a task outside its CPUs ``claim``, ``comm``, ``tid``,
``cpu``."""


class Say(Protocol):
    """What prints one line. :param facts: what its text is made of, where something may want it apart."""

    def __call__(self, text: str, **facts: str | int) -> None:
        """Print it."""


def show_line(text: str, **facts: str | int) -> None:
    """Print one line with the time, on standard error."""
    del facts
    say_line(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def events_on(output: Output) -> Say:
    """Return what prints a line as :func:`show_line` does, and on standard output as a JSON document of one line."""

    def say(text: str, **facts: str | int) -> None:
        show_line(text)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        output.show(lambda: print_json_line({"schema": EVENT, "at": at, "text": text, **facts}))

    return say


class LiveLines:
    """Called with each violation, then :meth:`tick` again and again, and :meth:`ended` with each window.

    :param every_s: seconds from one line about a thing to the next.
    :param knows: as :meth:`toolkit.session.following.follower.Follower.knows`, where claims are followed.
    :param say: prints a line.
    """

    def __init__(
        self,
        every_s: float = EVERY_S,
        knows: Callable[[str, int, int], bool | None] | None = None,
        say: Say = show_line,
    ) -> None:
        self._every_s, self._knows, self._say = every_s, knows, say
        self._held: dict[tuple[str, int], tuple[int, Violation]] = {}
        """By claim and CPU, with when it was heard: the claims that are followed may have changed meanwhile."""
        self._said_s: dict[str, float] = {}
        self._next_s = time.monotonic() + every_s
        self._pending, self._faults = Pending(), OpenFaults()
        self._look_s = self._next_s
        """When the open window may be looked at again."""
        self._goes_on = False
        """Whether something was reported, or counted, since the last lines."""

    def __call__(self, violation: Violation) -> None:
        """Report a subject at once, unless it was reported a moment ago; the next lines sum up."""
        if self._knows is not None:
            self._held.setdefault((violation.claim, violation.cpu), (time.monotonic_ns(), violation))
        else:
            self._report(violation)

    def _report_held(self) -> None:
        """Report held violations, except where the node's next reading gives the CPU to the claim."""
        assert self._knows is not None
        for key, (at_ns, violation) in list(self._held.items()):
            its_own = self._knows(violation.claim, violation.cpu, at_ns)
            if its_own is None and time.monotonic_ns() - at_ns < HELD_NS:
                continue
            del self._held[key]
            if not its_own:
                self._report(violation)

    def _report(self, violation: Violation) -> None:
        self._goes_on = True
        now_s, key = time.monotonic(), violation.claim
        if now_s - self._said_s.get(key, float("-inf")) < self._every_s:
            return
        self._said_s[key] = now_s
        self._say(
            f"{violation.claim}: {violation.comm} ({violation.tid}) ran on CPU {violation.cpu}, outside its set",
            claim=violation.claim,
            comm=violation.comm,
            tid=violation.tid,
            cpu=violation.cpu,
        )

    def tick(self, read_state: Callable[[], SessionState]) -> None:
        """Print what still happens, every period."""
        if self._held:
            self._report_held()
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        if self._goes_on or now_s >= self._look_s:
            began_s = time.thread_time()
            self._look(read_state(), now_s)
            self._look_s = now_s + LOOKS * (time.thread_time() - began_s)
        lines = self._pending.lines()
        lately_s = now_s - self._every_s
        self._said_s = {key: said_s for key, said_s in self._said_s.items() if self._goes_on or said_s > lately_s}
        for line in lines:
            self._say(line)

    def _look(self, state: SessionState, now_s: float) -> None:
        """Take what the open window shows: what ran outside only where that was reported."""
        if state.open is None:
            return
        if self._goes_on:
            self._goes_on = self._pending.take_new(state.open)
        if state.promised is not None and now_s >= self._look_s:
            faults, broken = self._faults.look(state.promised, state.open, now_s)
            self._pending.open_now(state.promised, state.open, faults, broken)

    def ended(self, record: Record) -> None:
        """Take the rest of a window that has ended: until the next period is over nothing newer is looked at."""
        self._look_s = max(self._look_s, self._next_s + self._every_s / 2)
        verdicts = record.result.verdicts
        self._faults.ended(verdicts)
        rules = {rule.id for rule in of_node(record.evidence)}
        layers = [verdict for verdict in verdicts if verdict.rule in rules]
        kept = [verdict for verdict in verdicts if verdict.rule == exclusive_cpus.ID]
        self._pending.ended(record.claims, record.evidence, record.ran, layers, kept)
