"""The Topology Manager: policies, scopes and options; decides on which NUMA nodes a container's or pod's resources are.

It asks the providers for hints, merges them, and says whether the pod may stay; the allocation itself is the
providers' (:mod:`toolkit.allocation.node` drives the loop). Source: Kubernetes documentation "Control Topology
Management Policies on a node"; ``docs/simulate-format.md`` section "Topology manager".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.allocation.admission import KubeletPanic, StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import Hints, TopologyHint
from toolkit.allocation.topology.merge import MaskKey, collect, merge, single_node_only
from toolkit.model.go_text import GoError, atoi, parse_bool, quote

NONE = "none"
BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)
CONTAINER_SCOPE = "container"
POD_SCOPE = "pod"
SCOPES = (CONTAINER_SCOPE, POD_SCOPE)
PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_NODES = "max-allowable-numa-nodes"
DEFAULT_MAX_NODES = 8
"""More nodes make the number of masks explode: a policy other than ``none`` is refused beyond."""

_STAGE = "topology-manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOptions:
    """The policy options; both are stable in v1.36, so no feature gate hides them."""

    prefer_closest: bool = False
    max_nodes: int = DEFAULT_MAX_NODES


def read_options(given: Mapping[str, str]) -> TopologyOptions:
    """Read ``topologyManagerPolicyOptions``.

    :raises StartupError: with the kubelet's message.
    """
    prefer_closest, max_nodes = False, DEFAULT_MAX_NODES
    for name, value in sorted(given.items()):
        try:
            if name == PREFER_CLOSEST:
                prefer_closest = parse_bool(value)
            elif name == MAX_NODES:
                max_nodes = atoi(value)
            else:
                raise StartupError(_STAGE, f"unknown Topology Manager Policy option: {quote(name)}")
        except GoError as error:
            start = "bad value for option" if name == PREFER_CLOSEST else "unable to convert policy option to integer"
            raise StartupError(_STAGE, f"{start} {quote(name)}: {error}") from None
        if max_nodes < DEFAULT_MAX_NODES:
            text = f"the minimum value of {quote(name)} should not be less than {DEFAULT_MAX_NODES}"
            raise StartupError(_STAGE, text)
    return TopologyOptions(prefer_closest=prefer_closest, max_nodes=max_nodes)


class TopologyManager:
    """Merges hints under one policy. Immutable; the stored hints are the node's.

    :param quirks: reproduce the crash of ``prefer-closest-numa-nodes`` on machines whose node ids have gaps.
    :raises StartupError: options, number of nodes or distances with which a kubelet does not start.
    """

    def __init__(
        self, policy: str, scope: str, options: Mapping[str, str], machine: Machine, *, quirks: bool = False
    ) -> None:
        self.policy = policy
        self.scope = scope
        self.quirks = quirks
        self.options = TopologyOptions() if policy == NONE else read_options(options)
        self.all_nodes = sum(1 << node.id for node in machine.nodes)
        self._position = {node.id: i for i, node in enumerate(machine.nodes)}
        self._distances: dict[int, tuple[int, ...]] = {}
        if policy == NONE:
            return
        if self.options.prefer_closest:
            for node in machine.nodes:
                if node.distances is None:
                    text = "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
                    raise StartupError(_STAGE, text)
                # A row shorter than the list of nodes is a broken table; the missing distances are the farthest.
                missing = (255,) * (len(machine.nodes) - len(node.distances))
                self._distances[node.id] = node.distances + missing
        if len(machine.nodes) > self.options.max_nodes:
            text = f"unsupported on machines with more than {self.options.max_nodes} NUMA Nodes"
            raise StartupError(_STAGE, text)
        if policy not in POLICIES:
            raise StartupError(_STAGE, f"unknown policy: {quote(policy)}")
        if scope not in SCOPES:
            raise StartupError(_STAGE, f"unknown scope: {quote(scope)}")

    def merge(self, providers: Sequence[Hints | None]) -> tuple[TopologyHint, bool]:
        """Return the merged hint, and whether the policy admits it."""
        hints = collect(providers)
        if self.policy != SINGLE_NUMA_NODE:
            best = merge(hints, self.all_nodes, self._key())
            return best, best.preferred or self.policy == BEST_EFFORT
        best = merge(single_node_only(hints), self.all_nodes, _by_id)
        if best.numa == self.all_nodes:
            best = TopologyHint(None, best.preferred)
        return best, best.preferred

    def _key(self) -> MaskKey:
        return self._by_distance if self.options.prefer_closest else _by_id

    def _by_distance(self, mask: int) -> tuple[float, ...]:
        """Order masks by the average distance of their nodes, then by id."""
        nodes = [i for i in range(mask.bit_length()) if mask >> i & 1]
        total = 0
        for node in nodes:
            row = self._distances.get(node, ())
            # The kubelet takes a node's id for its position in the row, and crashes beyond the row's end; ids differ
            # from positions where they have gaps.
            in_row = nodes[-1] < len(row)
            if not in_row and self.quirks:
                index = next(i for i in nodes if i >= len(row))
                raise KubeletPanic(f"runtime error: index out of range [{index}] with length {len(row)}")
            total += sum(row[other if in_row else self._position[other]] for other in nodes)
        return (total / len(nodes) ** 2, mask)


def _by_id(mask: int) -> tuple[float, ...]:
    return (mask,)
