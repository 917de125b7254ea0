"""The machine's cores, level 3 caches, NUMA nodes and sockets from the evidence: CPU sets, or nothing at all.

Reads the summary in ``environment.topology``. It comes from a file: what is not a list of CPU lists is "not known".
Source: docs/principles.md; Documentation/admin-guide/cputopology.rst.
"""

from __future__ import annotations

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from validators.queries.memo import memoised

CORES, L3, SOCKETS = "core_cpus", "l3_cpus", "socket_cpus"
NODES = "numa_nodes"
DISTANCES = "numa_distances"


@memoised
def cpu_groups(evidence: Evidence, name: str) -> tuple[CpuSet, ...] | None:
    """Return the groups of one kind (:data:`CORES`, :data:`L3`, :data:`SOCKETS`); ``None``: not known."""
    found = evidence.environment.topology.get(name)
    if not isinstance(found, list | tuple) or not found:
        return None
    try:
        return tuple(CpuSet.parse(text) for text in found)
    except (InputError, AttributeError, TypeError):
        return None


def nodes(evidence: Evidence) -> dict[int, CpuSet] | None:
    """Return the CPUs of each NUMA node, nodes without CPUs included; ``None``: not known."""
    found = evidence.environment.topology.get(NODES)
    if not isinstance(found, dict) or not found:
        return None
    try:
        return {int(name): CpuSet.parse(cpus) for name, cpus in found.items()}
    except (InputError, AttributeError, TypeError, ValueError):
        return None


def distances(evidence: Evidence) -> dict[int, dict[int, int]] | None:
    """Return the distance from each NUMA node to each; ``None``: not known."""
    found = evidence.environment.topology.get(DISTANCES)
    if not isinstance(found, dict):
        return None
    ids, matrix = found.get("ids"), found.get("matrix")
    if not isinstance(ids, list | tuple) or not isinstance(matrix, list | tuple) or len(ids) != len(matrix):
        return None
    try:
        rows = [dict(zip(map(int, ids), map(int, row), strict=True)) for row in matrix]
        return dict(zip(map(int, ids), rows, strict=True))
    except (TypeError, ValueError):
        return None


def nodes_of(cpus: CpuSet, machine: dict[int, CpuSet]) -> CpuSet:
    """Return the NUMA nodes that the CPUs belong to."""
    return CpuSet.of(node for node, own in machine.items() if own & cpus)


VIRTUAL_MACHINE = "this is a virtual machine"
"""How every reason begins for which a rule about the hardware itself is skipped."""


def virtual(evidence: Evidence) -> str:
    """Return the hypervisor's name, or nothing on bare metal."""
    kind = evidence.environment.virtualization
    return "" if kind == "none" else kind
