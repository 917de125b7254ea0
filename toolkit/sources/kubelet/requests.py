"""What the pods of a node ask for: from the kubelet's list of pods with what it has allocated to them, which a resize
that waits is not in; else from the allocations alone, else from the manifests of static pods.

``allocated_pods_state`` holds resources by pod UID and container, and not the containers' roles; a manifest has these.
Source: kubernetes ``pkg/kubelet/allocation`` (``allocationFromPod``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from toolkit.errors import InputError
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.allocated import actuated, allocations
from toolkit.sources.kubelet.json_parts import items, mapping, text
from toolkit.sources.kubelet.static_pods import manifests
from toolkit.sources.kubelet.subjects import pod_documents

_LISTS = ("initContainers", "containers")
_STATUSES = ("initContainerStatuses", "containerStatuses")
_PENDING = frozenset({"PodResizePending", "Deferred", "Infeasible"})
"""What a status says of a resize of which nothing is in force."""
_RESIZES = _PENDING | {"PodResizeInProgress", "Proposed", "InProgress"}
"""And of one of which something may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """Pods by every UID that they go by. :param partial: UIDs of pods whose containers' roles are not known.

    :param in_force: those whose resize is under way, with what they had before it, as far as nothing else is in force.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    in_force: dict[str, Pod] = field(default_factory=dict)
    partial: frozenset[str] = frozenset()


def requested(
    reading: NodeReading, *, budgets: bool = True, ignored: Callable[[str], bool] = lambda _uid: False
) -> Requested:
    """Return what is known of the pods' requests; a document that cannot be read is left out.

    :param budgets: feature gate ``PodLevelResources``. A kubelet without it does not look at a pod's own resources.
    :param ignored: whether it is not known of a pod (by UID) if its kubelet looks at these.
    """
    allocated, now = allocations(reading), actuated(reading)
    listed, named = pod_documents(reading), {**manifests(reading), **reading.static_of}
    pods, in_force, partial = {}, {}, set()
    for uid in listed.keys() | named.keys() | allocated.keys():
        own, waiting = allocated.get(uid), _in_force(listed[uid]) if uid in listed else None
        if own is None and waiting is not None and not _resizes(listed[uid]) <= _PENDING:
            own = _asked_for(listed[uid])
        pod = _pod(_with(listed[uid], own or waiting)) if uid in listed else None
        manifest = listed[uid] if pod is not None else named.get(uid)
        if pod is None and manifest is not None:
            pod = _pod(_with(manifest, own))
        elif pod is None and own is not None:
            pod = _bare(uid, json.dumps(own))
            partial.add(uid)
        if pod is None:
            continue
        pods[uid] = pod
        before = _before(own, now.get(uid) or waiting)
        old = None if before is None else _pod(_with(manifest, before)) if manifest else _bare(uid, json.dumps(before))
        if old is not None:
            in_force[uid] = old
    unsure = {uid: pod for uid, pod in pods.items() if budgets and pod.pod_level and ignored(uid)}
    in_force |= {uid: replace(pod, resources=None) for uid, pod in unsure.items() if uid not in in_force}
    if not budgets:
        pods, in_force = _without_budgets(pods), _without_budgets(in_force)
    return Requested(pods=pods, in_force=in_force, partial=frozenset(partial))


def _without_budgets(pods: dict[str, Pod]) -> dict[str, Pod]:
    return {uid: replace(pod, resources=None) for uid, pod in pods.items()}


def _before(allocated: dict[str, Any] | None, now: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an allocation with what is in force instead, where that differs."""
    if allocated is None or now is None:
        return None
    own, other = mapping(allocated.get("ContainerResources")), mapping(now.get("ContainerResources"))
    containers = {name: other.get(name, resources) for name, resources in own.items()}
    whole = mapping(now.get("PodLevelResources")) or allocated.get("PodLevelResources")
    found = {**allocated, "ContainerResources": containers, "PodLevelResources": whole}
    return None if found == allocated else found


def _in_force(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a pod's status says it has, in the form of an allocation, where a resize waits.

    The list of pods holds what was asked for: a resize that is deferred, infeasible or under way is in it.
    """
    status = mapping(document.get("status"))
    if not _resizes(document):
        return None
    rows = [mapping(one) for name in _STATUSES for one in items(status.get(name))]
    resources = {text(one.get("name")): mapping(one["resources"]) for one in rows if mapping(one.get("resources"))}
    return {"ContainerResources": resources, "PodLevelResources": status.get("resources")}


def _resizes(document: dict[str, Any]) -> frozenset[str]:
    """Return what a pod's status says of its resize: by conditions, or of kubelets 1.27 to 1.32 by ``status.resize``
    (``Proposed``, ``InProgress``, ``Deferred``, ``Infeasible``). Source: KEP-1287 "In-Place Update of Pod Resources".
    """
    status = mapping(document.get("status"))
    types = (text(mapping(one).get("type")) for one in items(status.get("conditions")))
    return frozenset(one for one in (text(status.get("resize")), *types) if one in _RESIZES)


def _asked_for(document: dict[str, Any]) -> dict[str, Any]:
    """Return what a pod asks for, in the form of an allocation."""
    spec = mapping(document.get("spec"))
    containers = [mapping(one) for key in _LISTS for one in items(spec.get(key))]
    resources = {text(one.get("name")): mapping(one.get("resources")) for one in containers}
    return {"ContainerResources": resources, "PodLevelResources": spec.get("resources")}


def _pod(document: dict[str, Any]) -> Pod | None:
    try:
        return read_pod({"apiVersion": "v1", "kind": "Pod", **document}, "pods")
    except InputError:
        return None  # Its claims come from what the runtime was asked for.


@lru_cache(4096)
def _bare(uid: str, allocated: str) -> Pod | None:
    """Read a pod of which the allocation alone is known: each one once, of the hundreds of a node that is followed."""
    entry = mapping(json.loads(allocated))
    resources = mapping(entry.get("ContainerResources"))
    containers = [{"name": name, "resources": own} for name, own in sorted(resources.items())]
    return _pod({"metadata": {"name": "pod", "uid": uid}, "spec": _budget({"containers": containers}, entry)})


def _budget(spec: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    whole = mapping(entry.get("PodLevelResources"))
    return {**spec, "resources": whole} if whole else spec


def _with(manifest: dict[str, Any], entry: dict[str, Any] | None) -> dict[str, Any]:
    """Return a manifest with what was allocated: a resize may have changed it."""
    if entry is None:
        return manifest
    spec, resources = mapping(manifest.get("spec")), mapping(entry.get("ContainerResources"))
    lists = {
        key: [
            one | ({"resources": resources[text(one.get("name"))]} if text(one.get("name")) in resources else {})
            for one in map(mapping, items(spec[key]))
        ]
        for key in _LISTS
        if key in spec
    }
    return {**manifest, "spec": _budget({**spec, **lists}, entry)}
