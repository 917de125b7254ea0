"""Pods from manifests as users write them, with the API server's defaults filled in.

Strict about what the resource managers use (``resources``, names, roles), tolerant of everything else in a v1.Pod.
Not the API server's whole validation: what it would refuse about resources is refused
(:mod:`toolkit.kubernetes.pod_validation`), the rest is skipped.
Source: Kubernetes API reference v1.36 "Pod"; KEP-2837 "Defaulting" (pod-level requests and hugepage limits).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

from toolkit.errors import InputError
from toolkit.kubernetes.documents import SHOWN, Part, absent, expected, head, needed, quantity, read_document, refusal
from toolkit.kubernetes.pod import (
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
from toolkit.kubernetes.pod_validation import refuse_what_the_api_refuses
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.plan import ContainerRole
from toolkit.text.wording import kind_of

EXPECTED = "a Pod manifest (apiVersion: v1, kind: Pod)"
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
MAX_CONTAINERS = 1024


def _resource(key: object) -> str:
    name = str(key)
    if name not in _NATIVE and "/" not in name and not name.startswith(HUGEPAGES_PREFIX):
        known = "cpu, memory, ephemeral-storage, hugepages-<size> or an extended resource (domain/name)"
        raise refusal(f"unknown resource {name[:SHOWN]!r}", known)
    return name


def _amount(value: object) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise refusal(kind_of(value), "a quantity such as 500m or 1Gi")
    text = value if isinstance(value, str) else str(value)
    amount = quantity(text.strip())
    if amount.nano < 0:
        raise refusal(text, "a quantity that is not negative")
    # The kubelet gets pods in canonical form, as the API server has written them.
    return Quantity.parse(str(amount))


def _bounded(value: object) -> object:
    if isinstance(value, list) and len(value) > MAX_CONTAINERS:
        raise refusal(f"{len(value)} containers", f"at most {MAX_CONTAINERS}")
    return value


_NAME = expected("a Kubernetes name")
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"), _NAME]
Subdomain = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253), _NAME]
Uid = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"), _NAME]
Amounts = Annotated[
    dict[Annotated[str, BeforeValidator(_resource)], Annotated[Quantity, PlainValidator(_amount)]],
    expected("a mapping of resources to quantities"),
    absent(dict),
]


class _Resources(Part):
    requests: Amounts = Field(default_factory=dict)
    limits: Amounts = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: object) -> object:
        unknown = sorted(str(key) for key in data if key not in _RESOURCES_KEYS) if isinstance(data, dict) else []
        if unknown:
            raise refusal(f"unknown key {unknown[0][:SHOWN]!r}", "requests, limits or claims")
        return data

    def resources(self) -> Resources:
        return Resources(requests=self.requests, limits=self.limits)


_RESOURCES_KEYS = ("requests", "limits", "claims")
_Budget = Annotated[_Resources | None, expected("requests and limits")]


class _Container(Part):
    restart_policy: Annotated[
        Literal["Always", "Never", "OnFailure"] | None, expected("Always, Never or OnFailure")
    ] = Field(default=None, alias="restartPolicy")
    name: Label = needed()
    resources: _Budget = None

    def container(self, role: ContainerRole) -> Container:
        if role is ContainerRole.INIT and self.restart_policy == "Always":
            role = ContainerRole.SIDECAR
        return Container(
            name=self.name, role=role, resources=Resources() if self.resources is None else self.resources.resources()
        )


def _some(containers: list[_Container]) -> list[_Container]:
    if not containers:
        raise refusal("no container", "at least one")
    return containers


_Containers = Annotated[
    list[Annotated[_Container, expected("a container")]],
    expected("a list of containers"),
    BeforeValidator(_bounded),
    absent(list),
]


class _Spec(Part):
    model_config = ConfigDict(alias_generator=to_camel)
    init_containers: _Containers = Field(default_factory=list)
    containers: Annotated[_Containers, AfterValidator(_some)] = needed()
    resources: _Budget = None
    overhead: Amounts = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_once(self) -> _Spec:
        names = [container.name for container in (*self.init_containers, *self.containers)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise refusal(f"container name {twice!r} twice", "every name once")
        return self

    def pod(self, *, uid: str, name: str, namespace: str) -> Pod:
        return Pod(
            uid=uid,
            name=name,
            namespace=namespace,
            containers=(
                *(container.container(ContainerRole.INIT) for container in self.init_containers),
                *(container.container(ContainerRole.APP) for container in self.containers),
            ),
            resources=None if self.resources is None else self.resources.resources(),
            overhead=self.overhead,
        )


class _Metadata(Part):
    name: Subdomain = needed()
    namespace: Label = "default"
    uid: Uid = needed()

    @model_validator(mode="before")
    @classmethod
    def _name_for_a_uid(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("name") is None and data.get("generateName") is not None:
            raise refusal(
                "no name, only generateName", "a name: the API server makes one up only when it creates a pod"
            )
        if not isinstance(data, dict) or "uid" in data:
            return data
        name, namespace = data.get("name"), data.get("namespace", "default")
        return {**data, "uid": name if namespace == "default" else f"{namespace}.{name}"}


class _Named(Part):
    metadata: Annotated[_Metadata, expected("a mapping with the pod's name")] = needed()

    @model_validator(mode="before")
    @classmethod
    def _head(cls, data: object) -> object:
        return head(data, "v1", "Pod", EXPECTED)


class _Manifest(_Named):
    spec: Annotated[_Spec, expected("a mapping with the pod's containers")] = needed()


class _Identity(Part):
    uid: Uid = needed()
    name: Uid = ""


class _VectorPod(_Spec, _Identity):
    """Fields are read in the order of the bases from behind: the pod's identity comes first."""


