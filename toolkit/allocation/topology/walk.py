"""In which order the kubelet's merger measures masks against each other: needed only to tell where it crashes.

:mod:`toolkit.allocation.topology.merge` finds the best merged hint without walking permutations, and so measures other
pairs than the kubelet does. Where measuring a mask crashes the kubelet (``prefer-closest-numa-nodes`` on NUMA ids with
gaps), it does so at the first pair of its walk, even if that pair has no part in the result.
Source: kubernetes v1.36.2, pkg/kubelet/cm/topologymanager/policy.go (``HintMerger.Merge``, ``compare``) and
numa_info.go (``Closest``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod

from toolkit.allocation.topology.hint import TopologyHint
from toolkit.allocation.topology.merge import MaskKey, target_nodes

MOST_PERMUTATIONS = 1 << 18
"""Beyond, the walk ends early: a crash as late as that stays unseen."""


def walk(hints: Sequence[Sequence[TopologyHint]], all_nodes: int, key: MaskKey) -> None:
    """Measure what the kubelet measures, in its order; raises what ``key`` raises."""
    if prod(map(len, hints)) < 2:
        return
    target = target_nodes(hints)
    best, best_preferred = 0, False
    for permutation in islice(product(*hints), MOST_PERMUTATIONS):
        mask, preferred, first = all_nodes, True, 0
        for hint in permutation:
            preferred &= hint.preferred
            if hint.numa is not None:
                mask &= hint.numa
                first = first or hint.numa
                preferred &= hint.numa == first
        if mask and (not best or _better(best, best_preferred, mask, preferred, target, key)):
            best, best_preferred = mask, preferred


def _better(best: int, best_preferred: bool, mask: int, preferred: bool, target: int, key: MaskKey) -> bool:
    """Return whether the kubelet takes a mask instead of the best one so far."""
    if best_preferred != preferred:
        return preferred
    have, offered = best.bit_count(), mask.bit_count()
    if have != offered and not preferred and have <= target:
        # Not preferred: as close to the target as possible from below.
        return have < offered <= target
    if have != offered:
        return offered < have
    return mask != best and key(best) > key(mask)
