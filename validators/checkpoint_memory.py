"""What a ``memory_manager_state`` says, checked against itself and its node.

Entries of pods that are gone stay until the next allocation on a healthy node: they are counted, not judged.
Source: field.md K-kubelet-5, F23, F27-F29; kubelet captures, "Normal on a healthy node".
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model.state_files import MemoryStateFile, StateReading

POLICIES = ("None", "Static")
MEMORY = "memory"


def problems(file: MemoryStateFile, reading: StateReading) -> Iterator[str]:
    """Yield what is wrong with the file."""
    if file.problem:
        yield file.problem
        return
    if not file.checksum_ok:
        yield "the checksum is not that of the content"
    if file.version not in (1, 2):
        yield f"version {file.version} is none that a kubelet writes"
    if file.policy not in POLICIES:
        yield f"policy {file.policy[:40]!r} is not {' or '.join(POLICIES)}"
    elif reading.memory_policy is not None and reading.memory_policy != file.policy:
        yield f"policy is {file.policy}, configured is {reading.memory_policy}: the kubelet will not start"
    yield from _tables(file)
    yield from _blocks(file)
    for row in file.rows:
        have = (reading.node_bytes or {}).get(row.node)
        if row.kind == MEMORY and have is not None and have != row.total_bytes:
            yield f"node {row.node} has {have} bytes, the file says {row.total_bytes}: the kubelet will not start again"


def _tables(file: MemoryStateFile) -> Iterator[str]:
    for row in file.rows:
        place = f"{row.kind} of node {row.node}"
        if row.system_reserved_bytes + row.allocatable_bytes != row.total_bytes:
            yield (
                f"{place}: {row.system_reserved_bytes} reserved for the system and {row.allocatable_bytes} allocatable "
                f"are not the total of {row.total_bytes}"
            )
        if row.reserved_bytes + row.free_bytes != row.allocatable_bytes:
            yield (
                f"{place}: {row.reserved_bytes} taken and {row.free_bytes} free are not the allocatable "
                f"{row.allocatable_bytes}"
            )


def _blocks(file: MemoryStateFile) -> Iterator[str]:
    """Yield blocks on unknown nodes, and kinds of which more or less is taken than the blocks sum up to."""
    nodes = {row.node for row in file.rows}
    whole = {entry.pod_uid for entry in file.pods}
    # A pod's own block holds its containers' blocks.
    counted = [*file.pods, *(entry for entry in file.entries if entry.pod_uid not in whole)]
    owned: dict[str, int] = {}
    for entry in counted:
        owned[entry.kind] = owned.get(entry.kind, 0) + entry.size_bytes
        strange = [node for node in entry.nodes if node not in nodes]
        if strange:
            owner = f"{entry.pod_uid}/{entry.container}".strip("/")
            yield f"{owner} has {entry.kind} on node {strange[0]}, which the file does not know"
    for kind in sorted({row.kind for row in file.rows} | set(owned)):
        taken = sum(row.reserved_bytes for row in file.rows if row.kind == kind)
        if taken != owned.get(kind, 0):
            sums = f"the blocks sum up to {owned.get(kind, 0)}"
            yield f"{taken} bytes of {kind} are taken, {sums}: leaked or doubly owned"


def stale(file: MemoryStateFile, reading: StateReading) -> int:
    """Return how many pods have blocks though the node does not know them."""
    if reading.containers is None:
        return 0
    uids = {known.pod_uid for known in reading.containers}
    return len({entry.pod_uid for entry in (*file.entries, *file.pods)} - uids)
