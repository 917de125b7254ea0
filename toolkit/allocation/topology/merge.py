"""Merging the hints of all providers into one, exactly as the kubelet's merger ends up, without walking permutations.

The kubelet merges every permutation (one hint of each resource) by AND and keeps the best. The relation "better" is a
total order on the merged hints, so the best of the *set* of merged hints is the same one:

- a merged hint is preferred only where all its parts are preferred and name the same nodes: the intersection of the
  preferred masks;
- otherwise every reachable AND of masks counts; the best has as many nodes as the resource that needs the most
  (``target``), else fewer but as many as possible, else more but as few as possible.

Source: KEP-693, KEP-2902 (prefer-closest-numa-nodes is KEP-3545); Kubernetes documentation "Control Topology
Management Policies on a node".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from toolkit.allocation.topology.hint import ANY, NOTHING, Hints, TopologyHint

MaskKey = Callable[[int], tuple[float, ...]]
"""Orders masks with the same number of nodes: the smallest key is the best."""


def collect(providers: Iterable[Hints | None]) -> list[Sequence[TopologyHint]]:
    """List the hints per resource: no opinion is "any node", an empty list is "not possible"."""
    found: list[Sequence[TopologyHint]] = []
    for hints in providers:
        if not hints:
            found.append((ANY,))
            continue
        found += [(ANY,) if resource is None else resource or (NOTHING,) for resource in hints.values()]
    return found


def single_node_only(hints: Iterable[Sequence[TopologyHint]]) -> list[Sequence[TopologyHint]]:
    """Keep what ``single-numa-node`` looks at: preferred hints for one node, and preferred don't-cares."""
    return [
        tuple(h for h in resource if h.preferred and (h.numa is None or h.numa.bit_count() == 1)) for resource in hints
    ]


def merge(hints: Sequence[Sequence[TopologyHint]], all_nodes: int, key: MaskKey) -> TopologyHint:
    """Return the best merged hint; "all nodes, not preferred" if nothing can be merged."""
    nothing = TopologyHint(all_nodes, False)
    if any(not resource for resource in hints):
        return nothing
    agreed = _agreed(hints, all_nodes)
    if agreed:
        return TopologyHint(_best(agreed, min(mask.bit_count() for mask in agreed), key), True)
    reachable = _reachable(hints, all_nodes)
    if not reachable:
        return nothing
    target = target_nodes(hints)
    counts = {mask.bit_count() for mask in reachable}
    fewer = [count for count in counts if count <= target]
    return TopologyHint(_best(reachable, max(fewer) if fewer else min(counts), key), False)


def _best(masks: Iterable[int], count: int, key: MaskKey) -> int:
    candidates = [mask for mask in masks if mask.bit_count() == count]
    return candidates[0] if len(candidates) == 1 else min(candidates, key=key)


def _agreed(hints: Sequence[Sequence[TopologyHint]], all_nodes: int) -> set[int]:
    """Return the masks on which every resource has a preferred hint; a don't-care agrees with whatever others say."""
    anything, named = True, set[int]()
    for resource in hints:
        masks = {h.numa for h in resource if h.preferred}
        mine = {mask for mask in masks if mask is not None}
        named = (named & mine) | (named if None in masks else set()) | (mine if anything else set())
        anything = anything and None in masks
        if not named and not anything:
            return set()
    return ({mask & all_nodes for mask in named} | ({all_nodes} if anything else set())) - {0}


def _reachable(hints: Sequence[Sequence[TopologyHint]], all_nodes: int) -> set[int]:
    """Return every non-empty AND of one mask of each resource."""
    reachable = {all_nodes}
    for resource in hints:
        masks = {all_nodes if h.numa is None else h.numa & all_nodes for h in resource}
        if len(masks) * len(reachable) > 1 << 17:
            reachable = _all_ands(reachable, masks, all_nodes)
        else:
            reachable = {left & right for left in reachable for right in masks}
        reachable.discard(0)
    return reachable


def _all_ands(left: set[int], right: set[int], all_nodes: int) -> set[int]:
    """Compute all pairwise ANDs of two large sets over few nodes: count supersets, multiply, subtract again."""
    ids = [i for i in range(all_nodes.bit_length()) if all_nodes >> i & 1]
    size = 1 << len(ids)
    # Node ids may have gaps; the tables are indexed by the nodes' positions.
    masks = [sum(1 << node for bit, node in enumerate(ids) if subset >> bit & 1) for subset in range(size)]
    position = {mask: subset for subset, mask in enumerate(masks)}
    counts = []
    for chosen in (left, right):
        table = [0] * size
        for mask in chosen:
            table[position[mask]] = 1
        for bit in range(len(ids)):
            for subset in range(size):
                if not subset >> bit & 1:
                    table[subset] += table[subset | 1 << bit]
        counts.append(table)
    product = [a * b for a, b in zip(*counts, strict=True)]
    for bit in range(len(ids)):
        for subset in range(size):
            if not subset >> bit & 1:
                product[subset] -= product[subset | 1 << bit]
    return {masks[subset] for subset, count in enumerate(product) if count}


def target_nodes(hints: Sequence[Sequence[TopologyHint]]) -> int:
    """Return how many nodes the resource needs that needs the most."""
    fewest = (min((h.numa.bit_count() for h in resource if h.numa is not None), default=0) for resource in hints)
    return max(fewest, default=0)
