"""All options of the Topology Manager."""

from __future__ import annotations

from toolkit.allocation.topology.options import max_allowable_numa_nodes, prefer_closest_numa_nodes
from toolkit.allocation.topology.options.option import TopologyOption

OPTIONS: dict[str, TopologyOption] = {
    option.name: option for option in (prefer_closest_numa_nodes.OPTION, max_allowable_numa_nodes.OPTION)
}
"""Name in ``topologyManagerPolicyOptions`` -> option."""
