"""What the pods of a node ask for: from the kubelet's list of pods with what it has allocated to them, which a resize
that waits is not in; else from the allocations alone, else from the manifests of static pods.

``allocated_pods_state`` holds the resources that the kubelet has allocated to the containers of each pod, and
``actuated_pods_state`` those that it has put into force: between the two is a resize that is under way. Neither has the
containers' roles, nor ephemeral containers, nor init containers that end; a manifest has the roles. The files hold
their content as text, with a checksum of that text: one whose checksum is another one is torn, or not its own word, and
a kubelet does not start from it.

A manifest has mostly no UID: the runtime's names join them (a static pod is called ``NAME-NODE``), of pods whose UID is
the hash that the kubelet makes for a manifest without one. A kubelet that is stopped or slow has not read an edited
one. Then the runtime's word decides whose it is: the kubelet asked it for what the manifest of the running pod says.
Where the two differ it is not known which of them was changed: neither is promised. Pure.

Source: kubernetes ``pkg/kubelet/allocation`` (``allocationFromPod``, ``SetActuatedResources``) and its ``state``
(``Checkpoint.VerifyChecksum``), ``pkg/kubelet/config`` (``applyDefaults``: names and UIDs of static pods); the recorded
files of tests/data/captures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from toolkit.allocation.cgroup_values import container_values
from toolkit.allocation.checkpoint.format import CheckpointError, load_object, text_checksum
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import CPU, Container, Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.evidence.following import LIMITS
from toolkit.model.node_reading import Asked, MissingPart, NodeReading, RuntimeContainer
from toolkit.sources.json_parts import items, mapping, text
from toolkit.text.wording import kind_of
from toolkit.text.yaml_text import MAX_BYTES, parse_document

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


def pod_documents(reading: NodeReading) -> dict[str, dict[str, Any]]:
    """Return pod documents by every uid that the pod goes by: static pods' cgroups carry their hash.

    Of a pod that came by the API the hash is what its author wrote there, and never another pod's uid.
    Source: kubernetes ``pkg/kubelet/config/common.go`` (``applyDefaults``), ``pkg/kubelet/types/pod_update.go``.
    """
    found: dict[str, dict[str, Any]] = {}
    hashes: dict[str, dict[str, Any]] = {}
    for document in reading.pods or ():
        metadata = mapping(document.get("metadata"))
        annotations = mapping(metadata.get("annotations"))
        if text(metadata.get("uid")):
            found[text(metadata.get("uid"))] = document
        own = text(annotations.get("kubernetes.io/config.source")) in ("file", "http")
        if own or "kubernetes.io/config.mirror" in annotations:
            hashes[text(annotations.get("kubernetes.io/config.hash"))] = document
    return found | {uid: document for uid, document in hashes.items() if uid and uid not in found}


def is_over(document: dict[str, Any]) -> bool:
    """Return whether a pod has ended, or was never admitted."""
    return mapping(document.get("status")).get("phase") in ("Failed", "Succeeded")


def statuses(document: dict[str, Any]) -> dict[str, str]:
    """Return container id to name, of all lists of statuses."""
    status = mapping(document.get("status"))
    found = {}
    for name in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for entry in map(mapping, items(status.get(name))):
            found[text(entry.get("containerID")).rpartition("//")[2]] = text(entry.get("name"))
    return found


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


_ALL_LISTS = ("initContainers", "containers", "ephemeralContainers")
_HASH = re.compile(r"[0-9a-f]{32}")


class StaticPods:
    """What pods of a followed node were made of: a manifest that is taken away ends its pod some time later, and one
    that is edited is that of another pod, whose UID is another hash; the pod that runs is as it was until it ends.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self._joined: dict[str, dict[str, Any]] = {}
        """As the last reading alone has them."""
        self._sure: frozenset[str] = frozenset()
        """UIDs of those that two readings in turn joined with the same manifest. One alone may be between two: its
        manifest was read before, and the runtime's list after an edit."""
        self._reading: NodeReading | None = None

    def of(self, reading: NodeReading, config: NodeConfig) -> dict[str, dict[str, Any]]:
        """Return manifests by UID, also those that are not there any more, for as long as the runtime lists the pod.

        One that the runtime's word contradicts from its first reading on is not known to be the pod's.

        The same object as long as nothing differs.
        """
        if reading.containers is None:
            return self._known
        if reading == self._reading:
            joined = self._joined
        else:
            joined = manifests(reading)
            others = contradicted(reading, joined, config).keys() - self._sure
            joined = {uid: document for uid, document in joined.items() if uid not in others}
        listed = {entry.pod_uid for entry in reading.containers}
        again = {uid for uid, document in joined.items() if _HASH.fullmatch(uid) and document == self._joined.get(uid)}
        found = {uid: document for uid, document in self._known.items() if uid in listed}
        found |= {uid: document for uid, document in joined.items() if uid not in self._sure}
        self._sure = frozenset((self._sure | again) & listed)
        self._reading, self._joined = reading, joined
        self._known = self._known if found == self._known else found
        return self._known


