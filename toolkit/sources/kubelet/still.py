"""What one reading of a node says beside the layers, as a :class:`~toolkit.model.picture.Picture`."""

from __future__ import annotations

import re

from toolkit.model.names import printable
from toolkit.model.node_reading import NodeReading
from toolkit.model.picture import Picture, RejectedPod
from toolkit.model.runtimes import INIT_NAMES
from toolkit.sources.kubelet.claims import NodeClaims
from toolkit.sources.kubelet.json_parts import mapping, text
from toolkit.sources.kubelet.subjects import Subject

_GAUGE = re.compile(r"^(kubelet_cpu_manager_[a-z_]+(?:\{[^}\n]{0,80}\})?) ([0-9.eE+]{1,30})$", re.MULTILINE)
MAX_WORDS = 400
"""Of a status's texts."""


def picture_of(reading: NodeReading, node: NodeClaims, made: frozenset[str]) -> Picture:
    """Return the picture. :param made: claims of containers that the runtime is still making."""
    known = node.settings
    names = {p.claim.name: p for p in node.promises if p.claim is not None}
    return Picture(
        ended=tuple(name for name, p in names.items() if p.subject.active is False),
        being_made=tuple(sorted(made)),
        runtime_read=any(entry.asked for entry in reading.containers or ()),
        pods_read=reading.pods is not None,
        metrics=_metrics(reading),
        reserved=known.reserved if known.reserved_known else None,
        rejected=_rejected(reading),
        topology_policy=None if known.problem else known.config.topology_manager_policy,
        runtime_later_s=_later_s(reading),
    )


def is_being_made(subject: Subject) -> bool:
    """Whether only the runtime's own process is in the cgroup: it writes the files while it is there."""
    return bool(subject.threads) and all(thread.comm in INIT_NAMES for thread in subject.threads)


def _rejected(reading: NodeReading) -> tuple[RejectedPod, ...]:
    """Return the pods that the kubelet refused: their status has a reason, and no container was ever made."""
    found = []
    for document in reading.pods or ():
        status, metadata = mapping(document.get("status")), mapping(document.get("metadata"))
        if status.get("phase") == "Failed" and text(status.get("reason")):
            namespace = text(metadata.get("namespace"))
            said = (metadata.get("name"), status.get("reason"), status.get("message"))
            name, reason, message = (printable(text(value))[:MAX_WORDS] for value in said)
            pod = name if namespace in ("", "default") else f"{printable(namespace)}/{name}"
            found.append(RejectedPod(pod=pod, reason=reason, message=message))
    return tuple(found)


def _later_s(reading: NodeReading) -> float | None:
    """Return how long after the cgroups the runtime's lists were complete, where the capture says when."""
    begun, end = reading.read_at_s.get("cgroup_read"), reading.read_at_s.get("end")
    return None if begun is None or end is None else end - begun


def _metrics(reading: NodeReading) -> dict[str, float]:
    found = {}
    for name, value in _GAUGE.findall(reading.metrics or ""):
        try:
            found[name] = float(value)
        except ValueError:
            continue
    return found
