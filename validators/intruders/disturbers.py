"""Tasks that take a CPU's time from its owner and are no other pod's: what rule ``noise`` counts, by CPU.

Pause sandboxes and runtime helpers have claims, and the ledger has one row of each on a CPU, without a begin. A healthy
node does not pin them, so that no rule about pods fails for them: what they take is the owner's loss all the same.

Source: docs/principles.md, rule ``noise``; docs/facts.md K9, K-kubelet-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.verdict import Offender
from validators.queries import leaves, view
from validators.queries.memo import memoised

HELPERS = "sandbox_ns"
TASKS = {
    OwnerClass.SYSTEM: "system_ns",
    OwnerClass.KTHREAD: "kthread_ns",
    OwnerClass.PERCPU_KTHREAD: "percpu_kthread_ns",
    OwnerClass.UNKNOWN: "unknown_ns",
}
"""Classes that count; pods are a matter of ``exclusive-cpus``, and pinproof's own tasks go away with it."""
MEASURES = (*TASKS.values(), HELPERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturber:
    """A task, or what the ledger has of one helper, on one CPU.

    :param since_ns: when it came; ``None``: that is not known. :param measure: which it counts for.
    """

    stay: Offender
    since_ns: int | None
    measure: str


@memoised
def disturbers(claims: ClaimSet, evidence: Evidence) -> Mapping[int, tuple[Disturber, ...]]:
    """Return them by CPU."""
    found: dict[int, list[Disturber]] = {}
    helpers = {one.name for one in claims.claims if one.kind.carries_tasks and not view.is_workload(one)}
    for row in evidence.intruders:
        owner = leaves.owner_of(row, claims, evidence)
        measure = TASKS.get(owner) or _of_claim(row, owner, claims, helpers)
        if measure:
            one = Disturber(stay=_stay(row), since_ns=row.first_at_ns, measure=measure)
            found.setdefault(row.cpu, []).append(one)
    for use in evidence.cpu_use:
        if use.claim in helpers and use.run_ns > 0:
            stay = Offender(
                claim=use.claim,
                tid=0,
                comm=use.claim,
                cpu=use.cpu,
                first_at_ns=0,
                total_ns=use.run_ns,
                longest_ns=0,
                switches=use.switches,
            )
            found.setdefault(use.cpu, []).append(Disturber(stay=stay, since_ns=None, measure=HELPERS))
    return {cpu: tuple(rows) for cpu, rows in found.items()}


def _of_claim(row: Intruder, owner: OwnerClass, claims: ClaimSet, helpers: set[str]) -> str:
    """A helper that ran before it was watched is known by its cgroup."""
    claim = view.claim_of_task(claims, row) if owner is OwnerClass.CLAIM else None
    return HELPERS if claim is not None and claim.name in helpers else ""


def _stay(row: Intruder) -> Offender:
    return Offender(
        claim=f"({row.owner})",
        tid=row.tid,
        comm=row.comm,
        cpu=row.cpu,
        first_at_ns=row.first_at_ns,
        total_ns=row.total_ns,
        longest_ns=row.longest_ns,
        switches=row.switches,
    )
