"""The Memory Manager: guaranteed memory and hugepages of Guaranteed pods on NUMA nodes, container by container.

The pod-level part (KEP-5526, pod scope) is :mod:`toolkit.allocation.pod_level.memory`.
Source: Kubernetes documentation "Control Memory Management Policies on a Node";
``docs/simulate-format.md`` section "Memory manager".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy

from toolkit.allocation.admission import unexpected
from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.hints import HintMaker, Requests, best_hint, violates_groups
from toolkit.allocation.memory.requests import container_requests
from toolkit.allocation.memory.start import NONE, Reserved, validate
from toolkit.allocation.memory.state import Block, MemoryState, NodeState, to_blocks
from toolkit.allocation.pod_level.memory import check_pod_scope, partition, pod_requests
from toolkit.allocation.topology.hint import NO_AFFINITY, Hints, TopologyHint
from toolkit.kubernetes.pod import MEMORY, Container, Pod

_PREFIX = "[memorymanager]"


class MemoryManager:
    """The ``Static`` and ``None`` policies over one state.

    :param pod_level: the pod-level resource managers are on.
    """

    def __init__(
        self, policy: str, machine: Machine, reserved: Reserved, *, pod_level: bool = False, quirks: bool = False
    ) -> None:
        self.policy = policy
        self.pod_level = pod_level
        self.machine = machine
        self._quirks = quirks
        self.state = MemoryState()
        self._reserved = reserved
        self._hints = HintMaker([node.id for node in machine.nodes] if self.active else (), quirks=quirks)
        self._reusable: dict[tuple[int, str], int] = {}
        self._reusable_of = ""

    @property
    def active(self) -> bool:
        """Whether this is the ``Static`` policy."""
        return self.policy != NONE

    def start(self, restored: MemoryState) -> None:
        """Begin with a restored (or empty) state.

        :raises StartupError: the state does not fit the machine or the configuration.
        """
        self.state = restored
        if self.active:
            validate(restored, self.machine, self._reserved, pod_level=self.pod_level, quirks=self._quirks)

    def _ignores(self, pod: Pod) -> bool:
        return not self.active or not pod.guaranteed or (pod.pod_level and not self.pod_level)

    # Hints

    def pod_hints(self, pod: Pod) -> Hints | None:
        """Answer the Topology Manager's question about a whole pod; ``None``: no opinion."""
        if self._ignores(pod):
            return None
        requests = pod_requests(pod, pod_level=self.pod_level)
        if requests is None:
            return None
        if pod.pod_level and check_pod_scope(pod, requests) is not None:
            return dict.fromkeys(requests, ())
        for container in pod.containers:
            blocks = self.state.blocks(pod.uid, container.name)
            if blocks is not None:
                return _hints_of(blocks, requests)
        return self._hints.hints(self.state, requests, self._reusable_for(pod))

    def container_hints(self, pod: Pod, container: Container) -> Hints | None:
        """Answer the Topology Manager's question about one container; ``None``: no opinion."""
        if self._ignores(pod):
            return None
        requests = container_requests(pod, container, pod_level=self.pod_level)
        if requests is None:
            return None
        blocks = self.state.blocks(pod.uid, container.name)
        if blocks is not None:
            return _hints_of(blocks, requests)
        return self._hints.hints(self.state, requests, self._reusable_for(pod))

    # Allocation

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint = NO_AFFINITY) -> None:
        """Give a container its memory, unless it has it already.

        :raises AdmissionError: there is not enough on nodes that may be used.
        """
        if self._ignores(pod):
            return
        blocks = self.state.blocks(pod.uid, container.name)
        if blocks is not None:
            self._note_reusable(pod, container, blocks)
            return
        requests = container_requests(pod, container, pod_level=self.pod_level)
        if requests is None:
            raise unexpected(f"{_PREFIX} failed to represent quantity as int64")
        mask = self._choose(pod, requests, affinity)
        numa = self._hints.nodes_of(mask)
        blocks = to_blocks(numa, requests)
        for block in blocks:
            reused = min(block.size, self._reusable_for(pod)(mask, block.type))
            self.state.take(numa, block.type, block.size - reused)
        self._note_reusable(pod, container, blocks)
        self.state.set_blocks(pod.uid, container.name, blocks)
        self._shrink_init_containers(pod, container, blocks)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint = NO_AFFINITY) -> None:
        """Give a pod-level pod one group of nodes and partition its memory among the containers (pod scope).

        :raises AdmissionError: there is not enough, or its shared containers would get nothing.
        """
        if not self.active or not pod.guaranteed:
            return
        requests = pod_requests(pod, pod_level=self.pod_level)
        if requests is None:
            return
        empty_pool = check_pod_scope(pod, requests)
        if empty_pool is not None:
            raise empty_pool
        numa = self._hints.nodes_of(self._choose(pod, requests, affinity))
        shares = partition(pod, requests, numa, quirks=self._quirks)
        self.state.pod_entries[pod.uid] = to_blocks(numa, requests)
        for name in sorted(requests):
            self.state.take(numa, name, requests[name])
        for container in pod.containers:
            self.state.set_blocks(pod.uid, container.name, shares[container.name])

    def _choose(self, pod: Pod, requests: Requests, affinity: TopologyHint) -> int:
        """Turn the Topology Manager's hint into the nodes to use: its own choice, extended if too small."""
        hint = affinity
        if hint.numa is None:
            possible = self._hints.hints(self.state, requests, self._reusable_for(pod))
            if not possible:
                cause = "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
                raise unexpected(f"{_PREFIX} {cause}")
            default = best_hint(possible.get(MEMORY) or next(iter(possible.values())))
            if affinity.preferred and not default.preferred:
                raise unexpected(f"{_PREFIX} failed to find the default preferred hint")
            hint = default
        mask = hint.numa or 0
        if any(self._hints.free(self.state, mask, name) < size for name, size in requests.items()):
            possible = self._hints.hints(self.state, requests, self._reusable_for(pod))
            wider = [h for h in possible.get(MEMORY, ()) if mask & ~(h.numa or 0) == 0]
            if not wider:
                raise unexpected(f"{_PREFIX} failed to find NUMA nodes to extend the current topology hint")
            extended = best_hint(wider)
            if hint.preferred and not extended.preferred:
                raise unexpected(f"{_PREFIX} failed to find the extended preferred hint")
            mask = extended.numa or 0
        if violates_groups(self.state, self._hints.nodes_of(mask)):
            raise unexpected(f"{_PREFIX} preferred hint violates NUMA node allocation")
        return mask

    # Init containers

    def _reusable_for(self, pod: Pod) -> _Reusable:
        return _Reusable(self._reusable if self._reusable_of == pod.uid else {})

    def _note_reusable(self, pod: Pod, container: Container, blocks: Sequence[Block]) -> None:
        """Regular init containers leave their memory to those after them; the others use it up."""
        if self._reusable_of != pod.uid:
            self._reusable, self._reusable_of = {}, pod.uid
        for block in blocks:
            key = (sum(1 << node for node in block.numa), block.type)
            left = self._reusable.get(key, 0)
            if container.is_regular_init:
                self._reusable[key] = max(left, block.size)
            elif left:
                self._reusable[key] = max(0, left - block.size)

    def _shrink_init_containers(self, pod: Pod, container: Container, blocks: Sequence[Block]) -> None:
        """Take what a container reuses off the blocks of the init containers before it, so that the sum is right."""
        for block in blocks:
            left = block.size
            for init in pod.init_containers:
                if init.name == container.name or left == 0:
                    break
                mine = self.state.blocks(pod.uid, init.name)
                if init.is_sidecar or not mine:
                    continue
                kept = []
                for other in mine:
                    if other.type == block.type and other.numa == block.numa:
                        used = min(other.size, left)
                        other, left = other._replace(size=other.size - used), left - used
                    kept.append(other)
                self.state.set_blocks(pod.uid, init.name, tuple(kept))

    # Life of a container

    def copy(self) -> MemoryManager:
        """Return one of the same node with a state of its own."""
        other = copy(self)
        other.state, other._reusable = deepcopy(self.state), dict(self._reusable)
        return other

    def add_container(self, pod: Pod, container: Container) -> None:
        """Note that a container starts: the regular init containers before it have ended, so their memory is free."""
        if not self.active:
            return
        for init in pod.init_containers:
            if init.name == container.name:
                break
            if init.is_regular_init:
                self.remove_container(pod.uid, init.name)

    def remove_container(self, uid: str, name: str) -> None:
        """Take a container's memory back; a pod-level pod keeps all of it until its last container goes."""
        if self.pod_level and uid in self.state.pod_entries:
            self.state.delete(uid, name)
            if uid not in self.state.entries:
                self.state.release(self.state.pod_entries.pop(uid))
            return
        blocks = self.state.blocks(uid, name)
        if blocks is not None:
            self.state.delete(uid, name)
            self.state.release(blocks)

    def remove_stale(self, active: Mapping[str, Pod]) -> None:
        """Remove what belongs to no container of an active pod."""
        for uid, containers in list(self.state.entries.items()):
            for name in list(containers):
                if uid not in active or active[uid].container(name) is None:
                    self.remove_container(uid, name)

    def numa_nodes(self, uid: str, container: str) -> tuple[int, ...]:
        """Return the nodes handed to the runtime as ``cpuset.mems``; none if empty."""
        blocks = self.state.blocks(uid, container) or ()
        return tuple(sorted({node for block in blocks for node in block.numa}))

    def node_states(self) -> Mapping[int, NodeState]:
        """Return the NUMA nodes as they are now."""
        return self.state.nodes


class _Reusable:
    """What a pod may reuse of its init containers, by NUMA mask and type."""

    __slots__ = ("_sizes",)

    def __init__(self, sizes: Mapping[tuple[int, str], int]) -> None:
        self._sizes = sizes

    def __call__(self, mask: int, name: str) -> int:
        return self._sizes.get((mask, name), 0) if self._sizes else 0


def _hints_of(blocks: Sequence[Block], requests: Requests) -> Hints | None:
    """Answer with what is allocated already; no opinion where that is not what is requested now."""
    if len(blocks) != len(requests) or any(requests.get(block.type) != block.size for block in blocks):
        return None
    return {b.type: (TopologyHint(sum(1 << node for node in b.numa), True),) for b in blocks}
