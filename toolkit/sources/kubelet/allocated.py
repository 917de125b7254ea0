"""``allocated_pods_state``: the resources that the kubelet has allocated to the containers of each pod.

It makes none for ephemeral containers, nor for init containers that end.
Source: kubernetes ``pkg/kubelet/allocation`` (``allocationFromPod``).
"""

from __future__ import annotations

from typing import Any

from toolkit.errors import InputError
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.json_parts import load, mapping, text

FILE = "allocated_pods_state"


def allocations(reading: NodeReading) -> dict[str, dict[str, Any]]:
    """Return the kubelet's entries by UID: ``ContainerResources`` and ``PodLevelResources``."""
    if reading.allocated_pods is None:
        return {}
    try:
        outer = mapping(load(reading.allocated_pods.encode("utf-8", "replace"), FILE))
        data = load(text(outer.get("data")).encode(), FILE) if "data" in outer else outer
    except InputError:
        return {}
    return {uid: mapping(entry) for uid, entry in mapping(mapping(data).get("entries")).items() if mapping(entry)}


def allocated_names(reading: NodeReading) -> dict[str, frozenset[str]]:
    """Return the names of the containers with an allocation, by the pod's UID."""
    return {uid: frozenset(mapping(entry.get("ContainerResources"))) for uid, entry in allocations(reading).items()}
