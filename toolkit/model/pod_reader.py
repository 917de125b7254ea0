"""Pods from manifests as users write them, with the API server's defaults filled in.

Strict about what the resource managers use (``resources``, names, roles), tolerant of everything else in a v1.Pod.
Not the API server's whole validation: what it would refuse about resources is refused here, the rest is skipped.
Source: Kubernetes API reference v1.36 "Pod"; KEP-2837 "Defaulting" (pod-level requests and hugepage limits).
"""

from __future__ import annotations

import re
from typing import Any

from toolkit.errors import InputError
from toolkit.model.plan import ContainerRole
from toolkit.model.pod import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    Container,
    Pod,
    ResourceList,
    Resources,
    aggregate,
    is_pod_level_resource,
)
from toolkit.model.quantity import Quantity

EXPECTED = "a Pod manifest (apiVersion: v1, kind: Pod)"
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
MAX_CONTAINERS = 1024


def read_pod(data: object, where: str) -> Pod:
    """Read a v1.Pod manifest (parsed YAML or JSON), fill in defaults, refuse resources that the API refuses.

    A manifest without ``metadata.uid`` gets its name (with its namespace, unless ``default``) for a uid.

    :raises InputError: one line that names the place.
    """
    manifest = _mapping(data, where, EXPECTED)
    if manifest.get("apiVersion") != "v1" or manifest.get("kind") != "Pod":
        found = f"apiVersion {manifest.get('apiVersion')!r}, kind {manifest.get('kind')!r}"
        raise InputError(where, found, EXPECTED)
    metadata = _mapping(manifest.get("metadata"), f"{where}.metadata", "a mapping with the pod's name")
    name = _name(metadata.get("name"), f"{where}.metadata.name", _SUBDOMAIN)
    namespace = _name(metadata.get("namespace", "default"), f"{where}.metadata.namespace", _LABEL)
    uid = metadata.get("uid", name if namespace == "default" else f"{namespace}.{name}")
    spec = _mapping(manifest.get("spec"), f"{where}.spec", "a mapping with the pod's containers")
    pod = _pod(spec, f"{where}.spec", uid=_name(uid, f"{where}.metadata.uid", _UID), name=name, namespace=namespace)
    _refuse_what_the_api_refuses(pod, where)
    return with_defaults(pod)


def read_vector_pod(data: object, where: str) -> Pod:
    """Read a POD of the vectors format: given after defaulting, valid for the API or not.

    :raises InputError: one line that names the place.
    """
    pod = _mapping(data, where, "a mapping with uid, name and containers")
    uid = _name(pod.get("uid"), f"{where}.uid", _UID)
    return _pod(pod, where, uid=uid, name=_name(pod.get("name", uid), f"{where}.name", _UID), namespace="default")


def with_defaults(pod: Pod) -> Pod:
    """Fill in what the API server fills in: requests from limits, then the pod-level requests and hugepage limits."""
    containers = tuple(
        Container(
            name=c.name,
            role=c.role,
            resources=Resources(requests={**c.resources.limits, **c.resources.requests}, limits=c.resources.limits),
        )
        for c in pod.containers
    )
    resources = pod.resources
    filled = Pod(uid=pod.uid, name=pod.name, namespace=pod.namespace, containers=containers, resources=resources)
    if resources is None or not filled.pod_level:
        return filled
    huge = {n: q for n, q in aggregate(filled, limits=True).items() if n.startswith(HUGEPAGES_PREFIX)}
    limits = {**huge, **resources.limits}
    requests: ResourceList = resources.requests
    if limits:
        # Hugepages are never overcommitted: their request is the limit.
        needed = {n: q for n, q in aggregate(filled).items() if n in (CPU, MEMORY)}
        asked = {n: q for n, q in limits.items() if is_pod_level_resource(n)}
        requests = {**asked, **needed, **requests}
    budget = Resources(requests=requests, limits=limits)
    return Pod(uid=pod.uid, name=pod.name, namespace=pod.namespace, containers=containers, resources=budget)


def _pod(spec: dict[str, Any], where: str, *, uid: str, name: str, namespace: str) -> Pod:
    containers = [
        _container(item, f"{where}.initContainers[{i}]", init=True)
        for i, item in enumerate(_list(spec.get("initContainers"), f"{where}.initContainers"))
    ]
    apps = _list(spec.get("containers"), f"{where}.containers")
    if not apps:
        raise InputError(f"{where}.containers", "no container", "at least one")
    containers += [_container(item, f"{where}.containers[{i}]", init=False) for i, item in enumerate(apps)]
    names = [container.name for container in containers]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InputError(where, f"container name {twice!r} twice", "every name once")
    resources = None if spec.get("resources") is None else _resources(spec["resources"], f"{where}.resources")
    return Pod(uid=uid, name=name, namespace=namespace, containers=tuple(containers), resources=resources)


