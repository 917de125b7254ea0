"""The node's configuration: what of a ``KubeletConfiguration`` the resource managers and cgroup values depend on.

Field names and types are those of the kubelet.config.k8s.io/v1beta1 API. Fields of other parts of the kubelet are
skipped; a field read here with a wrong type is refused with its path. Values are judged when the kubelet starts
(:mod:`toolkit.allocation.startup`), with its own messages, not when the file is read.
Source: Kubernetes API reference "Kubelet Configuration (v1beta1)" v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, model_validator
from pydantic.alias_generators import to_camel

from toolkit.kubernetes.documents import Part, absent, expected, head, quantity, read_document, refusal, without_nulls
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.quantity import Quantity
from toolkit.kubernetes.releases import Series

EXPECTED = "a KubeletConfiguration (apiVersion: kubelet.config.k8s.io/v1beta1)"
API_VERSION = "kubelet.config.k8s.io/v1beta1"
DEFAULT_EVICTION_HARD: Mapping[str, str] = {"memory.available": "100Mi"}
"""The part of the default hard eviction thresholds that reserves memory."""

MAX_PODS = 110
"""The kubelet's default number of pods."""

_UNIT_NS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""Microseconds with the micro sign, and with the Greek letter."""
_DURATION = re.compile(rf"(\d+(?:\.\d*)?|\.\d+)({'|'.join(_UNIT_NS)})", re.ASCII)
_MAX_NS = 2**63 - 1
"""Go's longest duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReservation:
    """One entry of ``reservedMemory``."""

    numa_node: int
    limits: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """A kubelet's configuration; the defaults are the kubelet's, except that no eviction threshold is set."""

    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: Mapping[str, str] = field(default_factory=dict)
    reserved_system_cpus: str = ""
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    memory_manager_policy: str = "None"
    reserved_memory: tuple[MemoryReservation, ...] = ()
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: Mapping[str, str] = field(default_factory=dict)
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period_us: int = 100_000
    cgroup_driver: str = "cgroupfs"
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    """With ``pods`` in it the cgroup of all pods is limited to what is not reserved."""
    max_pods: int = MAX_PODS
    pods_per_core: int = 0
    """Bounds the number of pods by that of CPUs; zero does not."""
    memory_throttling_factor: float | None = None
    """Where between request and limit ``memory.high`` lies; ``None``: the release's default."""

    @property
    def series(self) -> Series:
        """The release of the kubelet, major and minor."""
        return self.feature_gates.series

    def of_series(self, series: Series) -> NodeConfig:
        """Return the same configuration, given to a kubelet of this release."""
        return replace(self, feature_gates=self.feature_gates.of_series(series))


def _duration(text: str) -> str:
    length = text.removeprefix("+")
    whole = bool(length) and "".join(number + unit for number, unit in _DURATION.findall(length)) == length
    if not (whole or length == "0") or nanoseconds(text) > _MAX_NS:
        raise refusal(repr(text)[:40], "a duration such as 100ms")
    return text


def nanoseconds(text: str) -> float:
    """Return the length of a :data:`Duration`."""
    return sum(float(number) * _UNIT_NS[unit] for number, unit in _DURATION.findall(text))


def _limit(value: object) -> Quantity:
    return quantity(value if isinstance(value, str) else repr(value))


Duration = Annotated[str, AfterValidator(_duration)]
"""A time as Go reads it: ``100ms``, ``1m30s``, ``.5s``, ``0``. None is negative.

Source: Go documentation, ``time.ParseDuration``.
"""
Strings = Annotated[dict[str, str], expected("a mapping of strings")]
_Whole = Annotated[int, Field(ge=-(2**31), lt=2**31), expected("a whole number of 32 bits")]


class _Reservation(Part):
    # A negative id is the kubelet's to refuse: it names the node that does not exist.
    numa_node: Annotated[_Whole, expected("a NUMA node id")] = Field(default=0, alias="numaNode")
    limits: Annotated[
        dict[str, Annotated[Quantity, PlainValidator(_limit)]],
        expected("a mapping of resources to quantities"),
        absent(dict),
    ] = Field(default_factory=dict)


