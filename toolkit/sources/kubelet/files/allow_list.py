"""What is kept of what a node says: what pins CPUs and memory. Lists of what stays leave out what may be a secret.

Of pods stay names, UIDs, resources and the annotations that pin; environment, arguments, volumes, other annotations and
own labels do not. Source: Kubernetes API reference, Pod v1; KubeletConfiguration v1beta1, ``staticPodURLHeader``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import yaml

from toolkit.errors import InputError
from toolkit.sources.crio import kept_annotations
from toolkit.sources.json_parts import items, mapping, text
from toolkit.text.yaml_text import MAX_BYTES, parse_document

POD_UID, POD_NAME, POD_NAMESPACE = (f"io.kubernetes.pod.{what}" for what in ("uid", "name", "namespace"))
CONTAINER_NAME = "io.kubernetes.container.name"
MAX_TEXT = 4096
"""Longer than any name, path or CPU list."""
LABELS = (POD_UID, POD_NAME, POD_NAMESPACE, CONTAINER_NAME, "io.cri-containerd.kind")
_METADATA = ("name", "namespace", "uid")
_CONTAINER = ("name", "resources", "restartPolicy", "resizePolicy")
_POD = ("resources", "overhead", "priority", "hostNetwork", "hostPID", "terminationGracePeriodSeconds")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_HEADER = "staticpodurlheader"
_STATUS = ("phase", "reason", "startTime", "qosClass", "resize", "resources")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_OF_CONTAINER = ("name", "containerID", "ready", "started", "restartCount", "resources", "allocatedResources")
_STATE = ("startedAt", "finishedAt", "exitCode", "signal", "reason", "containerID")
_CONDITION = ("type", "status", "reason", "lastTransitionTime")
_SOURCE = "kubernetes.io/config."
"""Annotations that the kubelet gives to static pods: ``hash``, ``source``, ``mirror``, ``seen``."""
_SOURCE_TEXT = re.compile(r"[0-9A-Za-z.:+-]{1,64}")


def kept_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Keep of an entry of the runtime's lists what the clients decode, of its labels the kubelet's, no endless text."""
    found = bounded(entry)
    assert isinstance(found, dict)
    _own_labels(found)
    return found


def _own_labels(entry: dict[str, Any]) -> None:
    if "labels" in entry:
        entry["labels"] = {name: v for name, v in mapping(entry["labels"]).items() if name in LABELS}
    if "annotations" in entry:
        entry["annotations"] = kept_annotations(entry["annotations"])


def container_list(node: dict[str, Any]) -> dict[str, Any]:
    """Return ``containers.json`` of the same answers: id to labels, cgroup path, resources and type."""
    found: dict[str, Any] = {}
    for entry in map(mapping, items(mapping(node.get("containers")).get("containers"))):
        status = mapping(mapping(node.get("status")).get(text(entry.get("id"))))
        linux = mapping(mapping(mapping(status.get("status")).get("resources")).get("linux"))
        own = mapping(status.get("resources"))
        names = {"shares": "cpuShares", "quota": "cpuQuota", "period": "cpuPeriod"}
        names |= {"cpus": "cpusetCpus", "mems": "cpusetMems"}
        asked = {
            "cpu": {key: linux[name] for key, name in names.items() if name in linux},
            "memory": {"limit": linux["memoryLimitInBytes"]} if "memoryLimitInBytes" in linux else {},
            "hugepageLimits": items(own.get("hugepageLimits")),
        }
        found[text(entry.get("id"))] = {
            "labels": mapping(entry.get("labels")),
            "cgroupsPath": text(status.get("cgroupsPath")),
            "resources": asked if linux else own,
            "type": "container",
        }
    for entry in map(mapping, items(mapping(node.get("sandboxes")).get("items"))):
        found[text(entry.get("id"))] = {"labels": mapping(entry.get("labels")), "type": "sandbox"}
    return found


