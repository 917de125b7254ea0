"""What a node promises about where a container's CPUs lie: from the pod's request, the options and the machine.

Never from the CPUs that were chosen: a choice that breaks a guarantee fails its rule, it does not lose the promise.
Source: Kubernetes documentation "Control CPU Management Policies" and "Topology Manager" (``docs/specification.md``);
KEP-5526 for pods with a budget of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.cpu.requests import pod_exclusive_cpus
from toolkit.allocation.node import Node
from toolkit.allocation.topology.manager import NONE, POD_SCOPE, RESTRICTED, SINGLE_NUMA_NODE
from toolkit.kubernetes.pod import Container, Pod
from toolkit.model.claims import Alignment, Preference


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """About one container. :param max_numa_nodes: the most NUMA nodes that its CPUs may lie on; ``None``: any.

    With :attr:`Alignment.NUMA_POD` that number is one of the pod's CPUs together.
    """

    alignments: tuple[Alignment, ...] = ()
    preferences: tuple[Preference, ...] = ()
    max_numa_nodes: int | None = None
    devices: tuple[str, ...] = ()
    """Of its devices those that must sit on the NUMA node of its CPUs; of others the node does not know where they sit.
    """


def promised(node: Node, pod: Pod, container: Container) -> Promised:
    """Return what the node's options guarantee and prefer for a container that asks for CPUs of its own, or whose pod
    does as a whole.
    """
    policy = node.cpu_policy
    if not isinstance(policy, StaticPolicy) or policy.unmanaged(pod):
        return Promised()
    pod_scope = node.topology.scope == POD_SCOPE and node.topology.policy != NONE
    budget = pod.pod_level and policy.pod_level_managers and pod_scope
    own = policy.requested(pod, container)
    total = pod_exclusive_cpus(pod, pod_level_managers=policy.pod_level_managers)
    if not own and not (budget and total):
        return Promised()
    found = list(policy.options.guarantees(budget=budget))
    if node.topology.policy == SINGLE_NUMA_NODE:
        found.append(Alignment.NUMA)
    widest = _widest(node, policy.options, total if pod_scope else own)
    if pod_scope and (Alignment.NUMA in found or widest is not None):
        found.append(Alignment.NUMA_POD)
    preferences = policy.options.preferences()
    if node.topology.policy != NONE:
        preferences += node.topology.options.preferences()
    return Promised(
        alignments=tuple(alignment for alignment in Alignment if alignment in found),
        preferences=preferences,
        max_numa_nodes=widest,
        devices=node.devices.placed(pod, container) if Alignment.NUMA in found else (),
    )


def _widest(node: Node, options: CpuPolicyOptions, count: int) -> int | None:
    """Return the fewest nodes of this machine that hold so many CPUs, where policy ``restricted`` allows no more.

    Where an option prefers whole sockets any node of one will do.
    """
    if node.topology.policy != RESTRICTED or options.widens_to_sockets:
        return None
    sizes = sorted((mask.bit_count() for mask in node.machine.numa_masks.values()), reverse=True)
    return next((width for width in range(1, len(sizes)) if sum(sizes[:width]) >= count), len(sizes))
