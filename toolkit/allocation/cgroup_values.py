"""Requests and limits as cgroup values: what the kubelet computes.

Quotas are microseconds per period, -1 is none; shares are cgroup v1 units. What drivers and runtimes make of them is
:mod:`toolkit.model.cpu_units`. Source: ``docs/facts.md`` (K-quota, K-shares, K-pod, K-overhead).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from toolkit.allocation.budgets import as_seen
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import CPU, MEMORY, Container, Pod, aggregate, effective_requests
from toolkit.kubernetes.quantity import ZERO
from toolkit.kubernetes.releases import HIGH_ABOVE_REQUEST, NO_HIGH_BY_DEFAULT, NO_HIGH_WITHOUT_REQUEST
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.plan import QosClass

MEMORY_QOS = "MemoryQoS"
MIN_QUOTA_US = 1000
"""The kernel refuses less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuValues:
    """Values of one cgroup. :param memory_bytes: limit, ``None`` for none."""

    quota_us: int
    period_us: int
    shares: int
    memory_bytes: int | None


def milli_to_quota(milli: int, period_us: int) -> int:
    """Return the CFS quota for a CPU limit in thousandths."""
    return max(milli * period_us // 1000, MIN_QUOTA_US) if milli else NO_QUOTA


def milli_to_shares(milli: int) -> int:
    """Return ``cpu.shares`` for a CPU request in thousandths."""
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES) if milli else MIN_SHARES


def container_values(pod: Pod, container: Container, config: NodeConfig, *, quota_disabled: bool) -> CpuValues:
    """Return what the kubelet asks the runtime for.

    A container without a limit of its own has the limit of its pod, where the pod has a budget.
    """
    pod = as_seen(pod, config.feature_gates)
    budget = pod.resources.limits if pod.pod_level and pod.resources is not None else {}
    limit = container.limit(CPU) or budget.get(CPU, ZERO)
    memory = container.limit(MEMORY) or budget.get(MEMORY, ZERO)
    request = container.resources.requests.get(CPU, limit)
    quota = milli_to_quota(limit.milli, config.cpu_cfs_quota_period_us)
    return CpuValues(
        quota_us=NO_QUOTA if quota_disabled or not config.cpu_cfs_quota else quota,
        period_us=config.cpu_cfs_quota_period_us,
        shares=milli_to_shares(request.milli),
        memory_bytes=memory.value or None,
    )


def pod_values(pod: Pod, config: NodeConfig, *, quota_disabled: bool, init_counts: bool = True) -> CpuValues:
    """Return the values of the pod's cgroup.

    A Burstable pod is limited only if every container is, or its budget says so. A RuntimeClass's overhead comes on top
    of what is requested, and of a limit, but is none by itself.

    :param init_counts: whether an init container must be limited, too; with kubelets before v1.27 it need not.
    """
    pod = as_seen(pod, config.feature_gates)
    requests, limits = effective_requests(pod), aggregate(pod, limits=True)
    count = pod.containers if init_counts else pod.app_containers
    declared = {name: all(c.limit(name) for c in count) for name in (CPU, MEMORY)}
    if pod.pod_level and pod.resources is not None:
        limits = {**limits, **pod.resources.limits}
        declared = {name: declared[name] or bool(pod.resources.limits.get(name)) for name in declared}
    limits = {name: amount + pod.overhead.get(name, ZERO) if amount else amount for name, amount in limits.items()}
    if pod.qos_class is QosClass.BEST_EFFORT:
        return CpuValues(
            quota_us=NO_QUOTA, period_us=config.cpu_cfs_quota_period_us, shares=MIN_SHARES, memory_bytes=None
        )
    quota = milli_to_quota(limits.get(CPU, ZERO).milli, config.cpu_cfs_quota_period_us)
    unlimited = quota_disabled or not config.cpu_cfs_quota or not declared[CPU]
    return CpuValues(
        quota_us=NO_QUOTA if unlimited else quota,
        period_us=config.cpu_cfs_quota_period_us,
        shares=milli_to_shares(requests.get(CPU, ZERO).milli),
        memory_bytes=limits[MEMORY].value if declared[MEMORY] and limits.get(MEMORY) else None,
    )


def memory_high(container: Container, config: NodeConfig) -> int | None:
    """Return the bytes of ``memory.high`` that a kubelet of a release asks for a container, but for whole pages.

    Without the gate MemoryQoS it asks for none, nor where the result is no more than the request.
    Source: ``pkg/kubelet/kuberuntime/kuberuntime_container_linux.go`` of v1.22 and v1.27
    (``generateLinuxContainerResources``); KEP-2570; :mod:`toolkit.kubernetes.releases`.

    :returns: :data:`NO_LIMIT`: none; ``None``: it depends on the node's allocatable memory.
    """
    series, factor = config.series, config.memory_throttling_factor
    above_request = bool(HIGH_ABOVE_REQUEST.of(series))
    if factor is None and not NO_HIGH_BY_DEFAULT.of(series):
        factor = 0.9 if above_request else 0.8
    limit = container.limit(MEMORY).value
    request = container.resources.requests.get(MEMORY, container.limit(MEMORY)).value
    equal = request == limit and (limit or NO_HIGH_WITHOUT_REQUEST.of(series))
    if not config.feature_gates[MEMORY_QOS] or factor is None or equal:
        return NO_LIMIT
    if not limit:
        return None
    high = math.floor(request + (limit - request) * factor) if above_request else int(limit * factor)
    return high if high > request else NO_LIMIT