def bounded(value: Any) -> Any:
    """Drop texts that are too long, and what holds them in a mapping."""
    if isinstance(value, dict):
        return {key: bounded(item) for key, item in value.items() if not (_long(key) or _long(item))}
    if isinstance(value, list):
        return [bounded(item) for item in value if not _long(item)]
    return value


def _long(value: object) -> bool:
    return isinstance(value, str) and len(value) > MAX_TEXT


@lru_cache(256)
def kept_manifest(data: bytes, where: str) -> str:
    """Keep of a static pod names and resources. What follows a node reads the same files again and again.

    :raises InputError: it is no such document; the message quotes nothing of it.
    """
    try:
        found = _document(data, where)
    except InputError:
        raise InputError(where, "no YAML document of one pod", "a static pod") from None
    metadata, spec = _some(found.get("metadata"), _METADATA), _spec(mapping(found.get("spec")))
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return str(yaml.safe_dump(bounded(document), sort_keys=False))


def kept_pod(document: dict[str, Any]) -> dict[str, Any]:
    """Keep of a pod in the kubelet's list names, resources, and which of its containers run.

    Of texts the kubelet's own one is kept, which says why it refused a pod. A container's own (its termination message)
    is not.
    """
    metadata, status = mapping(document.get("metadata")), mapping(document.get("status"))
    source = {
        key: value
        for key, value in mapping(metadata.get("annotations")).items()
        if key.startswith(_SOURCE) and isinstance(value, str) and _SOURCE_TEXT.fullmatch(value)
    }
    source |= kept_annotations(metadata.get("annotations"))
    own = _some(metadata, (*_METADATA, "creationTimestamp", "deletionTimestamp"))
    state = _some(status, _STATUS)
    if status.get("phase") == "Failed" and "message" in status:
        state["message"] = status["message"]
    if "conditions" in status:
        state["conditions"] = [_some(one, _CONDITION) for one in items(status["conditions"])]
    for name in _STATUSES:
        if name in status:
            state[name] = [_container_status(mapping(one)) for one in items(status[name])]
    found = bounded(
        {
            "metadata": own | ({"annotations": source} if source else {}),
            "spec": _spec(mapping(document.get("spec"))),
            "status": state,
        }
    )
    assert isinstance(found, dict)
    return found


def _spec(spec: dict[str, Any]) -> dict[str, Any]:
    kept = {key: spec[key] for key in _POD if key in spec}
    for name in _CONTAINERS:
        if name in spec:
            kept[name] = [_some(container, _CONTAINER) for container in items(spec[name])]
    return kept


def _container_status(status: dict[str, Any]) -> dict[str, Any]:
    states = {
        key: {name: _some(one, _STATE) for name, one in mapping(status[key]).items()}
        for key in ("state", "lastState")
        if key in status
    }
    return _some(status, _OF_CONTAINER) | states


def _some(value: object, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: item for key, item in mapping(value).items() if key in keys}


@lru_cache(64)
def kept_configuration(data: bytes, where: str) -> bytes:
    """Keep a kubelet's configuration as it is, but for the headers that it would fetch pods with. Read once as above.

    :raises InputError: it is no document and speaks of such a header; the message quotes nothing of it.
    """
    try:
        found = _document(data, where)
    except InputError:
        if _HEADER.encode() in data.lower():
            raise InputError(
                where, "no YAML document, and headers to fetch pods with in it", "a configuration"
            ) from None
        return data  # What is wrong with it is for the reader to say.
    if not any(key.lower() == _HEADER for key in found):
        return data
    kept = {key: value for key, value in found.items() if key.lower() != _HEADER}
    return str(yaml.safe_dump(kept, sort_keys=False)).encode()


def _document(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise InputError(where, f"{len(data)} bytes", f"at most {MAX_BYTES}")
    found = parse_document(data.decode("utf-8", "replace"), where)
    if not isinstance(found, dict):
        raise InputError(where, "no mapping", "a document of Kubernetes")
    return mapping(found)
