"""Values that are promised to a cgroup: of its request; where none is known, what the kubelet asked the runtime for.

Source: Kubernetes CRI API v1, ``LinuxContainerResources``; docs/facts.md K-quota, K-shares.
"""

from __future__ import annotations

from toolkit.allocation.cgroup_values import MIN_QUOTA_US, CpuValues
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.memory_units import NO_LIMIT
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
    memory = NO_LIMIT if values.memory_bytes is None else values.memory_bytes
    return Asked(
        quota_us=values.quota_us if all(one.quota_us == values.quota_us for one in others) else None,
        period_us=values.period_us,
        shares=values.shares if all(one.shares == values.shares for one in others) else None,
        memory_bytes=memory if all(one.memory_bytes == values.memory_bytes for one in others) else None,
    )


def memory_of(values: Asked, subject: Subject) -> int | None:
    """Return the limit of memory that a container is promised.

    None is promised where its request has none and the runtime was told none: what stands there then nobody asked for.
    A runtime that was told a limit by others (an NRI plugin, its own base specification) is not the kubelet's promise.
    Source: Kubernetes documentation, Assign Memory Resources ("no upper bound"); CRI API v1, ``memory_limit_in_bytes``.
    """
    told = subject.runtime is not None and subject.runtime.asked is not None
    if values.memory_bytes == NO_LIMIT and not (told and (asked_of(subject).memory_bytes or 0) <= 0):
        return None
    return values.memory_bytes


def taken(asked: Asked) -> Asked:
    """Return of what the runtime was asked for what a kernel takes: of the rest nothing was promised."""
    quota = None if asked.quota_us is None else -1 if asked.quota_us <= 0 else asked.quota_us
    period = asked.period_us if asked.period_us and asked.period_us > 0 else None
    if quota is not None and quota != -1 and not (quota >= MIN_QUOTA_US and 1000 <= (period or 100_000) <= 1_000_000):
        quota = None
    shares = asked.shares if asked.shares is not None and MIN_SHARES <= asked.shares <= MAX_SHARES else None
    memory = asked.memory_bytes if asked.memory_bytes is not None and asked.memory_bytes > 0 else None
    return Asked(quota_us=quota, period_us=period, shares=shares, memory_bytes=memory)
