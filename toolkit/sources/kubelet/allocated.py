"""``allocated_pods_state``: the resources that the kubelet has allocated to the containers of each pod, and of the same
form ``actuated_pods_state``: those that it has put into force. Between the two is a resize that is under way.

It makes none for ephemeral containers, nor for init containers that end. The file holds its content as text, with a
checksum of that text: a file whose checksum is another one is torn, or not its own word, and a kubelet does not start
from it. Source: kubernetes ``pkg/kubelet/allocation`` (``allocationFromPod``, ``SetActuatedResources``) and its
``state`` (``Checkpoint.VerifyChecksum``); the recorded files of tests/data/captures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolkit.allocation.checkpoint.format import CheckpointError, load_object, text_checksum
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.json_parts import mapping
from toolkit.text.wording import kind_of

FILE, ACTUATED = "allocated_pods_state", "actuated_pods_state"
_STRUCT = "Checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """One of the files. :param problem: why it is not believed; empty: it is."""

    entries: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    problem: str = ""


def allocations(reading: NodeReading) -> Mapping[str, dict[str, Any]]:
    """Return the kubelet's entries by UID: ``ContainerResources`` and ``PodLevelResources``."""
    return {} if reading.allocated_pods is None else _read(reading.allocated_pods).entries


def actuated(reading: NodeReading) -> Mapping[str, dict[str, Any]]:
    """Return the same of what is in force; a container that was never started has none."""
    return {} if reading.actuated_pods is None else _read(reading.actuated_pods).entries


def problems(reading: NodeReading) -> tuple[tuple[str, str], ...]:
    """Return for each of the two the part, and why it is not believed; empty: it is, or there is none."""
    files = (("allocated_pods", reading.allocated_pods), ("actuated_pods", reading.actuated_pods))
    return tuple((part, "" if state is None else _read(state).problem) for part, state in files)


@lru_cache(4)
def _read(state: str) -> Allocations:
    """Read a file once for all that ask for it, and for all readings in which it says the same: nothing changes it."""
    try:
        outer = load_object(state, _STRUCT)
        data = outer.get("data")
        if not isinstance(data, str):
            return Allocations(problem=f"its data is {kind_of(data)}; expected text")
        if type(outer.get("checksum")) is not int or outer["checksum"] != text_checksum(data):
            return Allocations(problem="the checksum is not that of the content")
        entries = load_object(data, _STRUCT).get("entries")
    except CheckpointError as error:
        return Allocations(problem=str(error))
    if not isinstance(entries, dict | None):
        return Allocations(problem=f"its entries are {kind_of(entries)}; expected a mapping")
    return Allocations(entries={uid: mapping(entry) for uid, entry in mapping(entries).items() if mapping(entry)})


def allocated_names(reading: NodeReading) -> dict[str, frozenset[str]]:
    """Return the names of the containers with an allocation, by the pod's UID."""
    return {uid: frozenset(mapping(entry.get("ContainerResources"))) for uid, entry in allocations(reading).items()}
