"""A topology hint: which NUMA nodes an allocation could come from, and whether that is as good as it gets.

Source: Kubernetes documentation "Control Topology Management Policies on a node"; KEP-693 (TopologyHint).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class TopologyHint(NamedTuple):
    """One hint. ``numa`` is a bitmask of NUMA node ids, ``None`` for "any node"."""

    numa: int | None
    preferred: bool


Hints = Mapping[str, Sequence[TopologyHint] | None]
"""Per resource: what is possible. ``None``: no preference; an empty sequence: nothing is possible."""

ANY = TopologyHint(None, True)
NOTHING = TopologyHint(None, False)
NO_AFFINITY = TopologyHint(None, False)
"""What a container has before the Topology Manager has stored a hint for it."""


def narrower(left: int, right: int) -> bool:
    """Return whether the first mask has fewer nodes, or as many and smaller ids."""
    counts = left.bit_count(), right.bit_count()
    return counts[0] < counts[1] if counts[0] != counts[1] else left < right
