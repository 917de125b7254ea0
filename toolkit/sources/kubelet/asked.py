"""Values that are promised to a cgroup: of its request; where none is known, what the kubelet asked the runtime for.

Source: Kubernetes CRI API v1, ``LinuxContainerResources``; docs/facts.md K-quota, K-shares.
"""

from __future__ import annotations

from toolkit.allocation.cgroup_values import MIN_QUOTA_US, CpuValues
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.node_reading import Asked
from toolkit.sources.kubelet.subjects import Subject


def asked_of(subject: Subject) -> Asked:
    """Return the runtime's word; of a container that it does not list nothing."""
    return (subject.runtime.asked if subject.runtime else None) or Asked()


def agreed(values: CpuValues, *others: CpuValues) -> Asked:
    """Return the values of a request.

    :param others: those in force before a resize that is under way, or of a kubelet of another version: what differs is
        not promised, since the one or the other may be in the cgroup.
    """
    return Asked(
        quota_us=values.quota_us if all(one.quota_us == values.quota_us for one in others) else None,
        period_us=values.period_us,
        shares=values.shares if all(one.shares == values.shares for one in others) else None,
        memory_bytes=values.memory_bytes if all(one.memory_bytes == values.memory_bytes for one in others) else None,
    )


def taken(asked: Asked) -> Asked:
    """Return of what the runtime was asked for what a kernel takes: of the rest nothing was promised."""
    quota = None if asked.quota_us is None else -1 if asked.quota_us <= 0 else asked.quota_us
    period = asked.period_us if asked.period_us and asked.period_us > 0 else None
    if quota is not None and quota != -1 and not (quota >= MIN_QUOTA_US and 1000 <= (period or 100_000) <= 1_000_000):
        quota = None
    shares = asked.shares if asked.shares is not None and MIN_SHARES <= asked.shares <= MAX_SHARES else None
    memory = asked.memory_bytes if asked.memory_bytes is not None and asked.memory_bytes > 0 else None
    return Asked(quota_us=quota, period_us=period, shares=shares, memory_bytes=memory)
