"""A plan's decisions in words: which rule gave a container its CPUs, memory, quota and weight, why a pod was refused.

Source: the rules are those of Kubernetes documentation "Node resource managers" (``docs/specification.md``) and
KEP-5526.
"""

from __future__ import annotations

from toolkit.allocation import admission as refusals
from toolkit.allocation.admission import Admission
from toolkit.allocation.cgroup_values import CpuValues
from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.cpu.requests import whole_cpus
from toolkit.allocation.device.manager import DEVICES_UNAVAILABLE
from toolkit.allocation.node import Node
from toolkit.allocation.qos import container_quota_disabled
from toolkit.allocation.topology.manager import NONE, POD_SCOPE
from toolkit.kubernetes.kubelet_version import MODELLED
from toolkit.kubernetes.pod import CPU, Container, Pod
from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.cpuset import cpus_text

_QUOTAS_OFF = "CFS quotas are off on this node (cpuCFSQuota: false)"


def container_reasons(node: Node, pod: Pod, container: Container, isolation: Isolation, values: CpuValues) -> list[str]:
    """Explain one admitted container, one line per decision."""
    lines = [_cpu_reason(node, pod, container, isolation)]
    hint = node.hints.get(pod.uid, {}).get(container.name)
    if hint is not None and node.topology.policy != NONE:
        lines.append(_hint_reason(node, hint.numa, hint.preferred))
    mems = node.memory.numa_nodes(pod.uid, container.name)
    if mems:
        blocks = node.memory.state.blocks(pod.uid, container.name) or ()
        sizes = ", ".join(f"{block.size} bytes of {block.type}" for block in blocks)
        lines.append(f"memory: the Memory Manager holds {sizes} on NUMA node {','.join(map(str, mems))}")
    elif node.memory.active:
        lines.append(f"memory: any NUMA node ({_no_memory_reason(node, pod, container)})")
    for resource, ids in sorted(node.devices.owners.get((pod.uid, container.name), {}).items()):
        lines.append(f"devices: {', '.join(ids)} of {resource}")
    lines.append(_quota_reason(node, container, isolation, values))
    request = container.resources.requests.get(CPU)
    source = f"CPU request {request}" if request is not None else "no CPU request"
    lines.append(f"weight: cpu.shares {values.shares} ({source})")
    return lines


def _cpu_reason(node: Node, pod: Pod, container: Container, isolation: Isolation) -> str:
    policy, state = node.cpu_policy, node.cpu_state
    if not isinstance(policy, StaticPolicy):
        return "CPUs: any (CPU Manager policy none hands no CPU set over)"
    cpus = state.cpus_of(pod.uid, container.name)
    if isolation is Isolation.POD:
        return f"{cpus_text(cpus)}: the pod's shared pool, what exclusive containers leave of its {state.pods[pod.uid]}"
    if isolation is Isolation.CONTAINER:
        count = len(cpus)
        request = f"a Guaranteed container with a whole CPU request ({container.request(CPU)})"
        how = f"chosen {_method(policy)}{_near(node, pod, container)}"
        if pod.uid in state.pods:
            return f"{cpus_text(cpus)}: an exclusive part of the pod's CPUs {state.pods[pod.uid]} for {request}"
        before = _taken_over(node, pod, container)
        return f"{cpus_text(cpus)}: {count} exclusive for {request}, {how}{before}"
    why = _why_shared(node, pod, container)
    if not cpus:
        return f"CPUs: no CPU set, because the shared pool is empty; {why}"
    kept = "without" if policy.strict_reservation else "with"
    reserved = cpus_text(policy.reserved)
    return f"{cpus_text(cpus)}: the node's shared pool ({kept} the reserved {reserved}); {why}"


def _method(policy: StaticPolicy) -> str:
    names = policy.options.choosing
    return f"by {', '.join(names)}" if names else "packed (whole sockets, NUMA nodes and cores first)"


def _near(node: Node, pod: Pod, container: Container) -> str:
    hint = node.hints.get(pod.uid, {}).get(container.name)
    if hint is None or hint.numa is None:
        return ""
    return f" on NUMA node {_nodes(hint.numa)} first"


def _taken_over(node: Node, pod: Pod, container: Container) -> str:
    mine = node.cpu_state.cpus_of(pod.uid, container.name)
    for other in pod.init_containers:
        if other.name == container.name:
            break
        theirs = node.cpu_state.assigned(pod.uid, other.name)
        if other.is_regular_init and theirs is not None and theirs.mask & mine.mask:
            return f"; {theirs & mine} taken over from init container {other.name}, which has ended by then"
    return ""