class _Settings(Part):
    """The fields as they are written; an absent or null field is its default."""

    model_config = ConfigDict(alias_generator=to_camel)
    eviction_hard: Strings | None = None
    cpu_cfs_quota_period: Duration = Field(default="100ms", alias="cpuCFSQuotaPeriod")
    cpu_manager_policy: str = ""
    cpu_manager_policy_options: Strings = Field(default_factory=dict)
    reserved_system_cpus: str = Field(default="", alias="reservedSystemCPUs")
    kube_reserved: Strings = Field(default_factory=dict)
    system_reserved: Strings = Field(default_factory=dict)
    memory_manager_policy: str = ""
    reserved_memory: Annotated[
        list[Annotated[_Reservation, expected("{numaNode, limits}")]], expected("a list of {numaNode, limits}")
    ] = Field(default_factory=list)
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    topology_manager_policy_options: Strings = Field(default_factory=dict)
    feature_gates: Annotated[dict[str, bool], expected("a mapping of gates to true or false")] = Field(
        default_factory=dict
    )
    cpu_cfs_quota: bool = Field(default=True, alias="cpuCFSQuota")
    cgroup_driver: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: Annotated[list[str], expected("a list of strings")] = Field(
        default_factory=lambda: ["pods"]
    )

    max_pods: _Whole = 0
    pods_per_core: _Whole = 0
    memory_throttling_factor: Annotated[float | None, Field(gt=0, le=1), expected("a number above 0, at most 1")] = None

    _nulls = model_validator(mode="before")(without_nulls)

    def config(self, eviction_hard_default: Mapping[str, str]) -> NodeConfig:
        return NodeConfig(
            cpu_manager_policy=self.cpu_manager_policy or "none",
            cpu_manager_policy_options=self.cpu_manager_policy_options,
            reserved_system_cpus=self.reserved_system_cpus,
            kube_reserved=self.kube_reserved,
            system_reserved=self.system_reserved,
            eviction_hard=dict(eviction_hard_default) if self.eviction_hard is None else self.eviction_hard,
            memory_manager_policy=self.memory_manager_policy or "None",
            reserved_memory=tuple(
                MemoryReservation(numa_node=entry.numa_node, limits=entry.limits) for entry in self.reserved_memory
            ),
            topology_manager_policy=self.topology_manager_policy or "none",
            topology_manager_scope=self.topology_manager_scope or "container",
            topology_manager_policy_options=self.topology_manager_policy_options,
            feature_gates=FeatureGates(self.feature_gates),
            cpu_cfs_quota=self.cpu_cfs_quota,
            cpu_cfs_quota_period_us=int(nanoseconds(self.cpu_cfs_quota_period)) // 1000,
            cgroup_driver=self.cgroup_driver or "cgroupfs",
            system_reserved_cgroup=self.system_reserved_cgroup,
            kube_reserved_cgroup=self.kube_reserved_cgroup,
            enforce_node_allocatable=tuple(self.enforce_node_allocatable),
            max_pods=self.max_pods or MAX_PODS,
            pods_per_core=self.pods_per_core,
            memory_throttling_factor=self.memory_throttling_factor,
        )


class _Document(_Settings):
    @model_validator(mode="before")
    @classmethod
    def _head(cls, data: object) -> object:
        return head(data, API_VERSION, "KubeletConfiguration", EXPECTED)


FIELDS = frozenset(str(field.alias) for field in _Settings.model_fields.values())
"""The fields that :func:`read_settings` reads."""


def read_kubelet_configuration(data: object, where: str) -> NodeConfig:
    """Read a ``KubeletConfiguration`` document (parsed YAML or JSON).

    :raises InputError: another kind, or a field with the wrong type.
    """
    return read_document(_Document, data, where, EXPECTED).config(DEFAULT_EVICTION_HARD)


def read_settings(data: object, where: str, *, eviction_hard_default: Mapping[str, str] | None = None) -> NodeConfig:
    """Read the fields of a ``KubeletConfiguration`` without its kind, as scenario and vector files hold them.

    :param eviction_hard_default: thresholds of a file that sets none.
    :raises InputError: a field with the wrong type.
    """
    what = "a mapping of KubeletConfiguration fields"
    settings = read_document(_Settings, {} if data is None else data, where, what)
    return settings.config(eviction_hard_default or {})
