"""``kubelet_internal_checkpoint``: the Device Manager's file, which container has which devices, and its checksum.

A kubelet before v1.20 lists a container's ids (*V1*), a later one by NUMA node (-1: none is stated). The checksum is of
the entries as the kubelet dumps them, with what the plugin told the runtime (``AllocResp``).
Source: kubernetes ``pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go``, and ``checkpointv1.go`` of older releases;
``pkg/kubelet/checkpointmanager/checksum``; files of v1.20.2.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from toolkit.allocation.checkpoint.format import (
    CheckpointError,
    below,
    field_error,
    fnv32a,
    go_map,
    load_object,
    map_field,
    number_field,
    text_field,
)
from toolkit.model.state_files import DeviceStateFile
from toolkit.text.names import printable

KEPT = "checksumOk"
"""Field of a file as a capture keeps it, without ``AllocResp``: whether its checksum was that of the content."""
_STRUCT = "checkpointData"
_ENTRY = "PodDevicesEntry"
_NODE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def device_state_file(text: str) -> DeviceStateFile:
    """Read the text of the file, or of what a capture keeps of it."""
    try:
        document = load_object(text, "Data")
        data = map_field(document, "Data", "Data", f"checkpoint.{_STRUCT}")
        entries = _entries(data)
        fits = checksum_fits(document)
        owners: dict[str, set[str]] = {}
        for entry in entries:
            for name in _ids(entry):
                device = f"{text_field(entry, 'ResourceName', _ENTRY)} {name}"
                owners.setdefault(device, set()).add(text_field(entry, "PodUID", _ENTRY))
    except CheckpointError as error:
        return DeviceStateFile(problem=str(error))
    return DeviceStateFile(
        checksum_ok=fits,
        devices_count=len(owners),
        twice=tuple(printable(device) for device, pods in sorted(owners.items()) if len(pods) > 1),
    )


def checksum_fits(document: Mapping[str, Any]) -> bool | None:
    """Return whether the checksum is that of the content; ``None``: the capture kept neither content nor answer.

    :raises CheckpointError: it is no such file.
    """
    kept = document.get(KEPT)
    if isinstance(kept, bool):
        return kept
    data = map_field(document, "Data", "Data", f"checkpoint.{_STRUCT}")
    if "Checksum" not in document or not all("AllocResp" in entry for entry in _entries(data)):
        return None
    return number_field(document, "Checksum", "Data", "checksum.Checksum") == fnv32a(device_hashed_text(data))


def device_hashed_text(data: Mapping[str, Any]) -> str:
    """Return the text that is hashed.

    :raises CheckpointError: a field is of another type.
    """
    listed = data.get("PodDeviceEntries")
    entries = "<nil>" if listed is None else f"[{' '.join(map(_entry, _entries(data)))}]"
    registered = data.get("RegisteredDevices")
    if registered is not None:
        registered = map_field(data, "RegisteredDevices", _STRUCT, "map[string][]string")
    dumped = go_map(registered, lambda names: _texts(names, "RegisteredDevices", _STRUCT))
    return (
        f"(checkpoint.{_STRUCT}){{PodDeviceEntries:([]checkpoint.{_ENTRY}){entries} "
        f"RegisteredDevices:(map[string][]string){dumped}}}"
    )


def _entries(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = data.get("PodDeviceEntries")
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise field_error(listed, _STRUCT, "PodDeviceEntries", f"[]checkpoint.{_ENTRY}")
    for entry in listed:
        if not isinstance(entry, dict):
            raise field_error(entry, _STRUCT, "PodDeviceEntries", f"checkpoint.{_ENTRY}")
    return listed


def _entry(entry: Mapping[str, Any]) -> str:
    names = ("PodUID", "ContainerName", "ResourceName")
    texts = " ".join(f"{name}:(string){text_field(entry, name, _ENTRY)}" for name in names)
    ids = entry.get("DeviceIDs")
    if isinstance(ids, list):
        devices = f"([]string){_texts(ids, 'DeviceIDs', _ENTRY)}"
    else:
        devices = f"(checkpoint.DevicesPerNUMA){_by_node(entry)}"
    return f"{{{texts} DeviceIDs:{devices} AllocResp:([]uint8){_bytes(entry)}}}"


def _by_node(entry: Mapping[str, Any]) -> str:
    if entry.get("DeviceIDs") is None:
        return "<nil>"
    place = below(_ENTRY, "DeviceIDs")
    nodes = _nodes(entry)
    return f"map[{' '.join(f'{node}:{_texts(nodes[node], node, place)}' for node in sorted(nodes))}]"


def _nodes(entry: Mapping[str, Any]) -> dict[int, Any]:
    found = map_field(entry, "DeviceIDs", _ENTRY, "checkpoint.DevicesPerNUMA")
    for key in found:
        if not _NODE.fullmatch(key):
            raise CheckpointError(f"json: cannot unmarshal number {printable(key[:40])} into Go value of type int64")
    return {int(key): value for key, value in found.items()}


def _ids(entry: Mapping[str, Any]) -> list[str]:
    listed = entry.get("DeviceIDs")
    if isinstance(listed, list):
        return _names(listed, "DeviceIDs", _ENTRY) or []
    place = below(_ENTRY, "DeviceIDs")
    return [name for node, group in _nodes(entry).items() for name in _names(group, node, place) or ()]


def _texts(value: object, field: str | int, place: str) -> str:
    names = _names(value, field, place)
    return "<nil>" if names is None else f"[{' '.join(names)}]"


def _names(value: object, field: str | int, place: str) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise field_error(value, place, field, "[]string")
    return value


def _bytes(entry: Mapping[str, Any]) -> str:
    if entry.get("AllocResp") is None:
        return "<nil>"
    try:
        found = base64.b64decode(text_field(entry, "AllocResp", _ENTRY), validate=True)
    except binascii.Error:
        raise CheckpointError("illegal base64 data in AllocResp") from None
    return f"[{' '.join(map(str, found))}]"