def _why_shared(node: Node, pod: Pod, container: Container) -> str:
    if not pod.guaranteed:
        return f"its pod is {pod.qos_class.value}, only Guaranteed pods get exclusive CPUs"
    if pod.pod_level and not node.gates.pod_level_managers:
        return "its pod has a pod-level budget, which the managers ignore without PodLevelResourceManagers"
    if pod.pod_level and not container.guaranteed:
        return "it is not Guaranteed by itself, and its pod has no CPU set of its own"
    if not whole_cpus(container.request(CPU)):
        return f"its CPU request {container.request(CPU)} is not a whole number"
    return "its pod's CPU budget is not a whole number"


def _hint_reason(node: Node, numa: int | None, preferred: bool) -> str:
    topology = node.topology
    if preferred and numa in (None, topology.all_nodes) and topology.all_nodes.bit_count() > 1:
        return f"topology: any NUMA node ({topology.policy})"
    where = "no NUMA node in particular" if numa is None else f"NUMA node {_nodes(numa)}"
    best = "as few nodes as possible" if preferred else "more nodes than an empty machine would need"
    unit = "pod" if topology.scope == POD_SCOPE else "container"
    return f"topology: {where} for the {unit} ({topology.policy}: {best})"


def _nodes(mask: int) -> str:
    return ",".join(str(i) for i in range(mask.bit_length()) if mask >> i & 1)


def _no_memory_reason(node: Node, pod: Pod, container: Container) -> str:
    if not pod.guaranteed:
        return f"its pod is {pod.qos_class.value}"
    if container.is_regular_init:
        return "it has ended, its memory is free again"
    return "it has no guaranteed memory of its own"


def _quota_reason(node: Node, container: Container, isolation: Isolation, values: CpuValues) -> str:
    limit = container.resources.limits.get(CPU)
    if values.quota_us != NO_QUOTA:
        source = f"CPU limit {limit}" if limit else "the pod's CPU limit"
        return f"quota: {values.quota_us} us per {values.period_us} us ({source})"
    if container_quota_disabled(isolation, node.gates):
        return "quota: none, because its CPUs are exclusive"
    if not node.config.cpu_cfs_quota:
        return f"quota: none, because {_QUOTAS_OFF}"
    if limit is not None:
        return "quota: none, because a CPU limit of 0 is no limit"
    return "quota: none, because it has no CPU limit"


def pod_reasons(node: Node, pod: Pod, values: CpuValues, *, quota_disabled: bool) -> list[str]:
    """Explain what holds for an admitted pod as a whole."""
    lines = [f"QoS class {pod.qos_class.value}" + (" by its pod-level budget" if pod.resources is not None else "")]
    cpus = node.cpu_state.pods.get(pod.uid)
    if cpus is not None:
        lines.append(f"{cpus_text(cpus)}: reserved for the pod as a whole, by its pod-level budget")
    if quota_disabled:
        lines.append("quota: none on the pod's cgroup, because it would throttle exclusive CPUs")
    elif values.quota_us != NO_QUOTA:
        lines.append(f"quota: {values.quota_us} us per {values.period_us} us on the pod's cgroup")
    elif not node.config.cpu_cfs_quota:
        lines.append(f"quota: none on the pod's cgroup, because {_QUOTAS_OFF}")
    else:
        lines.append("quota: none on the pod's cgroup, because not every container is limited")
    return lines


def refusal(node: Node, pod: Pod, result: Admission) -> str:
    """Explain why a pod was refused."""
    topology = node.topology
    if result.reason == refusals.INVALID:
        return f"refused by the API server, before any node: {result.message}"
    if result.reason.startswith(refusals.OUT_OF):
        return f"refused by the kubelet's predicate, once its managers had allocated: {result.message}"
    if result.reason == refusals.TOPOLOGY_AFFINITY:
        wanted = "on one NUMA node" if topology.policy == "single-numa-node" else "on as few NUMA nodes as possible"
        unit = "the pod" if topology.scope == POD_SCOPE else "one of its containers"
        return f"refused by the Topology Manager ({topology.policy}): what {unit} asks for is not to be had {wanted}"
    if result.reason == refusals.SMT_ALIGNMENT:
        return f"refused by the CPU Manager: full-pcpus-only gives whole cores only. {result.message}"
    if result.reason == refusals.EMPTY_POD_SHARED_POOL:
        return "refused: its exclusive containers use up the pod's budget, and others need a share of it"
    if DEVICES_UNAVAILABLE in result.message:
        return f"refused by the Device Manager: {result.message}"
    free = node.cpu_state.default
    manager = "Memory Manager" if "[memorymanager]" in result.message else "CPU Manager"
    text = f"refused by the {manager}: {result.message} (shared pool now: {free or 'none'})"
    others = [one.name for one in pod.containers if not one.guaranteed]
    if "[memorymanager]" in result.message and pod.pod_level and topology.scope != POD_SCOPE and others:
        # KEP-5526 rejects nothing in container scope; the Memory Manager looks for nodes for a request of nothing.
        text += (
            f". KEP-5526 lets containers that are not Guaranteed ({', '.join(others)}) run in the node's pool in "
            f"container scope; kubelet {MODELLED} refuses such a pod"
        )
    return text
