"""In-place resize of a running pod's CPUs and memory: whether a node can do it, and which CPUs it then has.

A kubelet v1.36 cannot resize the CPUs of a Guaranteed pod beside the static policy, nor its memory beside the Static
memory manager. With the gate ``InPlacePodVerticalScalingExclusiveCPUs`` it takes the request, but no manager resizes:
the container keeps the CPUs of its creation and has new shares ("no change"), and Topology Manager policies that reject
refuse the request, because CPUs of another number are there already.

``KEP_5554`` is what is planned for the gate: the CPUs of its creation ("promised") are never taken away, growing adds
to what it has, shrinking keeps a part of it that contains the promised ones. Memory blocks are not resized.
Source: Kubernetes v1.36.2 pkg/kubelet/allocation/handlers.go, cpumanager/policy_static.go (GetTopologyHints, Allocate);
KEP-1287 "Resize Status"; KEP-5554 "Handling CPU Limit Increase" and "Decrease"; ``docs/failures.md`` F65.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from toolkit.allocation.cpu.assignment import CpuShortageError, take_cpus, take_cpus_near
from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.node import Node
from toolkit.allocation.topology.manager import BEST_EFFORT, NONE, SINGLE_NUMA_NODE
from toolkit.model import feature_gates as gates
from toolkit.model.cpuset import CpuSet
from toolkit.model.pod import CPU, MEMORY, Pod, ResourceList, aggregate
from toolkit.model.quantity import ZERO
from toolkit.model.scenario import ResizeBehaviour


class ResizeStatus(StrEnum):
    """What becomes of a resize request."""

    DONE = "Done"
    DEFERRED = "Deferred"
    """Not possible now, tried again later."""
    INFEASIBLE = "Infeasible"
    """Never possible on this node."""


class Resize(NamedTuple):
    """The answer. ``cpus``: container name -> new exclusive CPUs, where they change."""

    status: ResizeStatus
    message: str = ""
    cpus: dict[str, CpuSet] = {}  # noqa: RUF012 - read only


STATIC_CPU = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
STATIC_MEMORY = 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'
AFFINITY = "TopologyAffinityError: Resources cannot be allocated with Topology locality"


def resize(
    node: Node,
    wanted: Pod,
    promised: dict[str, CpuSet] | None = None,
    *,
    behaviour: ResizeBehaviour = ResizeBehaviour.V1_36,
) -> Resize:
    """Decide a resize, and carry it out on the node if it can be done.

    :param wanted: the running pod with its new resources. :param promised: each container's exclusive CPUs at its
        creation; those it has now where nothing is given (``ResizeBehaviour.KEP_5554``).
    """
    current = node.active.get(wanted.uid)
    if current is None or [c.name for c in current.containers] != [c.name for c in wanted.containers]:
        return Resize(ResizeStatus.INFEASIBLE, "only resources of a running pod's containers can change")
    if current.qos_class is not wanted.qos_class:
        return Resize(ResizeStatus.INFEASIBLE, "Pod QOS Class may not change as a result of resizing")
    if wanted.guaranteed:
        static = node.cpu_policy.name == "static" and not node.gates[gates.IN_PLACE_RESIZE_EXCLUSIVE_CPUS]
        if static and _differs(current, wanted, CPU):
            return Resize(ResizeStatus.INFEASIBLE, STATIC_CPU)
        if node.memory.active and _differs(current, wanted, MEMORY):
            kept = node.gates[gates.IN_PLACE_RESIZE_EXCLUSIVE_MEMORY]
            return Resize(ResizeStatus.INFEASIBLE, "memory blocks cannot be resized" if kept else STATIC_MEMORY)
    answer = _capacity(node, wanted)
    if answer.status is ResizeStatus.DONE and isinstance(node.cpu_policy, StaticPolicy) and wanted.guaranteed:
        if behaviour is ResizeBehaviour.KEP_5554:
            answer = _exclusive(node, node.cpu_policy, wanted, promised or {})
        else:
            answer = _unmoved(node, node.cpu_policy, wanted)
    if answer.status is ResizeStatus.DONE:
        for name, cpus in answer.cpus.items():
            old = node.cpu_state.assigned(wanted.uid, name) or CpuSet()
            state = node.cpu_state.with_entry(wanted.uid, name, cpus)
            node.cpu_state = state._replace(default=(state.default | old) - cpus)
        node.active[wanted.uid] = wanted
    return answer


def _differs(current: Pod, wanted: Pod, resource: str) -> bool:
    pairs = zip(current.containers, wanted.containers, strict=True)
    return any(old.request(resource).nano != new.request(resource).nano for old, new in pairs)


def _requests(pod: Pod) -> ResourceList:
    budget = pod.resources.requests if pod.pod_level and pod.resources is not None else {}
    return {**aggregate(pod), **budget}


def _capacity(node: Node, wanted: Pod) -> Resize:
    """Compare with what the node has for pods at all, then with what the other pods leave."""
    capacity = node.allocatable
    asked = _requests(wanted)
    memory, cpu = asked.get(MEMORY, ZERO).value, asked.get(CPU, ZERO).milli
    has_memory, has_cpu = capacity[MEMORY].value, capacity[CPU].milli
    if memory > has_memory:
        detail = f"memory, requested: {memory}, capacity: {has_memory}"
        return Resize(ResizeStatus.INFEASIBLE, f"Node didn't have enough capacity: {detail}")
    if cpu > has_cpu:
        detail = f"cpu, requested: {cpu}, capacity: {has_cpu}"
        return Resize(ResizeStatus.INFEASIBLE, f"Node didn't have enough capacity: {detail}")
    others = [_requests(pod) for uid, pod in node.active.items() if uid != wanted.uid]
    used_cpu = sum(requests.get(CPU, ZERO).milli for requests in others)
    used_memory = sum(requests.get(MEMORY, ZERO).value for requests in others)
    if used_cpu + cpu > has_cpu:
        detail = f"cpu, requested: {cpu}, used: {used_cpu}, capacity: {has_cpu}"
        return Resize(ResizeStatus.DEFERRED, f"Node didn't have enough resource: {detail}")
    if used_memory + memory > has_memory:
        detail = f"memory, requested: {memory}, used: {used_memory}, capacity: {has_memory}"
        return Resize(ResizeStatus.DEFERRED, f"Node didn't have enough resource: {detail}")
    return Resize(ResizeStatus.DONE)


def _unmoved(node: Node, policy: StaticPolicy, wanted: Pod) -> Resize:
    """Say what v1.36 says when it is asked to admit the pod once more: CPUs that are there are taken as they are."""
    for container in wanted.containers:
        owned = node.cpu_state.assigned(wanted.uid, container.name)
        count = policy.requested(wanted, container)
        if not owned or not count or count == len(owned):
            continue
        if node.topology.policy not in (NONE, BEST_EFFORT):
            return Resize(ResizeStatus.DEFERRED, AFFINITY)
        refusal = policy.options.refuse_request(node.machine, count)
        if refusal:
            return Resize(ResizeStatus.DEFERRED, refusal)
    return Resize(ResizeStatus.DONE)


def _exclusive(node: Node, policy: StaticPolicy, wanted: Pod, promised: dict[str, CpuSet]) -> Resize:
    """Find the new CPUs of every container whose exclusive number changes."""
    found: dict[str, CpuSet] = {}
    free = policy.available(node.cpu_state, wanted, None)
    for container in wanted.containers:
        owned = node.cpu_state.assigned(wanted.uid, container.name)
        count = policy.requested(wanted, container)
        if owned is None or not count:
            if bool(owned) != bool(count):
                text = f"container {container.name} cannot change between exclusive and shared CPUs"
                return Resize(ResizeStatus.INFEASIBLE, text)
            continue
        if count == len(owned):
            continue
        refusal = policy.options.refuse_request(node.machine, count)
        if refusal:
            return Resize(ResizeStatus.INFEASIBLE, refusal)
        kept = promised.get(container.name, owned)
        if count < len(kept):
            text = f"container {container.name} cannot have {count} CPUs: {kept} were promised at its creation"
            return Resize(ResizeStatus.INFEASIBLE, text)
        try:
            if count < len(owned):
                part = take_cpus(node.machine, owned - kept, count - len(kept), policy.options)
                found[container.name] = kept | part
            else:
                found[container.name] = _grown(node, policy, owned, count, free)
        except CpuShortageError as error:
            return Resize(ResizeStatus.DEFERRED, str(error))
        free -= found[container.name]
        if not _topology_holds(node, owned, found[container.name]):
            text = f"container {container.name}: {count} CPUs are not to be had as {node.topology.policy} wants"
            return Resize(ResizeStatus.INFEASIBLE, text)
    return Resize(ResizeStatus.DONE, cpus=found)


def _grown(node: Node, policy: StaticPolicy, owned: CpuSet, count: int, free: CpuSet) -> CpuSet:
    """Add CPUs to those owned: of the NUMA nodes that it uses first."""
    used = tuple(numa for numa, mask in node.machine.numa_masks.items() if mask & owned.mask)
    return owned | take_cpus_near(node.machine, free, count - len(owned), policy.options, used)


def _topology_holds(node: Node, before: CpuSet, after: CpuSet) -> bool:
    """Check the promise of the Topology Manager's policy for the new CPUs."""
    policy = node.topology.policy
    if policy in (NONE, BEST_EFFORT):
        return True
    used = [mask for mask in node.machine.numa_masks.values() if mask & after.mask]
    if policy == SINGLE_NUMA_NODE:
        return len(used) == 1
    if any(mask & after.mask and not mask & before.mask for mask in node.machine.numa_masks.values()):
        sizes = sorted((mask.bit_count() for mask in node.machine.numa_masks.values()), reverse=True)
        fewest = next((n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) >= len(after)), len(sizes))
        return len(used) <= fewest
    return True
