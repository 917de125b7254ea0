"""How much memory and how many hugepages a container or a pod asks the Memory Manager for.

Source: KEP-1769; KEP-753 "Resources calculation for scheduling and pod admission"; KEP-5526 "Guaranteed Container".
"""

from __future__ import annotations

from toolkit.kubernetes.pod import Container, Pod, is_memory_resource


def container_requests(pod: Pod, container: Container, *, pod_level: bool) -> dict[str, int] | None:
    """Return bytes by type; ``None`` if an amount has no 64-bit view.

    In a pod-level pod only a container that is Guaranteed on its own asks for anything.
    """
    if pod_level and pod.pod_level and not container.guaranteed:
        return {}
    found = {}
    for name, amount in container.resources.requests.items():
        if is_memory_resource(name):
            if amount.as_int64 is None:
                return None
            found[name] = amount.as_int64
    return found


def summed_requests(pod: Pod, *, pod_level: bool) -> dict[str, int] | None:
    """Sum up a pod without a budget of its own: the most that its containers need at the same time."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    apps: dict[str, int] = {}
    for container in pod.containers:
        requests = container_requests(pod, container, pod_level=pod_level)
        if requests is None:
            return None
        for name, size in requests.items():
            if container.is_regular_init:
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + size)
            elif container.is_sidecar:
                sidecars[name] = sidecars.get(name, 0) + size
            else:
                apps[name] = apps.get(name, 0) + size
    # The kubelet goes by the app containers' types: what only init containers ask for is not part of the sum.
    return {name: max(size + sidecars.get(name, 0), peak.get(name, 0)) for name, size in apps.items()}