def manifests(reading: NodeReading) -> dict[str, dict[str, Any]]:
    """Return the manifests of static pods by the UIDs of the pods that were made of them."""
    allocated, documents = allocated_names(reading), _documents(reading)
    names: dict[str, set[str]] = {}
    pods = {}
    for entry in reading.containers or ():
        pods[entry.pod_uid] = entry.pod_namespace or "default", entry.pod_name
        names.setdefault(entry.pod_uid, set()).update({entry.name} - {""})
    found = {}
    for uid, (namespace, name) in pods.items():
        fitting = [
            document
            for (space, stem), document in documents.items()
            if space == namespace
            and stem
            and name.startswith(f"{stem}-")
            and _is_made_of(uid, document)
            and allocated.get(uid, names[uid]) <= _names(document)
        ]
        if len(fitting) == 1:
            metadata = {**mapping(fitting[0].get("metadata")), "uid": uid}
            found[uid] = {**fitting[0], "apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return found


def may_wait(reading: NodeReading, uid: str, container: str) -> bool:
    """Whether a pod without sandbox may be a static one that waits for the version before it to end.

    The kubelet admits it first, and makes no folder of it meanwhile. What it has allocated names it; one that writes
    none of that leaves the form of the UID, which is a hash, and a manifest with that container.
    Source: kubernetes ``pkg/kubelet/pod_workers.go`` (``allowPodStart``).
    """
    if reading.allocated_pods is not None:
        return uid in allocations(reading)
    return any(_is_made_of(uid, one) and container in {"", *_names(one)} for one in _documents(reading).values())


def _documents(reading: NodeReading) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the manifests by namespace and name."""
    documents: dict[tuple[str, str], dict[str, Any]] = {}
    for file in reading.static_pods:
        try:
            document = _parsed(file.text, file.name) if len(file.text) <= MAX_BYTES else {}
        except InputError:
            continue
        metadata = mapping(document.get("metadata"))
        documents[text(metadata.get("namespace")) or "default", text(metadata.get("name"))] = document
    return documents


@lru_cache(256)
def _parsed(manifest: str, where: str) -> dict[str, Any]:
    """Return a manifest, which nothing may change."""
    return mapping(parse_document(manifest, where))


def _is_made_of(uid: str, manifest: dict[str, Any]) -> bool:
    """Whether a static pod of this manifest may go by a UID; a pod of the API server has a UUID, whatever its name."""
    given = text(mapping(manifest.get("metadata")).get("uid"))
    return uid == given if given else _HASH.fullmatch(uid) is not None


def _names(document: dict[str, Any]) -> set[str]:
    spec = mapping(document.get("spec"))
    return {text(one.get("name")) for key in _ALL_LISTS for one in map(mapping, items(spec.get(key)))}


QUOTA, SHARES, MEMORY = "quota_us", "shares", "memory_bytes"


def contradicted(
    reading: NodeReading, manifests: Mapping[str, Mapping[str, Any]], config: NodeConfig
) -> dict[str, dict[str, frozenset[str]]]:
    """Return by pod UID and container which values (fields of :class:`Asked`) the runtime was not asked for.

    :param manifests: by the UIDs of the pods that they are joined with.
    """
    found: dict[str, dict[str, frozenset[str]]] = {}
    for entry in reading.containers or ():
        hashed = _HASH.fullmatch(entry.pod_uid) is not None
        if not hashed or entry.pod_uid not in manifests or entry.sandbox or not entry.runs:
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
