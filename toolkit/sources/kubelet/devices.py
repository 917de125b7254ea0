"""The devices of a node: what its plugins have registered, and what containers have of it.

From the Device Manager's own file, from which a kubelet that restarts goes on; where that was not read, from what
pod-resources says. Of a device that nothing has, the file does not say where it sits: pod-resources does, since v1.23.
Before, it is taken to sit where those of its resource sit that are taken: a device without a node beside one that has
one is on no node for the Topology Manager.

Source: kubernetes ``pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go``; docs/capture-bundle.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit.allocation.checkpoint.devices import KEPT, checksum_fits
from toolkit.allocation.checkpoint.format import CheckpointError
from toolkit.allocation.device.manager import Device
from toolkit.errors import InputError
from toolkit.model.node_reading import NodeReading
from toolkit.model.state_files import DEVICE_FILE
from toolkit.sources.json_parts import entries, items, load, load_state, mapping, text
from toolkit.text.names import printable
from toolkit.text.wording import kind_of

FILE = DEVICE_FILE
"""In the folder of the plugins' sockets, which is where it is whatever the kubelet's root directory is."""
FOLDER = "device-plugins"
Owners = Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]
"""(pod uid, container) to resource to ids of devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What one container has of one resource. :param ids: of devices, each with its NUMA nodes."""

    pod_uid: str
    container: str
    resource: str
    ids: dict[str, tuple[int, ...]]


def kept_file(data: bytes, where: str) -> dict[str, Any]:
    """Keep which container has which device: what plugins told the runtime (``AllocResp``) has environment and mounts.

    The checksum is of that, too: what is kept of it is whether it fits. Of what is no such file that is all.
    """
    try:
        document = mapping(load(data, where))
        content = mapping(document.get("Data"))
        names = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs")
        given = [{name: one.get(name) for name in names} for one in entries(content.get("PodDeviceEntries"), where)]
        fits = checksum_fits(document)
    except (InputError, CheckpointError):
        return {KEPT: False}
    kept = {"PodDeviceEntries": given, "RegisteredDevices": mapping(content.get("RegisteredDevices"))}
    return {"Data": kept, KEPT: bool(fits)}


def devices_held(reading: NodeReading, uids: Mapping[tuple[str, str], str]) -> tuple[tuple[Device, ...], Owners]:
    """Return a node's devices, and whose they are. A file that makes no sense is as good as none, for a kubelet too.

    :param uids: of pods, by namespace and name: pod-resources has names alone.
    """
    known: dict[tuple[str, str], tuple[int, ...]] = {}
    try:
        content = _content(reading.device_state)
        given = [_given(one) for one in entries(content.get("PodDeviceEntries"), FILE)]
        for resource, ids in mapping(content.get("RegisteredDevices")).items():
            known |= {(printable(resource), printable(text(one))): () for one in items(ids)}
    except InputError:
        given = list(_by_rows(reading, uids))
    for device in reading.allocatable_devices or ():
        known[device.resource, device.id] = device.numa_nodes
    owners: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for one in given:
        known |= {(one.resource, name): nodes or known.get((one.resource, name), ()) for name, nodes in one.ids.items()}
        owners.setdefault((one.pod_uid, one.container), {})[one.resource] = tuple(sorted(one.ids))
    found = (Device(resource=resource, id=name, numa=nodes) for (resource, name), nodes in sorted(known.items()))
    return tuple(found), owners


def placed(devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return devices, those of which no node is known on the nodes of the others of their resource."""
    listed = tuple(devices)
    nodes: dict[str, set[int]] = {}
    for one in listed:
        nodes.setdefault(one.resource, set()).update(one.numa)
    return tuple(one if one.numa else replace(one, numa=tuple(sorted(nodes[one.resource]))) for one in listed)


def _content(said: str | None) -> dict[str, Any]:
    if said is None:
        raise InputError(FILE, "not read", "the Device Manager's file")
    document = mapping(load_state(said, FILE))
    if document.get(KEPT) is False:
        raise InputError(FILE, "a checksum that is not that of the content", "the Device Manager's file")
    return mapping(document.get("Data"))


def _given(entry: dict[str, Any]) -> _Given:
    """Read an entry. Kubelets before v1.20 list ids without NUMA nodes; node -1: the plugin states none."""
    listed = entry.get("DeviceIDs")
    if not isinstance(listed, dict | list | None):
        raise InputError(f"{FILE}: DeviceIDs", kind_of(listed), "ids by NUMA node")
    ids: dict[str, tuple[int, ...]] = {}
    for node, names in (mapping(listed) if isinstance(listed, dict) else {"-1": items(listed)}).items():
        stated = {int(node)} if node.isascii() and node.isdigit() and len(node) <= 4 else set()
        for name in (printable(text(one)) for one in items(names)):
            ids[name] = tuple(sorted({*ids.get(name, ()), *stated}))
    uid, container, resource = (text(entry.get(name)) for name in ("PodUID", "ContainerName", "ResourceName"))
    return _Given(pod_uid=uid, container=container, resource=printable(resource), ids=ids)


def _by_rows(reading: NodeReading, uids: Mapping[tuple[str, str], str]) -> Iterator[_Given]:
    for row in reading.pod_resources or ():
        uid = uids.get((row.pod_namespace or "default", row.pod_name))
        by_resource: dict[str, dict[str, tuple[int, ...]]] = {}
        for device in row.devices if uid is not None else ():
            if device.resource:
                by_resource.setdefault(device.resource, {})[device.id] = device.numa_nodes
        for resource, ids in by_resource.items():
            yield _Given(pod_uid=uid or "", container=row.container, resource=resource, ids=ids)
