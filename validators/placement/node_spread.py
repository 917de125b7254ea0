"""How CPUs lie on NUMA nodes: on how many, of a container or of its pod, how evenly, how near. For ``numa-alignment``.

Each judges by the machine and by what the cgroup is; nothing here knows how the CPUs were chosen.
Source: Kubernetes documentation, "Topology Manager" (restricted, single-numa-node, prefer-closest-numa-nodes) and
"Static policy options" (distribute-cpus-across-numa); KEP-3545 for the distance of several nodes.
"""

from __future__ import annotations

from itertools import combinations

from toolkit.model.claims import Alignment, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome
from validators.placement import groups, promised
from validators.placement.alignment import NOT_GIVEN, sets_in_force
from validators.placement.promised import Stand
from validators.queries import view

Found = tuple[Outcome, str]
Nodes = dict[int, CpuSet]
MAX_NODES = 16
"""More are not combined: that is the most that the kubelet's own choice can be computed for."""


def at_most(stand: Stand, evidence: Evidence, machine: Nodes, most: int) -> Found:
    """Judge on how many nodes each set lies that was in force."""
    sets = sets_in_force(stand, evidence)
    if isinstance(sets, str):
        return Outcome.UNDECIDED, sets
    return _count(sets, machine, most)


def of_pod(stand: Stand, claims: ClaimSet, evidence: Evidence, machine: Nodes, most: int) -> Found:
    """Judge on how many nodes the CPUs lie that the pod's containers have together."""
    pod = [
        then
        for one in claims.claims
        if view.same_pod(one, stand.claim)
        for then in promised.stands(claims, one, evidence.transitions, lambda one: Alignment.NUMA_POD in one.alignments)
        if max(then.begin_ns, stand.begin_ns) < min(then.end_ns, stand.end_ns)
    ]
    sums: dict[str, CpuSet] = {}
    for one in pod:
        sets = sets_in_force(one, evidence)
        if isinstance(sets, str):
            return Outcome.UNDECIDED, sets
        for name, cpus in sets:
            sums[name] = sums.get(name, CpuSet()) | cpus
    outcome, text = _count(tuple(sums.items()), machine, most)
    return outcome, f"of the pod's {len({one.name for one in pod})} containers together: {text}"


def _count(sets: tuple[tuple[str, CpuSet], ...], machine: Nodes, most: int) -> Found:
    for name, cpus in sets:
        nodes = groups.nodes_of(cpus, machine)
        if len(nodes) > most:
            return Outcome.FAILED, f"CPUs {cpus} ({name}) lie on {len(nodes)} NUMA nodes ({nodes}), at most {most} may"
    unknown = _unknown(sets, machine)
    if unknown:
        return Outcome.UNDECIDED, unknown
    return Outcome.PASSED, f"CPUs {sets[-1][1]} lie on at most {most} NUMA {'node' if most == 1 else 'nodes'}"


def _unknown(sets: tuple[tuple[str, CpuSet], ...], machine: Nodes) -> str:
    """Return whose NUMA node is not known; empty: all are."""
    known = CpuSet.union(machine.values())
    strange = [(name, cpus - known) for name, cpus in sets if cpus - known]
    return f"the NUMA node of CPUs {strange[0][1]} ({strange[0][0]}) is not known" if strange else ""


def even(stand: Stand, evidence: Evidence, machine: Nodes) -> Found:
    """Judge that every node that is used gives as many CPUs, or whole cores where these are promised, as the others.

    What does not divide evenly makes a difference of one CPU (core).
    """
    sets = sets_in_force(stand, evidence)
    if isinstance(sets, str):
        return Outcome.UNDECIDED, sets
    unit = 1
    if Alignment.SMT in stand.claim.alignments:
        cores = groups.cpu_groups(evidence, groups.CORES)
        if cores is None:
            return Outcome.UNDECIDED, "the machine's cores are not known"
        unit = max(len(core) for core in cores)
    unknown = _unknown(sets, machine)
    if unknown:
        return Outcome.UNDECIDED, unknown
    for name, cpus in sets:
        nodes = groups.nodes_of(cpus, machine)
        shares = {node: len(machine[node] & cpus) for node in nodes}
        if shares and max(shares.values()) - min(shares.values()) > unit:
            spread = ", ".join(f"{count} of node {node}" for node, count in shares.items())
            return Outcome.FAILED, f"CPUs {cpus} ({name}) are not spread evenly: {spread}"
    return (
        Outcome.PASSED,
        f"CPUs {sets[-1][1]} are spread evenly over NUMA nodes {groups.nodes_of(sets[-1][1], machine)}",
    )


def closest(stand: Stand, evidence: Evidence, machine: Nodes) -> Found:
    """Report whether several nodes are those that are nearest to each other; what has such nodes must keep to them."""
    distances = groups.distances(evidence)
    sets = sets_in_force(stand, evidence)
    if isinstance(sets, str):
        return Outcome.UNDECIDED, sets
    if distances is None or not set(machine) <= set(distances) or len(machine) > MAX_NODES:
        return Outcome.UNDECIDED, "the distances of the machine's NUMA nodes are not known"
    unknown = _unknown(sets, machine)
    if unknown:
        return Outcome.UNDECIDED, unknown
    for name, cpus in sets:
        nodes = tuple(groups.nodes_of(cpus, machine))
        found = _distance(nodes, distances)
        best = min(
            (
                _distance(some, distances)
                for some in combinations(sorted(machine), len(nodes))
                if sum(len(machine[node]) for node in some) >= len(cpus)
            ),
            default=found,
        )
        if found > best:
            text = f"CPUs {cpus} ({name}) lie on nodes with a mean distance of {found:g}, {best:g} is possible"
            return (Outcome.SKIPPED, f"{NOT_GIVEN}: {text}") if name == "promised" else (Outcome.FAILED, text)
    return Outcome.PASSED, f"NUMA nodes {groups.nodes_of(sets[-1][1], machine)} are as near to each other as any"


def _distance(nodes: tuple[int, ...], distances: dict[int, dict[int, int]]) -> float:
    """Return the mean over all pairs, each node with itself included, as the kubelet counts."""
    pairs = [distances[one].get(other, 255) for one in nodes for other in nodes]
    return sum(pairs) / len(pairs) if pairs else 0.0
