"""Whose a manifest on disk is: that of the pod that runs, or of the next one, which a kubelet has not made yet.

The UID decides where the manifest has one. Else it is a hash of the manifest, not worked out here; a kubelet that is
stopped or slow has not read an edited one. Then the runtime's word decides: the kubelet asked it for what the manifest
of the running pod says. Where the two differ it is not known which of them was changed: neither is promised. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolkit.allocation.cgroup_values import container_values
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import CPU, Container, Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.evidence.following import LIMITS
from toolkit.model.node_reading import Asked, MissingPart, NodeReading, RuntimeContainer

QUOTA, SHARES, MEMORY = "quota_us", "shares", "memory_bytes"
_RUNS = ("running", "")
_HASH = re.compile(r"[0-9a-f]{32}")


def contradicted(
    reading: NodeReading, manifests: Mapping[str, Mapping[str, Any]], config: NodeConfig
) -> dict[str, dict[str, frozenset[str]]]:
    """Return by pod UID and container which values (fields of :class:`Asked`) the runtime was not asked for.

    :param manifests: by the UIDs of the pods that they are joined with.
    """
    found: dict[str, dict[str, frozenset[str]]] = {}
    for entry in reading.containers or ():
        hashed = _HASH.fullmatch(entry.pod_uid) is not None
        if not hashed or entry.pod_uid not in manifests or entry.sandbox or entry.state not in _RUNS:
            continue
        differs = _differs(entry, manifests[entry.pod_uid], config)
        if differs:
            found.setdefault(entry.pod_uid, {})[entry.name] = differs
    return found


def not_promised(names: list[str]) -> tuple[MissingPart, ...]:
    """Name the pods whose manifests are contradicted."""
    if not names:
        return ()
    which = ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    why = "it may be that of the next pod: what differs is not promised"
    reason = f"the manifest of {which} asks for other limits than the runtime was asked for: {why}"
    return (MissingPart(part=LIMITS, reason=reason),)


def _differs(entry: RuntimeContainer, manifest: Mapping[str, Any], config: NodeConfig) -> frozenset[str]:
    asked = entry.asked
    # A kubelet always asks for shares: a word without is not the whole one.
    if asked is None or asked.shares is None:
        return frozenset()
    try:
        pod = read_pod({"apiVersion": "v1", "kind": "Pod", **manifest}, "pods")
    except InputError:
        return frozenset()
    container = pod.container(entry.name)
    if container is None or pod.pod_level:
        return frozenset()
    values = container_values(pod, container, config, quota_disabled=False)
    found = set()
    if values.shares != asked.shares:
        found.add(SHARES)
    # A limit that the runtime alone knows may be a plugin's.
    if values.memory_bytes and values.memory_bytes != (asked.memory_bytes or 0):
        found.add(MEMORY)
    if _other_quota(values.quota_us, values.period_us, asked, may_lack=_may_own(pod, container)):
        found.add(QUOTA)
    return frozenset(found)


def _other_quota(quota_us: int, period_us: int, asked: Asked, *, may_lack: bool) -> bool:
    has_us, has_period_us = asked.quota_us or 0, asked.period_us or period_us
    if has_us <= 0:
        return quota_us > 0 and not may_lack
    return quota_us * has_period_us != has_us * period_us


def _may_own(pod: Pod, container: Container) -> bool:
    """Whether it may have CPUs of its own, and by that no quota."""
    milli = container.request(CPU).milli
    return pod.guaranteed and milli > 0 and milli % 1000 == 0
