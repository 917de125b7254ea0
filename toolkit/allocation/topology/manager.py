"""The Topology Manager: policies, scopes and options; decides on which NUMA nodes a container's or pod's resources are.

It asks the providers for hints, merges them, and says whether the pod may stay; the allocation itself is the
providers' (:mod:`toolkit.allocation.node` drives the loop). Source: Kubernetes documentation "Control Topology
Management Policies on a node"; ``docs/simulate-format.md`` section "Topology manager".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.allocation.admission import StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import Hints, TopologyHint
from toolkit.allocation.topology.merge import collect, merge, single_node_only
from toolkit.allocation.topology.options.switched_on import STAGE, TopologyOptions, by_id, read_options
from toolkit.allocation.topology.walk import walk
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.go_text import quote

NONE = "none"
BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)
CONTAINER_SCOPE = "container"
POD_SCOPE = "pod"
SCOPES = (CONTAINER_SCOPE, POD_SCOPE)


class TopologyManager:
    """Merges hints under one policy. Immutable; the stored hints are the node's.

    :param gates: of the kubelet; ``None``: the model's as they are by default.
    :param quirks: reproduce the crash of ``prefer-closest-numa-nodes`` on machines whose node ids have gaps.
    :raises StartupError: options, number of nodes or distances with which a kubelet does not start.
    """

    def __init__(
        self,
        policy: str,
        scope: str,
        options: Mapping[str, str],
        machine: Machine,
        *,
        gates: FeatureGates | None = None,
        quirks: bool = False,
    ) -> None:
        self.policy = policy
        self.scope = scope
        self.options = TopologyOptions() if policy == NONE else read_options(options, gates)
        self.all_nodes = sum(1 << node.id for node in machine.nodes)
        self._order = self.options.order(machine, quirks=quirks)
        gaps = any(node.id != i for i, node in enumerate(machine.nodes))
        self._may_crash = quirks and gaps and self._order is not by_id
        if policy == NONE:
            return
        refused = self.options.refuse_machine(machine)
        if refused:
            raise StartupError(STAGE, refused)
        if policy not in POLICIES:
            raise StartupError(STAGE, f"unknown policy: {quote(policy)}")
        if scope not in SCOPES:
            raise StartupError(STAGE, f"unknown scope: {quote(scope)}")

    def merge(self, providers: Sequence[Hints | None]) -> tuple[TopologyHint, bool]:
        """Return the merged hint, and whether the policy admits it."""
        hints = collect(providers)
        if self.policy != SINGLE_NUMA_NODE:
            if self._may_crash:
                walk(hints, self.all_nodes, self._order)
            best = merge(hints, self.all_nodes, self._order)
            return best, best.preferred or self.policy == BEST_EFFORT
        best = merge(single_node_only(hints), self.all_nodes, by_id)
        if best.numa == self.all_nodes:
            best = TopologyHint(None, best.preferred)
        return best, best.preferred
