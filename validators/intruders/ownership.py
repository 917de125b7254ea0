"""Which CPUs a claim owned when: each is judged for the time in which it was the claim's, and for no other.

A CPU is the claim's from when the change that gives it was complete to when the change that takes it began: what runs
there before or after, or while it changes hands, breaks nothing. (:mod:`validators.intruders.possession` asks whether
two claims *may* have had a CPU at the same time, and takes the changes themselves to both.)

Source: docs/principles.md ("Each claim has an epoch").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolkit.model.claim_changes import versions
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Transition
from toolkit.model.held import FOREVER_NS, Span
from toolkit.timeline.saved import lives, promised
from validators.intruders import placing
from validators.queries import view
from validators.queries.memo import memoised
from validators.wording import seconds

NAMED_STEPS = 4
"""How many sets that follow each other a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What one claim owned in a window: the rows of the timeline turned round, from each CPU to its times.

    :param spans: by CPU: when it was the claim's.
    :param steps: the sets that it had, each with when it began; none for as long as it had none.
    """

    spans: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)
    steps: tuple[tuple[int, CpuSet], ...] = ()

    @property
    def cpus(self) -> CpuSet:
        """Every CPU that was the claim's at any time."""
        return CpuSet.of(self.spans)

    def partly(self, end_ns: int) -> CpuSet:
        """Return those that were not the claim's for the whole window. :param end_ns: of the window."""
        return CpuSet.of(cpu for cpu, mine in self.spans.items() if placing.outside_ns(mine, 0, end_ns))

    @property
    def changed(self) -> bool:
        """Whether it had one set after another; a container that restarts on the same one has not."""
        return len({cpus for _, cpus in self.steps if cpus}) > 1

    def between(self, begin_ns: int, end_ns: int) -> Ownership:
        """Return the same of a part of the time."""
        if (begin_ns, end_ns) == (-FOREVER_NS, FOREVER_NS):
            return self
        clipped = {
            cpu: tuple((max(begin, begin_ns), min(end, end_ns)) for begin, end in mine)
            for cpu, mine in self.spans.items()
        }
        spans = {cpu: tuple(span for span in mine if span[0] < span[1]) for cpu, mine in clipped.items()}
        before = [(begin_ns, cpus) for at_ns, cpus in self.steps if at_ns <= begin_ns][-1:]
        steps = (*before, *(step for step in self.steps if begin_ns < step[0] < end_ns))
        return Ownership(spans={cpu: mine for cpu, mine in spans.items() if mine}, steps=steps)

    @property
    def ended(self) -> bool:
        """Whether nothing is the claim's when the window ends."""
        return all(mine[-1][1] != FOREVER_NS for mine in self.spans.values())

    @property
    def text(self) -> str:
        """The sets: ``2-3``, ``2-3, from 5.0 s on 2``."""
        return self._said(str)

    @property
    def named(self) -> str:
        """The same with the word before it: ``CPUs 2-3, from 5.0 s on 2``."""
        return self._said(cpus_text)

    def _said(self, write: Callable[[CpuSet], str]) -> str:
        if not self.changed:
            return write(self.cpus)
        steps = list(self.steps)
        while not steps[-1][1]:
            steps.pop()  # that it ended is said beside it
        # What held for the moment of a change only is no set that anything was given.
        short = [n for n in range(1, len(steps) - 1) if seconds(steps[n][0]) == seconds(steps[n + 1][0])]
        steps = [step for n, step in enumerate(steps) if n not in short]
        if len(steps) > NAMED_STEPS:
            return f"{write(self.cpus)} (not all at once: {len(steps) - 1} changes)"
        return write(steps[0][1]) + "".join(f", from {seconds(at)} on {cpus or 'none'}" for at, cpus in steps[1:])


@memoised
def owned(claims: ClaimSet, claim: Claim, transitions: tuple[Transition, ...]) -> Ownership:
    """Return what the claim owned: it was there, and the CPUs were promised to it or its pod alone."""
    spans: dict[int, list[Span]] = {}
    steps: list[tuple[int, CpuSet]] = []
    last_ns: int | None = None
    shared = all(one.claim.isolation is Isolation.HOST for one in versions(claims, claim))  # most of hundreds
    mine = () if shared else view.changes_of(claim.name, transitions)
    for row in () if shared else promised(claims, claim, mine).rows:
        if row.isolation is Isolation.HOST or row.cpus is None:
            continue
        begin, end, cpus = row.from_ns, row.to_ns, row.cpus
        if last_ns is not None and begin > last_ns:
            steps.append((last_ns, CpuSet()))
        if not steps or steps[-1][1] != cpus:
            steps.append((begin, cpus))
        for cpu in cpus:
            known = spans.setdefault(cpu, [])
            if known and known[-1][1] == begin:
                known[-1] = (known[-1][0], end)
            else:
                known.append((begin, end))
        last_ns = end
    if last_ns is not None and last_ns != FOREVER_NS:
        steps.append((last_ns, CpuSet()))
    left = CpuSet() if claim.isolation is Isolation.HOST else (claim.cpus or CpuSet()) - CpuSet.of(spans)
    if left:  # its changes do not lead to what it is promised: that is judged all the same
        steps.clear()
        spans |= dict.fromkeys(left, lives(view.changes_of(claim.name, transitions)))
    return Ownership(spans={cpu: tuple(known) for cpu, known in spans.items() if known}, steps=tuple(steps))
