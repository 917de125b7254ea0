"""In-place resize of a running pod's CPUs and memory: whether a node can do it, and which CPUs it then has.

The API server refuses first: a pod that is not valid, or more than the node has for all pods. Then the kubelet: what is
infeasible beside its static managers. Then it lets its managers allocate for the pod once more, and at last asks
whether there is room beside the other pods; what refuses there keeps the resize waiting.

In v1.36 no manager knows of resizes: a container keeps the CPUs and memory of its creation and has new shares. One
that comes to ask for whole CPUs gets them, one that does not any more keeps them. What refuses at a restart refuses
here: ``full-pcpus-only`` counts free cores for CPUs that are there already, be it that only memory changes; and
where CPUs of another number are there, Topology Manager policies that reject do so, in pod scope for any container.

``KEP_5554`` is what is planned for the gate: the CPUs of its creation ("promised") are never taken away, growing adds
to what it has, shrinking keeps a part of it that contains the promised ones. Memory blocks are not resized.
Source: Kubernetes v1.36 pkg/kubelet/allocation (handlers.go, allocation_manager.go), pkg/kubelet/kubelet.go (order of
the admit handlers), cpumanager and memorymanager policy_static.go; KEP-1287 "Resize Status"; KEP-5554 "Handling CPU
Limit Increase" and "Decrease"; ``docs/facts.md`` K-resize; ``docs/failures.md`` F65.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from toolkit.allocation.capacity import exceeds_node
from toolkit.allocation.cpu.assignment import CpuShortageError, take_cpus, take_cpus_near
from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.node import Node
from toolkit.allocation.topology.manager import BEST_EFFORT, NONE, SINGLE_NUMA_NODE
from toolkit.kubernetes import feature_gates as gates
from toolkit.kubernetes.pod import CPU, MEMORY, Pod, ResourceList, Resources
from toolkit.model.cpuset import CpuSet
from toolkit.model.scenario import ResizeBehaviour


class ResizeStatus(StrEnum):
    """What becomes of a resize request."""

    DONE = "Done"
    DEFERRED = "Deferred"
    """Not possible now, tried again later."""
    INFEASIBLE = "Infeasible"
    """Never possible on this node, by the kubelet's word."""
    FORBIDDEN = "Forbidden"
    """Never possible on this node, by the API server's word: the kubelet does not hear of it."""
    INVALID = "Invalid"
    """No change that the API server takes of any pod."""


class Resize(NamedTuple):
    """The answer. ``cpus``: container name -> new exclusive CPUs, where they change."""

    status: ResizeStatus
    message: str = ""
    cpus: dict[str, CpuSet] = {}  # noqa: RUF012 - read only


DONE = Resize(ResizeStatus.DONE)
POD_LEVEL_OFF = "InPlacePodLevelResourcesVerticalScaling is disabled"
STATIC_CPU = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
STATIC_MEMORY = 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'


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
    given, found = wanted, node.active.get(wanted.uid)
    current, wanted = found and node.seen(found), node.seen(wanted)
    if current is None or [c.name for c in current.containers] != [c.name for c in wanted.containers]:
        return Resize(ResizeStatus.INVALID, "only resources of a running pod's containers can change")
    if _same(current, wanted):
        # Nothing is asked: neither the API server's admission nor the kubelet looks at what does not change.
        return DONE
    answer = _refused_by_api(node, current, wanted) or _infeasible(node, current, wanted)
    if answer is None:
        policy, planned = node.cpu_policy, behaviour is ResizeBehaviour.KEP_5554 and wanted.guaranteed
        if planned and isinstance(policy, StaticPolicy) and not policy.unmanaged(given):
            answer = _as_planned(node, policy, wanted, promised or {})
        else:
            answer = _as_v1_36(node, given)
    if answer.status is ResizeStatus.DONE:
        node.active[given.uid] = given
    return answer


def _same(current: Pod, wanted: Pod) -> bool:
    pairs = zip(current.containers, wanted.containers, strict=True)
    return _nano(current.resources) == _nano(wanted.resources) and all(
        _nano(old.resources) == _nano(new.resources) for old, new in pairs
    )


