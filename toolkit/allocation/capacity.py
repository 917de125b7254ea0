"""What a node has for pods against what they ask for, as the API server and the kubelet count it on a resize.

Both go by the node's status (allocatable: without reservations, hard eviction threshold and, of memory, huge pages) and
by a pod's effective requests. The API server asks whether the node could ever do it, the kubelet whether it can now.
Source: Kubernetes v1.36 plugin/pkg/admission/podresize (``PodResizeValidator``), pkg/kubelet/lifecycle/predicate.go,
pkg/scheduler/framework/plugins/noderesources (``Fits``); ``docs/facts.md`` K-resize.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolkit.model.pod import CPU, HUGEPAGES_PREFIX, MEMORY, Pod, effective_requests
from toolkit.model.quantity import ZERO, Quantity


def exceeds_node(pod: Pod, allocatable: Mapping[str, Quantity]) -> str:
    """Return the API server's message if the pod requests more than the node has for all pods; else nothing."""
    asked = effective_requests(pod)
    over = [
        f"{name}, requested: {_number(name, asked)}, allocatable: {_number(name, allocatable)}"
        for name in (CPU, MEMORY)
        if name in asked and name in allocatable and asked[name].nano > allocatable[name].nano
    ]
    return f"node didn't have enough allocatable resources: {'; '.join(over)}" if over else ""


def lacks_room(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, Quantity], *, pod_level: bool) -> str:
    """Return the kubelet's message if the other pods leave too little of a resource; else nothing.

    It names the first: CPU, memory, then huge pages (those in no order that it promises; here by name).
    :param pod_level: feature gate ``PodLevelResources``.
    """
    asked = effective_requests(pod, pod_level=pod_level)
    theirs = [effective_requests(other, pod_level=pod_level) for other in others]
    known = [name for name in (CPU, MEMORY) if name in allocatable]
    for name in (*known, *sorted(name for name in asked if name.startswith(HUGEPAGES_PREFIX))):
        wanted, capacity = _number(name, asked), _number(name, allocatable)
        used = sum(_number(name, requests) for requests in theirs)
        # Who asks for nothing of it fits even where it is overcommitted.
        if wanted and wanted > capacity - used:
            detail = f"{name}, requested: {wanted}, used: {used}, capacity: {capacity}"
            return f"Node didn't have enough resource: {detail}"
    return ""


def _number(name: str, amounts: Mapping[str, Quantity]) -> int:
    """Return an amount as it is counted: CPU in thousandths, all else in whole units."""
    amount = amounts.get(name, ZERO)
    return amount.milli if name == CPU else amount.value
