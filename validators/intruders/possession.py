"""Which claim was promised a CPU when, by the changes of claims: whether two claims ever had it at the same time.

The ledger's rows are sums over a window. But time outside a claim's set is counted apart, so that what is left was
spent while the claim had the CPU; if that was never the owner's time, nothing needs to be dated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Transition
from toolkit.model.held import FOREVER_NS, Span
from toolkit.timeline.held import Timeline
from toolkit.timeline.saved import PLANNED_CAUSES, possible
from validators.queries import view
from validators.queries.memo import memoised

ALWAYS: tuple[Span, ...] = ((-FOREVER_NS, FOREVER_NS),)


def changed_hands(claim: Claim, transitions: Iterable[Transition]) -> CpuSet:
    """Return CPUs that became the claim's or ceased to be while we watched: its set changed, it began, or it ended."""
    return CpuSet.union(
        (change.cpus_before or CpuSet()) ^ (change.cpus_after or CpuSet())
        for change in view.changes_of(claim.name, transitions)
        if change.cause in PLANNED_CAUSES
    )


def apart(
    owner: Claim,
    other: Claim,
    cpu: int,
    transitions: tuple[Transition, ...],
    through: CpuSet | None = None,
    owned: Sequence[Span] = ALWAYS,
) -> bool:
    """Return whether both were promised the CPU, but never at the same time; not known counts as no.

    :param through: the CPUs through which it is the owner's, as those of its core are; ``None``: the CPU itself.
    :param owned: when it was its own: what it had as one of a pool, in another life, is no claim's alone.
    """
    held = [spans(owner, one, transitions) for one in through or CpuSet.of((cpu,))]
    second = spans(other, cpu, transitions)
    if not second or not any(held) or any(one is None for one in held):
        return False
    every = [span for one in held for span in one or ()]
    first = [(a, b) for a, b in every if any(max(a, begin) < min(b, end) for begin, end in owned)]
    return bool(first) and all(a[1] <= b[0] or b[1] <= a[0] for a in first for b in second)


def spans(claim: Claim, cpu: int, transitions: tuple[Transition, ...]) -> list[Span] | None:
    """Return when the claim may have had the CPU: from when a change that gives it began to when one that takes it was
    complete. ``None``: that is not known.
    """
    timeline = _possible(claim, transitions)
    return None if timeline is None else [(row.from_ns, row.to_ns) for row in timeline.rows if cpu in (row.cpus or ())]


@memoised
def _possible(claim: Claim, transitions: tuple[Transition, ...]) -> Timeline | None:
    return possible(claim, view.changes_of(claim.name, transitions))
