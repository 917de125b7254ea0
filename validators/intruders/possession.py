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
from toolkit.timeline.saved import ADDED, PLANNED_CAUSES
from validators.queries import view

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
    transitions: Iterable[Transition],
    through: CpuSet | None = None,
    owned: Sequence[Span] = ALWAYS,
) -> bool:
    """Return whether both were promised the CPU, but never at the same time; not known counts as no.

    :param through: the CPUs through which it is the owner's, as those of its core are; ``None``: the CPU itself.
    :param owned: when it was its own: what it had as one of a pool, in another life, is no claim's alone.
    """
    transitions = tuple(transitions)
    held = [spans(owner, one, transitions) for one in through or CpuSet.of((cpu,))]
    second = spans(other, cpu, transitions)
    if not second or not any(held) or any(one is None for one in held):
        return False
    every = [span for one in held for span in one or ()]
    first = [(a, b) for a, b in every if any(max(a, begin) < min(b, end) for begin, end in owned)]
    return bool(first) and all(a[1] <= b[0] or b[1] <= a[0] for a in first for b in second)


def spans(claim: Claim, cpu: int, transitions: Iterable[Transition]) -> list[Span] | None:
    """Return when the claim had the CPU: from when a change that gives it began to when one that takes it was complete.

    ``None``: the claim has no CPU set, or its changes do not follow from one another.
    """
    if claim.cpus is None:
        return None
    changes = sorted(
        (
            change
            for change in view.changes_of(claim.name, transitions)
            if change.cause in PLANNED_CAUSES and (change.cpus_before is not None or change.cpus_after is not None)
        ),
        key=lambda change: (change.start_at_ns, change.end_at_ns),
    )
    held = changes[0].cpus_before if changes else claim.cpus
    since = -FOREVER_NS
    found: list[Span] = []
    begun = False
    for change in changes:
        if begun and change.cpus_before != held == change.cpus_after:
            continue  # a life on other CPUs than the one before: its begin is written down as a change of the set, too
        if change.cpus_before != held:
            return None
        begun = change.what == ADDED
        had, has = cpu in (held or CpuSet()), cpu in (change.cpus_after or CpuSet())
        if has and not had:
            since = change.start_at_ns
        elif had and not has:
            found.append((since, change.end_at_ns))
        held = change.cpus_after
    if cpu in (held or CpuSet()):
        found.append((since, FOREVER_NS))
    return found
