"""Values that are promised to a cgroup: of its request; where none is known, what the kubelet asked the runtime for.

Source: Kubernetes CRI API v1, ``LinuxContainerResources``; docs/facts.md K-quota, K-shares.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from toolkit.allocation.cgroup_values import MIN_QUOTA_US, CpuValues
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.evidence.following import LIMITS
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.node_reading import Asked, MissingPart
from toolkit.sources.kubelet.subjects import Subject
from toolkit.text.wording import count

_SHOWN = 3
_OWN = "nothing is promised about their own cgroups"


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

    None is promised where its request has none and the runtime was told none: what stands there then nothing asked for.
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


def not_known(claims: Iterable[Claim], pods: Container[str], partial: Container[str]) -> tuple[MissingPart, ...]:
    """Name the pods of which some limits are not promised: their requests are known to nothing, or not as a whole.

    :param claims: of containers. :param pods: UIDs of pods whose requests are known. :param partial: of those whose
        containers' roles are not.
    """
    running = {claim.pod_uid: claim.pod for claim in claims if claim.kind is SubjectKind.CONTAINER and claim.pod_uid}
    unknown = sorted(name for uid, name in running.items() if uid not in pods)
    roles = sorted(name for uid, name in running.items() if uid in partial)
    found = []
    if unknown:
        own = (
            "huge pages and their own cgroups; quotas, weights and limits of memory are what the runtime was asked for"
        )
        found.append(f"the requests of {_named(unknown)} are not known: nothing is promised about their {own}")
    if roles:
        found.append(f"which containers of {_named(roles)} are init containers is not known: {_OWN}")
    return tuple(MissingPart(part=LIMITS, reason=reason) for reason in found)


def _named(pods: list[str]) -> str:
    more = f", and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return f"{count(len(pods), 'pod')} ({', '.join(pods[:_SHOWN])}{more})"
