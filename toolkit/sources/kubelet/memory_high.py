"""How low ``memory.high`` of a container may be, by the kubelet's release and gates.

Without MemoryQoS a kubelet asks for none. With it the formula differs from release to release, and each leaves the file
alone where its result is no more than the request: so much no container is slowed down by. What a runtime was told
beside (``unified`` of its specification, as NRI plugins write it) is what was asked for last.

Source: KEP-2570; kubernetes ``pkg/kubelet/kuberuntime/kuberuntime_container_linux.go`` (``MemoryHigh``).
"""

from __future__ import annotations

from toolkit.kubernetes.pod import MEMORY, Container
from toolkit.kubernetes.releases import GATE
from toolkit.model.memory_units import NO_LIMIT
from toolkit.sources.kubelet.asked import asked_of
from toolkit.sources.kubelet.settings import Settings
from toolkit.sources.kubelet.subjects import Subject
from toolkit.sources.kubelet.versions import Versions

_QOS = GATE["MemoryQoS"]


def least_high_bytes(subject: Subject, container: Container, known: Settings, versions: Versions) -> int | None:
    """Return the least that it may be, :data:`NO_LIMIT`: only ``max``; ``None``: nothing is known about it."""
    runtime, told = subject.runtime, asked_of(subject).memory_high_bytes
    if told is not None:
        return told
    if known.problem or runtime is None or runtime.asked is None:
        return None  # what a runtime was told that does not say it may be anything
    unknown = _QOS.name not in known.given.given and versions.unknown(_QOS.by_default, subject.pod_uid)
    if not (unknown or known.config.feature_gates[_QOS.name]):
        return NO_LIMIT
    request = container.resources.requests.get(MEMORY, container.limit(MEMORY))
    return request.value if request else None
