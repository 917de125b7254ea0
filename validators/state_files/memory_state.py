"""What a ``memory_manager_state`` says, checked against itself and its node.

Entries of pods that are gone stay until the next allocation on a healthy node: they are counted, not judged.
Source: docs/facts.md K-kubelet-5, docs/failures.md F23, F27-F29; docs/facts.md, "Normal on a healthy node".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from toolkit.model.cpuset import CpuSet
from toolkit.model.state_files import MemoryEntry, MemoryStateFile, StateReading
from validators.state_files.problem import Problem, of_any_file, part, whole

POLICIES = ("None", "Static")
MEMORY = "memory"


def by_each(readings: Sequence[StateReading]) -> Callable[[StateReading], list[Problem]]:
    """Return how to ask what is wrong with a file by every policy of these readings: a kubelet may be set up anew."""
    policies = {reading.memory_policy for reading in readings}
    policy = policies.pop() if len(policies) == 1 else None
    return lambda reading: list(problems(reading, policy))


def problems(reading: StateReading, policy: str | None) -> Iterator[Problem]:
    """Yield what is wrong with the file. :param policy: as configured; ``None``: not known."""
    file = reading.memory
    if file is None or file.unknown:
        return
    yield from of_any_file(file, POLICIES, policy)
    if file.problem:
        return
    yield from _tables(file)
    wrong = list(_blocks(file))
    # Where the whole does not agree, neither do its parts, and there is nothing more to say.
    yield from wrong or _places(file)
    nodes, listed = set(reading.node_bytes or {}), {row.node for row in file.rows if row.kind == MEMORY}
    if nodes and listed and nodes != listed:
        found = f"the file has memory of nodes {_ids(listed)}, the machine of {_ids(nodes)}"
        yield whole(f"{found}: the kubelet will not start again", "nodes")
    for row in file.rows:
        have = (reading.node_bytes or {}).get(row.node)
        if row.kind == MEMORY and have is not None and have != row.total_bytes:
            text = f"node {row.node} has {have} bytes, the file has {row.total_bytes}"
            yield whole(f"{text}: the kubelet will not start again", f"total {row.node}")


def fresh(file: MemoryStateFile) -> bool:
    """Return whether the file is that of a manager that has not started yet."""
    return file.policy == "Static" and not file.rows and not file.entries and not file.pods


def totals_known(file: MemoryStateFile, reading: StateReading) -> bool:
    """Return whether the memory of the file's nodes was compared with the machine's."""
    return bool(reading.node_bytes) and any(row.kind == MEMORY for row in file.rows)


def _ids(nodes: set[int]) -> str:
    return ",".join(map(str, sorted(nodes)))


def _tables(file: MemoryStateFile) -> Iterator[Problem]:
    for row in file.rows:
        place = f"{row.kind} of node {row.node}"
        if row.system_reserved_bytes + row.allocatable_bytes != row.total_bytes:
            parts = f"{row.system_reserved_bytes} reserved for the system and {row.allocatable_bytes} allocatable"
            yield whole(f"{place}: {parts} are not the total of {row.total_bytes}", f"total of {place}")
        if row.reserved_bytes + row.free_bytes != row.allocatable_bytes:
            parts = f"{row.reserved_bytes} taken and {row.free_bytes} free"
            yield whole(f"{place}: {parts} are not the allocatable {row.allocatable_bytes}", f"allocatable {place}")


def _blocks(file: MemoryStateFile) -> Iterator[Problem]:
    """Yield blocks on unknown nodes, and kinds of which more or less is taken than the blocks sum up to."""
    nodes = {row.node for row in file.rows}
    owned: dict[str, int] = {}
    for entry in _counted(file):
        owned[entry.kind] = owned.get(entry.kind, 0) + entry.size_bytes
        strange = [node for node in entry.nodes if node not in nodes]
        if strange:
            owner = f"{entry.pod_uid}/{entry.container}".strip("/")
            yield whole(f"{owner} has {entry.kind} on node {strange[0]}, which the file does not know")
    for kind in sorted({row.kind for row in file.rows} | set(owned)):
        taken = sum(row.reserved_bytes for row in file.rows if row.kind == kind)
        if taken != owned.get(kind, 0):
            sums = f"the blocks sum up to {owned.get(kind, 0)}"
            yield part(f"{taken} bytes of {kind} are taken, {sums}: leaked or doubly owned", "sum", [kind])


def _counted(file: MemoryStateFile) -> list[MemoryEntry]:
    """Return the blocks that are charged: a pod's own block holds its containers' blocks."""
    whole = {entry.pod_uid for entry in file.pods}
    return [*file.pods, *(entry for entry in file.entries if entry.pod_uid not in whole)]


def _groups(file: MemoryStateFile) -> list[CpuSet]:
    """Return the nodes by what shares memory: nodes that one block names fill up together, in an order that depends on
    which pod came and went first, so only their sums are determined (docs/failures.md F28).
    """
    groups = [CpuSet.of([node]) for node in sorted({row.node for row in file.rows})]
    for entry in _counted(file):
        touched = [group for group in groups if group & entry.nodes]
        groups = [group for group in groups if group not in touched]
        merged = CpuSet()
        for group in touched:
            merged = merged | group
        groups += [merged] if touched else []
    return sorted(groups, key=lambda group: group.first())


def _places(file: MemoryStateFile) -> Iterator[Problem]:
    """Yield memory that is charged to other nodes than its blocks are on, and nodes that count other blocks: from the
    blocks a starting kubelet computes the table anew, and refuses a file whose own differs.
    """
    counted = _counted(file)
    for group in _groups(file):
        where = f"node {group}" if len(group) == 1 else f"nodes {group} together"
        for kind in sorted({row.kind for row in file.rows if row.node in group}):
            taken = sum(row.reserved_bytes for row in file.rows if row.kind == kind and row.node in group)
            owned = sum(entry.size_bytes for entry in counted if entry.kind == kind and entry.nodes & group)
            if taken != owned:
                sums = f"the blocks on it sum up to {owned}: charged to another node than that of its blocks"
                text = f"{taken} bytes of {kind} are taken of {where}, {sums}; the kubelet will not start again"
                yield part(text, kind, group)
    for node in file.nodes:
        blocks = [entry for entry in counted if node.node in entry.nodes]
        if node.assignments != len(blocks):
            sums = f"{len(blocks)} blocks are on it"
            text = f"node {node.node} counts {node.assignments} assignments, {sums}"
            yield part(f"{text}; the kubelet will not start again", "assignments", [node.node])
        last = {entry.nodes for entry in blocks} or {CpuSet.of([node.node])}
        if node.group not in last:
            text = f"node {node.node} is in a group with {node.group}, none of its blocks is"
            yield part(f"{text}; the kubelet will not start", "group", [node.node])


def stale(file: MemoryStateFile, reading: StateReading) -> int:
    """Return how many pods have blocks though the node does not know them."""
    if reading.containers is None:
        return 0
    uids = {known.pod_uid for known in reading.containers}
    return len({entry.pod_uid for entry in (*file.entries, *file.pods)} - uids)
