"""What the kubelet asked the runtime for, as a promise: where nothing is known of what the pod asks for.

Source: Kubernetes CRI API v1, ``LinuxContainerResources``; docs/facts.md K-quota, K-shares.
"""

from __future__ import annotations

from toolkit.allocation.cgroup_values import MIN_QUOTA_US
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.node_reading import Asked
from toolkit.sources.kubelet.subjects import Subject


def asked_of(subject: Subject) -> Asked:
    """Return the runtime's word; of a container that it does not list nothing."""
    return (subject.runtime.asked if subject.runtime else None) or Asked()


def taken(asked: Asked) -> Asked:
    """Return of what the runtime was asked for what a kernel takes: of the rest nothing was promised."""
    quota = None if asked.quota_us is None else -1 if asked.quota_us <= 0 else asked.quota_us
    period = asked.period_us if asked.period_us and asked.period_us > 0 else None
    if quota is not None and quota != -1 and not (quota >= MIN_QUOTA_US and 1000 <= (period or 100_000) <= 1_000_000):
        quota = None
    shares = asked.shares if asked.shares is not None and MIN_SHARES <= asked.shares <= MAX_SHARES else None
    memory = asked.memory_bytes if asked.memory_bytes is not None and asked.memory_bytes > 0 else None
    return Asked(quota_us=quota, period_us=period, shares=shares, memory_bytes=memory)
