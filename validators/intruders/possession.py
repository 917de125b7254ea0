"""Which claim was promised a CPU when, by the changes of claims: whether two claims ever had it at the same time.

The ledger's rows are sums over a window. But time outside a claim's set is counted apart, so that what is left was
spent while the claim had the CPU; if that was never the owner's time, nothing needs to be dated.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Transition
from validators.queries import view

FOREVER = 1 << 62
Span = tuple[int, int]


def apart(owner: Claim, other: Claim, cpu: int, transitions: Iterable[Transition]) -> bool:
    """Return whether both were promised the CPU, but never at the same time; not known counts as no."""
    transitions = tuple(transitions)
    first, second = spans(owner, cpu, transitions), spans(other, cpu, transitions)
    if not first or not second:
        return False
    return all(a[1] <= b[0] or b[1] <= a[0] for a in first for b in second)


def spans(claim: Claim, cpu: int, transitions: Iterable[Transition]) -> list[Span] | None:
    """Return when the claim had the CPU: from when a change that gives it began to when one that takes it was complete.

    ``None``: the claim has no CPU set, or its changes do not follow from one another.
    """
    if claim.cpus is None:
        return None
    changes = sorted(
        (
            change
            for change in transitions
            if change.claim == claim.name
            and change.cause in view.PLANNED_CAUSES
            and (change.cpus_before is not None or change.cpus_after is not None)
        ),
        key=lambda change: (change.start_at_ns, change.end_at_ns),
    )
    held = changes[0].cpus_before if changes else claim.cpus
    since = -FOREVER
    found: list[Span] = []
    for change in changes:
        if change.cpus_before != held:
            return None
        had, has = cpu in (held or CpuSet()), cpu in (change.cpus_after or CpuSet())
        if has and not had:
            since = change.start_at_ns
        elif had and not has:
            found.append((since, change.end_at_ns))
        held = change.cpus_after
    if cpu in (held or CpuSet()):
        found.append((since, FOREVER))
    return found
