"""How a pod's own CPU set is divided among its containers (pod-level resource managers, pod scope).

Containers that are guaranteed by themselves get exclusive parts, the others share what is left; regular init
containers run one after the other and may use everything that no sidecar declared before them has.
Source: KEP-5526, "Pod Scope" and "Empty pod shared pool".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from toolkit.allocation.admission import EMPTY_POD_SHARED_POOL
from toolkit.allocation.cpu.packed import CpuShortageError
from toolkit.allocation.cpu.refusal import CpuAdmissionError, unexpected_shortage
from toolkit.allocation.cpu.state import CpuState
from toolkit.kubernetes.pod import Container, Pod
from toolkit.model.cpuset import CpuSet

Requested = Callable[[Pod, Container], int]
"""How many exclusive CPUs a container asks for, 0 if it shares."""


class Policy(Protocol):
    """What the division needs of the static policy."""

    @property
    def quirks(self) -> bool:
        """Whether the real component's defects are reproduced."""

    def requested(self, pod: Pod, container: Container) -> int:
        """Return how many exclusive CPUs the container asks for."""

    def check_alignment(self, state: CpuState, count: int) -> None:
        """Refuse what the options do not give. Raises CpuAdmissionError."""

    def take_for(self, state: CpuState, pod: Pod, container: Container | None, count: int, numa: int | None) -> CpuSet:
        """Choose CPUs for the pod as a whole (``container`` is ``None``). Raises CpuAdmissionError."""

    def take_part(self, available: CpuSet, count: int) -> CpuSet:
        """Choose CPUs out of those of the pod. Raises CpuShortageError."""


def allocate_pod(policy: Policy, state: CpuState, pod: Pod, count: int, numa: int | None) -> CpuState:
    """Give a pod ``count`` CPUs as one set, and divide them among its containers.

    :raises CpuAdmissionError: no CPU for the shared containers, misaligned request, or too few CPUs.
    """
    refusal = refuse_empty_pool(pod, count, policy.requested)
    if refusal:
        raise CpuAdmissionError(EMPTY_POD_SHARED_POOL, refusal, state)
    policy.check_alignment(state, count)
    cpus = policy.take_for(state, pod, None, count, numa)
    taken = state._replace(default=state.default - cpus, pods={**state.pods, pod.uid: cpus})
    try:
        containers = partition(pod, cpus, policy.requested, policy.take_part)
    except CpuShortageError as error:
        # The real component keeps the CPU set for ever (a leak).
        raise unexpected_shortage(error, taken if policy.quirks else state) from None
    return taken._replace(entries={**state.entries, pod.uid: containers})


def release_pod(state: CpuState, pod_uid: str) -> CpuState:
    """Take a pod's CPUs back: all of them, with its last container."""
    pods = {uid: own for uid, own in state.pods.items() if uid != pod_uid}
    return state._replace(default=state.default | state.pods[pod_uid], pods=pods)


def refuse_empty_pool(pod: Pod, budget: int, requested: Requested) -> str:
    """Return the kubelet's message if the division cannot work; else nothing.

    A container that shares needs at least one CPU that nothing has. Whether the exclusive ones fit shows the division.
    Source: kubernetes v1.36.2, pkg/kubelet/cm/cpumanager/policy_static.go, ``validatePodScopeResources``.
    """
    exclusive, shared = 0, False
    for container in pod.containers:
        count = requested(pod, container)
        if container.is_regular_init:
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
