"""Which NUMA nodes could hold a memory request: the Memory Manager's hints.

A node in a group of several serves only requests for that very group; one that serves single-node requests joins no
group. Source: KEP-1769 ("Multi-NUMA nodes memory allocation"); ``docs/simulate-format.md`` "Memory manager".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations

from toolkit.allocation.admission import NIL_POINTER, KubeletPanic
from toolkit.allocation.cpu.hints import MAX_NUMA_NODES
from toolkit.allocation.memory.state import WORD, MemoryState
from toolkit.allocation.topology.hint import TopologyHint, narrower
from toolkit.errors import InputError

Requests = Mapping[str, int]
"""Memory type -> bytes."""
Reusable = Callable[[int, str], int]
"""Bytes that a pod may reuse of its init containers, by NUMA mask and memory type."""


class HintMaker:
    """Computes hints for one machine.

    :param quirks: crash on a memory type that a node does not have, as the real component does; otherwise such a
        node has none of it.
    """

    def __init__(self, node_ids: Sequence[int], *, quirks: bool = False) -> None:
        self.ids = tuple(sorted(node_ids))
        self.quirks = quirks
        self._masks = subset_masks(self.ids) if len(self.ids) <= MAX_NUMA_NODES else []

    def nodes_of(self, mask: int) -> tuple[int, ...]:
        """Return the node ids of a mask, ascending."""
        return tuple(node for node in self.ids if mask >> node & 1)

    def hints(self, state: MemoryState, requests: Requests, reusable: Reusable) -> dict[str, list[TopologyHint]]:
        """Return the same hints for every requested type; empty where nothing is requested or nothing is possible."""
        if not requests:
            return {}
        if not self._masks:
            raise InputError("machine", f"{len(self.ids)} NUMA nodes", f"at most {MAX_NUMA_NODES} for memory hints")
        sums = {name: self._sums(state, name) for name in requests}
        used = {node: state.nodes[node].assignments > 0 for node in self.ids}
        group = {node: sum(1 << cell for cell in state.nodes[node].cells) for node in self.ids}
        fewest = len(self.ids)
        possible = []
        for subset in subsets_by_size(len(self.ids)):
            mask, count = self._masks[subset], subset.bit_count()
            if any(sums[name][1][subset] < size for name, size in requests.items()):
                continue
            fewest = min(fewest, count)
            if count == 1:
                if group[mask.bit_length() - 1] != mask:
                    continue
            elif any(used[node] and group[node] != mask for node in self.nodes_of(mask)):
                continue
            if all((sums[n][0][subset] + reusable(mask, n)) % WORD >= size for n, size in requests.items()):
                possible.append(mask)
        if not possible:
            return {}
        hints = [TopologyHint(mask, mask.bit_count() == fewest) for mask in possible]
        return dict.fromkeys(sorted(requests), hints)

    def free(self, state: MemoryState, mask: int, name: str) -> int:
        """Return the free bytes of a type on some nodes."""
        return sum(self._table(state, node, name)[0] for node in self.nodes_of(mask)) % WORD

    def _table(self, state: MemoryState, node: int, name: str) -> tuple[int, int]:
        table = state.nodes[node].memory.get(name)
        if table is not None:
            return table.free, table.allocatable
        if self.quirks:
            raise KubeletPanic(NIL_POINTER)
        return 0, 0

    def _sums(self, state: MemoryState, name: str) -> tuple[list[int], list[int]]:
        """Return free and allocatable bytes of every subset of nodes."""
        tables = [self._table(state, node, name) for node in self.ids]
        free, allocatable = [0] * len(self._masks), [0] * len(self._masks)
        for subset in range(1, len(self._masks)):
            low = subset & -subset
            rest, table = subset ^ low, tables[low.bit_length() - 1]
            free[subset] = (free[rest] + table[0]) % WORD
            allocatable[subset] = (allocatable[rest] + table[1]) % WORD
        return free, allocatable


@cache
def subsets_by_size(count: int) -> tuple[int, ...]:
    """Return all subsets of so many positions in the kubelet's order: small ones first, low positions first."""
    places = range(count)
    return tuple(sum(1 << place for place in some) for size in places for some in combinations(places, size + 1))


def subset_masks(ids: Sequence[int]) -> list[int]:
    """Return the node mask of every subset of positions, by subset."""
    masks = [0] * (1 << len(ids))
    for subset in range(1, len(masks)):
        low = subset & -subset
        masks[subset] = masks[subset ^ low] | 1 << ids[low.bit_length() - 1]
    return masks


def best_hint(hints: Sequence[TopologyHint]) -> TopologyHint:
    """Choose the preferred hint with the fewest nodes, smaller ids first."""
    best = hints[0]
    for hint in hints[1:]:
        if hint.preferred != best.preferred:
            best = hint if hint.preferred else best
        elif narrower(hint.numa or 0, best.numa or 0):
            best = hint
    return best


def violates_groups(state: MemoryState, nodes: Sequence[int]) -> bool:
    """Return whether a group of several nodes contains one that is in use alone or in another group."""
    if len(nodes) == 1:
        return False
    wanted = sorted(nodes)
    return any(state.nodes[n].assignments > 0 and sorted(state.nodes[n].cells) != wanted for n in nodes)
