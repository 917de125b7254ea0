"""What ran on each CPU, worked out once: every owner of CPUs asks for its own, on a node with hundreds of claims."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.model.evidence import Evidence, Intruder
from toolkit.timeline.ran import Ran
from validators.queries import timeline
from validators.queries.memo import memoised


@memoised
def rows_of(evidence: Evidence) -> Mapping[int, list[Ran]]:
    """Return the ledger's rows of claims by CPU, in order of their names, as the timeline has them."""
    found: dict[int, list[Ran]] = {}
    for row in sorted(timeline.asked(evidence).rows, key=lambda one: one.claim):
        found.setdefault(row.cpu, []).append(row)
    return found


@memoised
def tasks_of(evidence: Evidence) -> Mapping[int, list[Intruder]]:
    """Return the tasks without a claim by CPU, in an order that is not that of the evidence."""
    found: dict[int, list[Intruder]] = {}
    for task in sorted(evidence.intruders, key=lambda one: (one.tid, one.owner, one.comm, one.total_ns)):
        found.setdefault(task.cpu, []).append(task)
    return found
