"""How a pod's own CPU set is divided among its containers (pod-level resource managers, pod scope).

Containers that are guaranteed by themselves get exclusive parts, the others share what is left; regular init
containers run one after the other and may use everything that no sidecar declared before them has.
Source: KEP-5526, "Pod Scope" and "Empty pod shared pool".
"""

from __future__ import annotations

from collections.abc import Callable

from toolkit.model.cpuset import CpuSet
from toolkit.model.pod import Container, Pod

Requested = Callable[[Pod, Container], int]
"""How many exclusive CPUs a container asks for, 0 if it shares."""


def refuse_empty_pool(pod: Pod, budget: int, requested: Requested) -> str:
    """Say in the kubelet's words why the division cannot work, or nothing.

    A container that shares needs at least one CPU that nobody has; a regular init container needs its CPUs besides
    those of the sidecars before it.
    """
    exclusive, shared = 0, False
    for container in pod.containers:
        count = requested(pod, container)
        if container.is_regular_init:
            if count and count > budget - exclusive:
                return (
                    f"pod rejected, largest exclusive init container requests {count} cpus, "
                    f"but only {budget - exclusive} available"
                )
            if count == 0 and exclusive >= budget:
                return "pod rejected, pod has shared init containers but no cpus available for them"
        elif count:
            exclusive += count
        else:
            shared = True
    if shared and exclusive >= budget:
        return (
            "pod rejected, sum of exclusive container cpu requests equals pod budget, "
            "leaving no cpus for shared containers"
        )
    return ""


def partition(pod: Pod, cpus: CpuSet, requested: Requested, take: Callable[[CpuSet, int], CpuSet]) -> dict[str, CpuSet]:
    """Divide a pod's CPUs. :raises CpuShortageError: they do not suffice."""
    parts: dict[str, CpuSet] = {}
    pool = cpus
    for container in pod.containers:
        count = requested(pod, container)
        if count:
            parts[container.name] = take(pool, count)
            if not container.is_regular_init:
                pool -= parts[container.name]
        elif container.is_regular_init:
            parts[container.name] = pool
    return {container.name: parts.get(container.name, pool) for container in pod.containers}
