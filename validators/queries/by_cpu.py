"""What ran on each CPU, worked out once: every owner of CPUs asks for its own, on a node with hundreds of claims."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.model.evidence import CpuUse, Evidence, Intruder
from validators.queries.memo import memoised


@memoised
def rows_of(evidence: Evidence) -> Mapping[int, list[CpuUse]]:
    """Return the ledger's rows of claims by CPU, in order of their names."""
    found: dict[int, list[CpuUse]] = {}
    for row in sorted(evidence.cpu_use, key=lambda one: one.claim):
        found.setdefault(row.cpu, []).append(row)
    return found


@memoised
def tasks_of(evidence: Evidence) -> Mapping[int, list[Intruder]]:
    """Return the tasks without a claim by CPU, in an order that is not that of the evidence."""
    found: dict[int, list[Intruder]] = {}
    for task in sorted(evidence.intruders, key=lambda one: (one.tid, one.owner, one.comm, one.total_ns)):
        found.setdefault(task.cpu, []).append(task)
    return found