def _container(data: object, where: str, *, init: bool) -> Container:
    item = _mapping(data, where, "a container")
    restart = item.get("restartPolicy")
    if restart is not None and restart not in ("Always", "Never", "OnFailure"):
        raise InputError(f"{where}.restartPolicy", repr(restart)[:40], "Always, Never or OnFailure")
    role = ContainerRole.APP
    if init:
        role = ContainerRole.SIDECAR if restart == "Always" else ContainerRole.INIT
    return Container(
        name=_name(item.get("name"), f"{where}.name", _LABEL),
        role=role,
        resources=_resources(item.get("resources"), f"{where}.resources"),
    )


def _resources(data: object, where: str) -> Resources:
    if data is None:
        return Resources()
    item = _mapping(data, where, "requests and limits")
    unknown = sorted(str(key) for key in item if key not in ("requests", "limits", "claims"))
    if unknown:
        raise InputError(where, f"unknown key {unknown[0][:60]!r}", "requests, limits or claims")
    return Resources(
        requests=read_resource_list(item.get("requests"), f"{where}.requests"),
        limits=read_resource_list(item.get("limits"), f"{where}.limits"),
    )


def read_resource_list(data: object, where: str) -> dict[str, Quantity]:
    """Read a mapping of resource names to quantities (text, or a number as YAML reads it).

    :raises InputError: unknown native resources, quantities that cannot be read, negative ones.
    """
    if data is None:
        return {}
    found = {}
    for key, value in _mapping(data, where, "a mapping of resources to quantities").items():
        name = str(key)
        if name not in _NATIVE and "/" not in name and not name.startswith(HUGEPAGES_PREFIX):
            known = "cpu, memory, ephemeral-storage, hugepages-<size> or an extended resource (domain/name)"
            raise InputError(where, f"unknown resource {name[:60]!r}", known)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"{where}.{name}", type(value).__name__, "a quantity such as 500m or 1Gi")
        text = value if isinstance(value, str) else str(value)
        quantity = Quantity.parse(text.strip(), f"{where}.{name}")
        if quantity.nano < 0:
            raise InputError(f"{where}.{name}", text, "a quantity that is not negative")
        # The kubelet gets pods in canonical form, as the API server has written them.
        found[name] = Quantity.parse(str(quantity))
    return found


def _refuse_what_the_api_refuses(pod: Pod, where: str) -> None:
    parts = [(f"{where}: container {c.name}", c.resources) for c in pod.containers]
    if pod.resources is not None:
        parts.append((f"{where}: spec.resources", pod.resources))
        for name in (*pod.resources.requests, *pod.resources.limits):
            if not is_pod_level_resource(name):
                raise InputError(f"{where}: spec.resources", name, "cpu, memory or hugepages-<size>")
    for place, resources in parts:
        for name, limit in resources.limits.items():
            request = resources.requests.get(name, limit)
            if request.nano > limit.nano:
                raise InputError(place, f"{name} request {request} above its limit {limit}", "at most the limit")
            if request.nano != limit.nano and (name.startswith(HUGEPAGES_PREFIX) or "/" in name):
                raise InputError(
                    place, f"{name} request {request}, limit {limit}", "equal ones: it is never overcommitted"
                )
        for name in resources.requests:
            if name not in resources.limits and name.startswith(HUGEPAGES_PREFIX):
                raise InputError(place, f"{name} request without a limit", "both")
    budget = with_defaults(pod).resources
    if budget is None:
        return
    for name, amount in aggregate(with_defaults(pod)).items():
        if name in budget.requests and amount.nano > budget.requests[name].nano:
            found = f"containers request {amount} {name}, the pod {budget.requests[name]}"
            raise InputError(f"{where}: spec.resources", found, "a budget that covers the containers")


def _mapping(data: object, where: str, expected: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError(where, "nothing" if data is None else f"a {type(data).__name__}", expected)
    return data


def _list(data: object, where: str) -> list[Any]:
    if data is None:
        return []
    if not isinstance(data, list):
        raise InputError(where, f"a {type(data).__name__}", "a list of containers")
    if len(data) > MAX_CONTAINERS:
        raise InputError(where, f"{len(data)} containers", f"at most {MAX_CONTAINERS}")
    return data


def _name(value: object, where: str, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InputError(where, "nothing" if value is None else repr(value)[:60], "a Kubernetes name")
    return value