def read_pod(data: object, where: str) -> Pod:
    """Read a v1.Pod manifest (parsed YAML or JSON), fill in defaults, refuse resources that the API refuses.

    A manifest without ``metadata.uid`` gets its name (with its namespace, unless ``default``) for a uid.

    :raises InputError: one line that names the place.
    """
    pod = _read(data, where)
    defaulted = with_defaults(pod)
    refuse_what_the_api_refuses(pod, defaulted, where)
    return defaulted


def read_submitted_pod(data: object, where: str) -> Pod:
    """Read a manifest as :func:`read_pod` does, but keep a pod whose resources the API refuses, with the reason.

    :raises InputError: it is no manifest of a pod at all.
    """
    pod = _read(data, where)
    try:
        refuse_what_the_api_refuses(pod, with_defaults(pod), f"pod {pod.name}")
    except InputError as error:
        pod = replace(pod, invalid=str(error))
    return with_defaults(pod)


def read_offered_pod(data: object, where: str) -> Pod:
    """Read a manifest as one offers it to the API: of what cannot be read only the name is kept, with the reason.

    :raises InputError: it is no Pod with a name.
    """
    try:
        return read_submitted_pod(data, where)
    except InputError as error:
        manifest = read_document(_Named, data, where, EXPECTED)
        one = manifest.metadata
        return Pod(uid=one.uid, name=one.name, namespace=one.namespace, containers=(), invalid=str(error))


def _read(data: object, where: str) -> Pod:
    manifest = read_document(_Manifest, data, where, EXPECTED)
    metadata = manifest.metadata
    return manifest.spec.pod(uid=metadata.uid, name=metadata.name, namespace=metadata.namespace)


def read_vector_pod(data: object, where: str) -> Pod:
    """Read a POD of the vectors format: given after defaulting, valid for the API or not.

    :raises InputError: one line that names the place.
    """
    pod = read_document(_VectorPod, data, where, "a mapping with uid, name and containers")
    return pod.pod(uid=pod.uid, name=pod.name or pod.uid, namespace="default")


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
    filled = replace(pod, containers=containers)
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
    return replace(filled, resources=budget)
