"""``allocated_pods_state``: the resources that the kubelet has allocated to the containers of each pod, and of the same
form ``actuated_pods_state``: those that it has put into force. Between the two is a resize that is under way.

It makes none for ephemeral containers, nor for init containers that end.
Source: kubernetes ``pkg/kubelet/allocation`` (``allocationFromPod``, ``SetActuatedResources``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from toolkit.errors import InputError
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.json_parts import load_state, mapping, text

FILE, ACTUATED = "allocated_pods_state", "actuated_pods_state"


def allocations(reading: NodeReading) -> dict[str, dict[str, Any]]:
    """Return the kubelet's entries by UID: ``ContainerResources`` and ``PodLevelResources``."""
    return {} if reading.allocated_pods is None else _entries(reading.allocated_pods)


def actuated(reading: NodeReading) -> dict[str, dict[str, Any]]:
    """Return the same of what is in force; a container that was never started has none."""
    return {} if reading.actuated_pods is None else _entries(reading.actuated_pods)


@lru_cache(4)
def _entries(state: str) -> dict[str, dict[str, Any]]:
    """Read a file once for all who ask for it, and for all readings in which it says the same: nobody changes it."""
    try:
        outer = mapping(load_state(state, FILE))
        data = load_state(text(outer.get("data")), FILE) if "data" in outer else outer
    except InputError:
        return {}
    return {uid: mapping(entry) for uid, entry in mapping(mapping(data).get("entries")).items() if mapping(entry)}


def allocated_names(reading: NodeReading) -> dict[str, frozenset[str]]:
    """Return the names of the containers with an allocation, by the pod's UID."""
    return {uid: frozenset(mapping(entry.get("ContainerResources"))) for uid, entry in allocations(reading).items()}
