"""What a node has for pods against what they ask for, as the API server and the kubelet count it.

Both go by the node's status (allocatable: without reservations, hard eviction threshold and, of memory, huge pages) and
by a pod's effective requests. Of a resize the API server asks whether the node could ever do it; the kubelet asks of a
resize, and of a pod that arrives, whether there is room now.
Source: Kubernetes v1.36 plugin/pkg/admission/podresize (``PodResizeValidator``), pkg/kubelet/lifecycle/predicate.go,
pkg/scheduler/framework/plugins/noderesources (``Fits``); ``docs/facts.md`` K-resize.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from toolkit.kubernetes.pod import CPU, HUGEPAGES_PREFIX, MEMORY, PODS, Pod, effective_requests
from toolkit.kubernetes.quantity import ZERO, Quantity


class Lack(NamedTuple):
    """A resource of which there is too little room, in the numbers of the kubelet's message."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def message(self) -> str:
        """The message of the kubelet."""
        numbers = f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        return f"Node didn't have enough resource: {self.resource}, {numbers}"


def exceeds_node(pod: Pod, allocatable: Mapping[str, Quantity]) -> str:
    """Return the API server's message if the pod requests more than the node has for all pods; else nothing."""
    asked = effective_requests(pod)
    over = [
        f"{name}, requested: {_number(name, asked)}, allocatable: {_number(name, allocatable)}"
        for name in (CPU, MEMORY)
        if name in asked and name in allocatable and asked[name].nano > allocatable[name].nano
    ]
    return f"node didn't have enough allocatable resources: {'; '.join(over)}" if over else ""


class Requests:
    """What pods count for on a node, in the kubelet's numbers; of each pod it is worked out once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Pod, Mapping[str, int]]] = {}

    def of(self, pod: Pod) -> Mapping[str, int]:
        """Return the numbers of a pod; itself it counts for one of the node's pods."""
        known = self._known.get(pod.uid)
        if known is None or (known[0] is not pod and known[0] != pod):
            asked = effective_requests(pod)
            known = self._known[pod.uid] = (pod, {PODS: 1, **{name: _number(name, asked) for name in asked}})
        return known[1]


def lacks_room(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, Quantity], requests: Requests) -> Lack | None:
    """Return of what the other pods leave too little for this one; ``None`` if it fits.

    It is the first: the number of pods, CPU, memory, then huge pages (those in no order that the kubelet promises; here
    by name).
    """
    asked = requests.of(pod)
    theirs = [requests.of(other) for other in others]
    known = [name for name in (PODS, CPU, MEMORY) if name in allocatable]
    for name in (*known, *sorted(name for name in asked if name.startswith(HUGEPAGES_PREFIX))):
        wanted, capacity = asked.get(name, 0), _number(name, allocatable)
        used = sum(one.get(name, 0) for one in theirs)
        # What asks for nothing of it fits even where it is overcommitted.
        if wanted and wanted > capacity - used:
            return Lack(resource=name, requested=wanted, used=used, capacity=capacity)
    return None


def _number(name: str, amounts: Mapping[str, Quantity]) -> int:
    """Return an amount as it is counted: CPU in thousandths, all else in whole units."""
    amount = amounts.get(name, ZERO)
    return amount.milli if name == CPU else amount.value
