"""The Memory Manager's part of pod-level resource managers: one group of nodes for a pod, partitioned.

Exclusive blocks for containers that are Guaranteed on their own, the rest shared by the others; a regular init
container without a claim of its own may use all but what sidecars before it own.
Source: KEP-5526 ("Pod Scope Allocation and Partitioning Algorithm").
"""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.allocation.admission import AdmissionError, empty_pod_shared_pool
from toolkit.allocation.memory.requests import container_requests, summed_requests
from toolkit.allocation.memory.state import WORD, Block, to_blocks
from toolkit.kubernetes.pod import Pod, is_memory_resource


def pod_requests(pod: Pod, *, pod_level: bool) -> dict[str, int] | None:
    """Return what the whole pod asks for: its budget, or the sum of its containers; ``None`` without 64-bit view."""
    if not (pod_level and pod.pod_level and pod.resources is not None):
        return summed_requests(pod, pod_level=pod_level)
    found = {}
    for name, amount in pod.resources.requests.items():
        if is_memory_resource(name):
            if amount.as_int64 is None:
                return None
            if amount.as_int64 > 0:
                found[name] = amount.as_int64
    return found


def check_pod_scope(pod: Pod, budget: Mapping[str, int]) -> AdmissionError | None:
    """Find the containers for whose shared pool nothing would be left.

    Source: kubernetes v1.36.2, pkg/kubelet/cm/memorymanager/policy_static.go, ``validatePodScopeResources``.
    """
    taken: dict[str, int] = {}
    shared = False
    for container in pod.containers:
        requests = container_requests(pod, container, pod_level=True)
        if requests is None:
            return empty_pod_shared_pool("[memorymanager] failed to represent quantity as int64")
        if container.is_regular_init:
            empty = [] if requests else [name for name in sorted(budget) if taken.get(name, 0) >= budget[name]]
            if empty:
                text = f"pod rejected, pod has shared init containers but no {empty[0]} available for them"
                return empty_pod_shared_pool(text)
        elif not requests:
            shared = True
        else:
            for name, size in requests.items():
                taken[name] = taken.get(name, 0) + size
    if shared:
        for name in sorted(budget):
            if taken.get(name, 0) >= budget[name]:
                start = f"pod rejected, sum of exclusive container {name} requests equals pod budget"
                return empty_pod_shared_pool(f"{start}, leaving no memory for shared containers")
    return None


def partition(
    pod: Pod, budget: Mapping[str, int], numa: tuple[int, ...], *, quirks: bool = False
) -> dict[str, tuple[Block, ...]]:
    """Split the pod's memory: container name -> blocks.

    What a container asks for beside the budget (huge pages that the budget does not name) is its own block and no part
    of the pool. :param quirks: the pool has such a block too, of less than nothing, which wraps.
    """
    sidecars: dict[str, int] = {}
    apps: dict[str, int] = {}
    shares: dict[str, tuple[Block, ...]] = {}

    def rest(*owners: Mapping[str, int]) -> tuple[Block, ...]:
        left = {name: (total - sum(o.get(name, 0) for o in owners)) % WORD for name, total in budget.items()}
        return to_blocks(numa, {name: size for name, size in left.items() if size})

    for container in pod.containers:
        requests = container_requests(pod, container, pod_level=True) or {}
        if not requests:
            if container.is_regular_init:
                shares[container.name] = rest(sidecars)
            continue
        shares[container.name] = to_blocks(numa, {name: size for name, size in requests.items() if size})
        if not container.is_regular_init:
            owners = sidecars if container.is_sidecar else apps
            for name, size in requests.items():
                owners[name] = owners.get(name, 0) + size
    pool = rest(sidecars, apps)
    if quirks:
        beside = {name: -size % WORD for name, size in apps.items() if name not in budget and size}
        pool = tuple(sorted((*pool, *to_blocks(numa, beside)), key=lambda block: block.type))
    return {container.name: shares.get(container.name, pool) for container in pod.containers}