def _nano(resources: Resources | None) -> list[dict[str, int]] | None:
    """Return requests and limits in a form that compares by amount, not by spelling."""
    parts: list[ResourceList] = [] if resources is None else [resources.requests, resources.limits]
    return None if resources is None else [{name: amount.nano for name, amount in part.items()} for part in parts]


def _refused_by_api(node: Node, current: Pod, wanted: Pod) -> Resize | None:
    if wanted.invalid:
        return Resize(ResizeStatus.INVALID, wanted.invalid)
    if current.qos_class is not wanted.qos_class:
        return Resize(ResizeStatus.INVALID, "Pod QOS Class may not change as a result of resizing")
    excess = exceeds_node(wanted, node.allocatable)
    return Resize(ResizeStatus.FORBIDDEN, f'pods "{wanted.name}" is forbidden: {excess}') if excess else None


def _infeasible(node: Node, current: Pod, wanted: Pod) -> Resize | None:
    """Return what the kubelet never does, in the order of its checks."""
    message = ""
    if not node.gates[gates.IN_PLACE_RESIZE_POD_LEVEL] and _nano(current.resources) != _nano(wanted.resources):
        message = POD_LEVEL_OFF
    elif wanted.guaranteed:
        static = node.cpu_policy.name == "static" and not node.gates[gates.IN_PLACE_RESIZE_EXCLUSIVE_CPUS]
        pinned = node.memory.active and not node.gates[gates.IN_PLACE_RESIZE_EXCLUSIVE_MEMORY]
        if static and _differs(current, wanted, CPU):
            message = STATIC_CPU
        elif pinned and _differs(current, wanted, MEMORY):
            message = STATIC_MEMORY
    return Resize(ResizeStatus.INFEASIBLE, message) if message else None


def _differs(current: Pod, wanted: Pod, resource: str) -> bool:
    pairs = zip(current.containers, wanted.containers, strict=True)
    return any(old.request(resource).nano != new.request(resource).nano for old, new in pairs)


def _waits(node: Node, wanted: Pod) -> str:
    """Return the resource of which the other pods leave too little."""
    others = (pod for uid, pod in node.active.items() if uid != wanted.uid)
    lack = node.lacking(wanted, others)
    return "" if lack is None else lack.message


def _as_v1_36(node: Node, wanted: Pod) -> Resize:
    """Admit the pod once more, as a kubelet does that knows of no difference between a new pod and a resized one."""
    cpus, memory, hints = node.cpu_state, node.memory.copy(), dict(node.hints.get(wanted.uid, {}))
    admission = node.attempt(wanted)
    message = _waits(node, wanted) if admission.admitted else admission.message
    if not node.quirks:
        # The kubelet keeps what the attempt has allocated, even if the resize has to wait. A pod with a budget gets
        # other CPUs and memory, those of before stay taken; ended init containers get memory again.
        node.memory = memory
        if message or wanted.uid in cpus.pods:
            node.cpu_state = cpus
        if message and hints:
            node.hints[wanted.uid] = hints
    if message:
        return Resize(ResizeStatus.DEFERRED, message)
    now = node.cpu_state.entries.get(wanted.uid, {})
    return Resize(ResizeStatus.DONE, cpus={n: own for n, own in now.items() if own != cpus.assigned(wanted.uid, n)})


def _as_planned(node: Node, policy: StaticPolicy, wanted: Pod, promised: dict[str, CpuSet]) -> Resize:
    answer = _exclusive(node, policy, wanted, promised)
    if answer.status is not ResizeStatus.DONE:
        return answer
    if lacking := _waits(node, wanted):
        return Resize(ResizeStatus.DEFERRED, lacking)
    for name, cpus in answer.cpus.items():
        old = node.cpu_state.assigned(wanted.uid, name) or CpuSet()
        state = node.cpu_state.with_entry(wanted.uid, name, cpus)
        node.cpu_state = state._replace(default=(state.default | old) - cpus)
    return answer


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
