"""How many exclusive CPUs a container and a pod ask for.

Source: ``docs/specification.md`` ("Policies for assigning CPUs to Pods": Guaranteed, integer CPU request); KEP-753
"Resources calculation for scheduling and pod admission"; KEP-5526: with the pod-level
resource managers a container of a pod-level pod counts only if it is guaranteed by itself.
"""

from __future__ import annotations

from toolkit.kubernetes.pod import CPU, Container, Pod
from toolkit.kubernetes.quantity import Quantity


def whole_cpus(quantity: Quantity) -> int:
    """Return the number of CPUs, 0 for a fractional amount."""
    value = quantity.value
    return value if value * 1000 == quantity.milli else 0


def exclusive_cpus(pod: Pod, container: Container, *, pod_level_managers: bool) -> int:
    """Return the container's number of exclusive CPUs, 0 if it belongs to a shared pool.

    :param pod_level_managers: feature gate ``PodLevelResourceManagers``.
    """
    if not pod.guaranteed:
        return 0
    if pod_level_managers and pod.pod_level and not container.guaranteed:
        return 0
    return whole_cpus(container.request(CPU))


def pod_exclusive_cpus(pod: Pod, *, pod_level_managers: bool) -> int:
    """Return the number of exclusive CPUs that the pod needs at the same time at most, or its pod-level budget.

    A fractional budget, or one of a pod that is not Guaranteed, means none.
    """
    if pod_level_managers and pod.pod_level and pod.resources is not None:
        budget = pod.resources.requests.get(CPU)
        return whole_cpus(budget) if pod.guaranteed and budget is not None else 0
    sidecars = peak = apps = 0
    for container in pod.containers:
        count = exclusive_cpus(pod, container, pod_level_managers=pod_level_managers)
        if container.is_sidecar:
            sidecars += count
        elif container.is_regular_init:
            peak = max(peak, sidecars + count)
        else:
            apps += count
    return max(peak, apps + sidecars)
