"""Manifests of static pods, joined with the pods that a kubelet made of them.

A manifest has mostly no UID: the runtime's names join them (a static pod is called ``NAME-NODE``), of pods whose UID is
the hash that the kubelet makes for a manifest without one.
Source: kubernetes ``pkg/kubelet/config`` (``applyDefaults``: names and UIDs of static pods).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.allocated import allocated_names, allocations
from toolkit.sources.kubelet.json_parts import items, mapping, text
from toolkit.sources.kubelet.whose_manifest import contradicted
from toolkit.text.yaml_text import MAX_BYTES, parse_document

_LISTS = ("initContainers", "containers", "ephemeralContainers")
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
    return {text(one.get("name")) for key in _LISTS for one in map(mapping, items(spec.get(key)))}
