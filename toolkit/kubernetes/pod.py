"""Pods as the resource managers see them: containers, their roles, requests and limits, and the QoS class.

Not a whole v1.Pod: of a manifest everything that no resource manager looks at is skipped by the reader
(:mod:`toolkit.kubernetes.pod_reader`). Source: ``docs/specification.md`` ("Policies for assigning CPUs to Pods"),
KEP-753 (sidecars), KEP-688 (overhead), KEP-2837 (pod-level resources), KEP-5526 ("Guaranteed Container").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolkit.kubernetes.quantity import ZERO, Family, Quantity
from toolkit.model.plan import ContainerRole, QosClass

CPU = "cpu"
MEMORY = "memory"
HUGEPAGES_PREFIX = "hugepages-"
PODS = "pods"
"""A node has room for so many pods; no container asks for it."""

ResourceList = Mapping[str, Quantity]


def hugepages_resource(page_bytes: int) -> str:
    """Return the resource name of a page size: ``hugepages-2Mi``."""
    return f"{HUGEPAGES_PREFIX}{Quantity.of(page_bytes, Family.BINARY_SI)}"


def is_memory_resource(name: str) -> bool:
    """Return whether the Memory Manager accounts for this resource."""
    return name == MEMORY or name.startswith(HUGEPAGES_PREFIX)


def is_pod_level_resource(name: str) -> bool:
    """Return whether a pod-level budget may name this resource (KEP-2837)."""
    return name == CPU or is_memory_resource(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Requests and limits of a container or of a pod."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)

    @property
    def names_pod_level(self) -> bool:
        """Whether a resource is named that makes a pod a pod-level pod."""
        return any(is_pod_level_resource(name) for name in (*self.requests, *self.limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container.

    :param guaranteed: it alone asks for CPU and memory, each with a request equal to its limit (KEP-5526).
    """

    name: str
    role: ContainerRole = ContainerRole.APP
    resources: Resources = field(default_factory=Resources)
    guaranteed: bool = field(init=False)

    def __post_init__(self) -> None:
        requests, limits = self.resources.requests, self.resources.limits
        equal = all(requests.get(name) and _equal(requests[name], limits.get(name)) for name in (CPU, MEMORY))
        object.__setattr__(self, "guaranteed", equal)

    def request(self, name: str) -> Quantity:
        """Return the request, zero if none."""
        return self.resources.requests.get(name, ZERO)

    def limit(self, name: str) -> Quantity:
        """Return the limit, zero if none."""
        return self.resources.limits.get(name, ZERO)

    @property
    def is_sidecar(self) -> bool:
        """A restartable init container (KEP-753)."""
        return self.role is ContainerRole.SIDECAR

    @property
    def is_regular_init(self) -> bool:
        """An init container that ends before the next one starts."""
        return self.role is ContainerRole.INIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod after API defaulting. ``containers`` holds init containers and sidecars first, then app containers:
    the order in which the kubelet allocates.

    :param resources: the pod-level budget, where the manifest has one.
    :param overhead: what its RuntimeClass needs beside the containers; it changes no pod's QoS class.
    :param invalid: why the API server would not take the pod; empty if it would, or if nothing asked.
    """

    uid: str
    name: str
    containers: tuple[Container, ...]
    namespace: str = "default"
    resources: Resources | None = None
    overhead: ResourceList = field(default_factory=dict)
    invalid: str = ""
    qos_class: QosClass = field(init=False)
    pod_level: bool = field(init=False)
    """Whether a pod-level budget is set."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "qos_class", _qos_class(self))
        object.__setattr__(self, "pod_level", self.resources is not None and self.resources.names_pod_level)

    @property
    def init_containers(self) -> tuple[Container, ...]:
        """Init containers and sidecars in order."""
        return tuple(c for c in self.containers if c.role is not ContainerRole.APP)

    @property
    def app_containers(self) -> tuple[Container, ...]:
        """App containers in order."""
        return tuple(c for c in self.containers if c.role is ContainerRole.APP)

    @property
    def guaranteed(self) -> bool:
        """Whether the QoS class is Guaranteed."""
        return self.qos_class is QosClass.GUARANTEED

    def container(self, name: str) -> Container | None:
        """Find a container by name."""
        return next((c for c in self.containers if c.name == name), None)


def _equal(left: Quantity, right: Quantity | None) -> bool:
    return right is not None and left.nano == right.nano


def _total(lists: Iterable[ResourceList]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resources in lists:
        for name in (CPU, MEMORY):
            if name in resources and resources[name].nano > 0:
                total[name] = total.get(name, 0) + resources[name].nano
    return total


def _qos_class(pod: Pod) -> QosClass:
    """Quality of service: by the pod-level budget alone where there is one, else by every container."""
    parts = [pod.resources] if pod.resources is not None else [c.resources for c in pod.containers]
    requests, limits = _total(part.requests for part in parts), _total(part.limits for part in parts)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    complete = all(
        (pod.resources is not None and not part.limits)
        or all(part.limits.get(name, ZERO).nano > 0 for name in (CPU, MEMORY))
        for part in parts
    )
    return QosClass.GUARANTEED if complete and requests == limits else QosClass.BURSTABLE


def aggregate(pod: Pod, *, limits: bool = False) -> dict[str, Quantity]:
    """Sum up what the containers need at the same time at most (KEP-753, "Resources calculation").

    Sidecars run along with everything that starts after them, regular init containers one after the other.
    """
    running: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    apps: dict[str, Quantity] = {}
    for container in pod.containers:
        resources = container.resources.limits if limits else container.resources.requests
        for name, amount in resources.items():
            if container.is_regular_init:
                need = running.get(name, ZERO) + amount
                peak[name] = max(peak.get(name, ZERO), need, key=lambda q: q.nano)
            elif container.is_sidecar:
                running[name] = running.get(name, ZERO) + amount
            else:
                apps[name] = apps.get(name, ZERO) + amount
    total = {name: apps.get(name, ZERO) + running.get(name, ZERO) for name in {**apps, **running}}
    for name, amount in peak.items():
        total[name] = max(total.get(name, ZERO), amount, key=lambda q: q.nano)
    return total


def effective_requests(pod: Pod) -> dict[str, Quantity]:
    """Return what a pod counts for: what its containers sum up to, what its budget names instead, and its overhead.

    A resource that the budget does not name stays the containers' sum.
    """
    total = aggregate(pod)
    if pod.resources is not None:
        total |= {name: amount for name, amount in pod.resources.requests.items() if is_pod_level_resource(name)}
    return total | {name: total.get(name, ZERO) + amount for name, amount in pod.overhead.items()}
