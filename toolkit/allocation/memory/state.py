"""What the Memory Manager remembers: per NUMA node what is free, and per container and pod the blocks that it owns.

Sizes are bytes. The kubelet counts in 64-bit words without sign; sums that leave that range wrap here as they do there.
Source: ``docs/simulate-format.md`` ("BLOCK", "NUMA state"); Kubernetes documentation "Control Memory Management
Policies on a Node" (node map and memory maps).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

WORD = 1 << 64


class Block(NamedTuple):
    """Memory of one type on a group of NUMA nodes (ascending ids)."""

    numa: tuple[int, ...]
    type: str
    size: int


@dataclass(slots=True)
class MemoryTable:
    """One type of memory on one node."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


@dataclass(slots=True)
class NodeState:
    """One NUMA node. ``cells``: the group of nodes used together, itself if alone."""

    assignments: int
    memory: dict[str, MemoryTable]
    cells: tuple[int, ...]

    def free(self) -> dict[str, int]:
        """Return free bytes by type, sorted by type."""
        return {name: self.memory[name].free for name in sorted(self.memory)}


@dataclass(slots=True)
class MemoryState:
    """All of it. ``entries``: pod uid -> container name -> blocks; ``pod_entries``: pod uid -> blocks."""

    nodes: dict[int, NodeState] = field(default_factory=dict)
    entries: dict[str, dict[str, tuple[Block, ...]]] = field(default_factory=dict)
    pod_entries: dict[str, tuple[Block, ...]] = field(default_factory=dict)

    def blocks(self, uid: str, container: str) -> tuple[Block, ...] | None:
        """Return a container's blocks, ``None`` if it has no entry."""
        return self.entries.get(uid, {}).get(container)

    def set_blocks(self, uid: str, container: str, blocks: tuple[Block, ...]) -> None:
        """Write a container's entry."""
        self.entries.setdefault(uid, {})[container] = blocks

    def delete(self, uid: str, container: str) -> None:
        """Remove a container's entry, and the pod's when it was the last."""
        containers = self.entries.get(uid, {})
        containers.pop(container, None)
        if not containers:
            self.entries.pop(uid, None)

    def take(self, numa: tuple[int, ...], kind: str, size: int) -> None:
        """Count a block on its nodes and fill them in ascending order."""
        for node_id in numa:
            node = self.nodes[node_id]
            node.assignments += 1
            node.cells = numa
            table = node.memory.get(kind)
            if size == 0 or table is None:
                continue
            part = min(table.free, size)
            table.free -= part
            table.reserved += part
            size -= part

    def release(self, blocks: tuple[Block, ...]) -> None:
        """Undo :meth:`take`; a node without assignments leaves its group."""
        for block in blocks:
            size = block.size
            for node_id in block.numa:
                node = self.nodes[node_id]
                node.assignments -= 1
                if node.assignments == 0:
                    node.cells = (node_id,)
                table = node.memory.get(block.type)
                if size == 0 or table is None:
                    continue
                part = min(table.reserved, size)
                table.reserved -= part
                table.free += part
                size -= part


def to_blocks(numa: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[Block, ...]:
    """Build blocks sorted by type, the order that everything here keeps."""
    return tuple(Block(numa, name, sizes[name]) for name in sorted(sizes))
