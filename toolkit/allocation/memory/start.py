"""The Memory Manager's start: the reserved memory of the configuration, the empty machine, and what a restored state
must agree with.

Source: Kubernetes documentation "Control Memory Management Policies on a Node", "Reserved memory configuration"
(``docs/specification.md``); messages as the kubelet prints them.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.allocation.admission import NIL_POINTER, KubeletPanic, StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.state import WORD, Block, MemoryState, MemoryTable, NodeState
from toolkit.kubernetes.go_text import quote
from toolkit.kubernetes.node_config import MemoryReservation
from toolkit.kubernetes.pod import MEMORY, hugepages_resource, is_memory_resource
from toolkit.kubernetes.quantity import ZERO, Quantity

STATIC = "Static"
NONE = "None"
_WINDOWS_ONLY = "BestEffort"
_STAGE = "memory-manager"
_START = "memory-manager-start"

Reserved = Mapping[int, Mapping[str, int]]
"""NUMA node id -> memory type -> bytes."""


def check_policy(
    policy: str, machine: Machine, reservation: Mapping[str, Quantity], reserved: tuple[MemoryReservation, ...]
) -> Reserved:
    """Check the policy and its reservations; return them per node.

    :param reservation: what Node Allocatable keeps back, per resource.
    :raises StartupError: with the kubelet's message.
    """
    if policy == NONE:
        return {}
    if policy == _WINDOWS_ONLY:
        raise StartupError(_STAGE, f'policy {quote(policy)} is not available for platform "linux"')
    if policy != STATIC:
        raise StartupError(_STAGE, f"unknown policy: {quote(policy)}")
    totals: dict[str, Quantity] = {}
    nodes = {node.id for node in machine.nodes}
    for entry in reserved:
        if entry.numa_node not in nodes:
            place = f"references a NUMA node {entry.numa_node} that does not exist on this machine"
            raise StartupError(_STAGE, f"the reserved memory configuration {place}")
        for name, amount in entry.limits.items():
            totals[name] = amount + totals[name] if name in totals else amount
    for name in sorted({*totals, *(n for n in reservation if is_memory_resource(n))}):
        wanted = ZERO + reservation.get(name, ZERO)
        found = ZERO + totals.get(name, ZERO)
        if wanted.nano != found.nano:
            amounts = f"the total amount {quote(str(found))} of type {quote(name)} is not equal to the value"
            raise StartupError(_STAGE, f"{amounts} {quote(str(wanted))} determined by Node Allocatable feature")
    per_node: dict[int, dict[str, int]] = {node: {} for node in nodes}
    for entry in reserved:
        for name, amount in entry.limits.items():
            if amount.as_int64 is None:
                raise StartupError(_STAGE, "could not covert a variable of type Quantity to int64")
            per_node[entry.numa_node][name] = amount.as_int64
    if not sum(amounts.get(MEMORY, 0) for amounts in per_node.values()):
        raise StartupError(_STAGE, "[memorymanager] you should specify the system reserved memory")
    return per_node


def empty_machine(machine: Machine, reserved: Reserved) -> dict[int, NodeState]:
    """Return the nodes with nothing assigned."""
    nodes = {}
    for node in machine.nodes:
        kept = reserved.get(node.id, {})
        memory, huge_total = {}, 0
        for page_bytes, pages in node.hugepages.items():
            name = hugepages_resource(page_bytes)
            memory[name] = _table(pages * page_bytes, kept.get(name, 0), 0)
            huge_total += pages * page_bytes
        memory[MEMORY] = _table(node.memory_bytes, kept.get(MEMORY, 0), huge_total)
        nodes[node.id] = NodeState(0, memory, (node.id,))
    return nodes


def _table(total: int, reserved: int, hugepages: int) -> MemoryTable:
    # A reservation above what the node has wraps around in the kubelet's unsigned arithmetic.
    allocatable = (total - reserved - hugepages) % WORD
    return MemoryTable(total, reserved, allocatable, 0, allocatable)


def validate(
    state: MemoryState, machine: Machine, reserved: Reserved, *, pod_level: bool, quirks: bool = False
) -> None:
    """Check a restored state against the machine and the configuration; fill in an empty one.

    :param pod_level: the pod-level resource managers are on, so that a pod's own blocks count instead of its
        containers'.
    :param quirks: crash, as the real component does, where a group's nodes have different sizes of huge pages.
    :raises StartupError: with the kubelet's message.
    """
    if not state.nodes:
        if state.entries:
            text = "[memorymanager] machine state can not be empty when it has memory assignments"
            raise StartupError(_START, text)
        state.nodes = empty_machine(machine, reserved)
        return
    expected = MemoryState(nodes=empty_machine(machine, reserved))
    for uid, containers in state.entries.items():
        if pod_level and state.pod_entries.get(uid):
            _expect(expected, uid, "", state.pod_entries[uid])
            continue
        for name, blocks in containers.items():
            _expect(expected, uid, name, blocks)
    if not _same(state.nodes, expected.nodes, quirks=quirks):
        raise StartupError(_START, "[memorymanager] the expected machine state is different from the real one")


def _expect(expected: MemoryState, uid: str, container: str, blocks: tuple[Block, ...]) -> None:
    where = f"[memorymanager] (pod: {uid}, container: {container}) the memory assignment uses"
    for block in blocks:
        for node_id in block.numa:
            if node_id not in expected.nodes:
                raise StartupError(_START, f"{where} the NUMA that does not exist")
            if block.type not in expected.nodes[node_id].memory:
                raise StartupError(_START, f"{where} memory resource that does not exist")
        expected.take(block.numa, block.type, block.size)


def _same(left: Mapping[int, NodeState], right: Mapping[int, NodeState], *, quirks: bool) -> bool:
    """Compare as the kubelet does: groups share free and reserved memory, so only their sums must agree."""
    if left.keys() != right.keys():
        return False
    for node_id, mine in left.items():
        other = right[node_id]
        same_group = sorted(mine.cells) == sorted(other.cells)
        if mine.assignments != other.assignments or not same_group or mine.memory.keys() != other.memory.keys():
            return False
        for name, table in mine.memory.items():
            fixed = other.memory[name]
            if (table.total, table.system_reserved, table.allocatable) != (
                fixed.total,
                fixed.system_reserved,
                fixed.allocatable,
            ):
                return False
            if quirks and any(name not in side[c].memory for side in (left, right) for c in mine.cells if c in side):
                # Source: kubernetes v1.36.2, memorymanager/policy_static.go, areMachineStatesEqual.
                raise KubeletPanic(NIL_POINTER)
            if _group_sums(left, mine.cells, name) != _group_sums(right, mine.cells, name):
                return False
    return True


def _group_sums(nodes: Mapping[int, NodeState], cells: tuple[int, ...], name: str) -> tuple[int, int]:
    tables = [nodes[c].memory[name] for c in cells if c in nodes and name in nodes[c].memory]
    return sum(table.free for table in tables), sum(table.reserved for table in tables)
