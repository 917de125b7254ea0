"""The node's configuration: what of a ``KubeletConfiguration`` the resource managers and cgroup values depend on.

Field names and types are those of the kubelet.config.k8s.io/v1beta1 API. Fields of other parts of the kubelet are
skipped; a field read here with a wrong type is refused with its path. Values are judged when the kubelet starts
(:mod:`toolkit.allocation.startup`), with its own messages, not when the file is read.
Source: Kubernetes API reference "Kubelet Configuration (v1beta1)" v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolkit.errors import InputError
from toolkit.model.feature_gates import FeatureGates
from toolkit.model.quantity import Quantity

EXPECTED = "a KubeletConfiguration (apiVersion: kubelet.config.k8s.io/v1beta1)"
API_VERSION = "kubelet.config.k8s.io/v1beta1"
DEFAULT_EVICTION_HARD: Mapping[str, str] = {"memory.available": "100Mi"}
"""The part of the default hard eviction thresholds that reserves memory."""

FIELDS = frozenset(
    {
        "cpuManagerPolicy",
        "cpuManagerPolicyOptions",
        "reservedSystemCPUs",
        "kubeReserved",
        "systemReserved",
        "evictionHard",
        "memoryManagerPolicy",
        "reservedMemory",
        "topologyManagerPolicy",
        "topologyManagerScope",
        "topologyManagerPolicyOptions",
        "featureGates",
        "cpuCFSQuota",
        "cpuCFSQuotaPeriod",
        "cgroupDriver",
        "systemReservedCgroup",
        "kubeReservedCgroup",
    }
)
"""The fields that :func:`read_settings` reads."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
T = TypeVar("T")


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


def read_kubelet_configuration(data: object, where: str) -> NodeConfig:
    """Read a ``KubeletConfiguration`` document (parsed YAML or JSON).

    :raises InputError: another kind, or a field with the wrong type.
    """
    if (
        not isinstance(data, dict)
        or data.get("kind") != "KubeletConfiguration"
        or data.get("apiVersion") != API_VERSION
    ):
        found = (
            f"apiVersion {data.get('apiVersion')!r}, kind {data.get('kind')!r}"
            if isinstance(data, dict)
            else "no mapping"
        )
        raise InputError(where, found, EXPECTED)
    return read_settings(data, where, eviction_hard_default=DEFAULT_EVICTION_HARD)


def read_settings(data: object, where: str, *, eviction_hard_default: Mapping[str, str] | None = None) -> NodeConfig:
    """Read the fields of a ``KubeletConfiguration`` without its kind, as scenario and vector files hold them.

    :param eviction_hard_default: thresholds of a file that sets none.
    :raises InputError: a field with the wrong type.
    """
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise InputError(where, f"a {type(data).__name__}", "a mapping of KubeletConfiguration fields")
    read = _Reader(data, where)
    eviction = read("evictionHard", _strings, dict(eviction_hard_default or {}))
    period_ns = read("cpuCFSQuotaPeriod", _duration_ns, 100_000_000)
    return NodeConfig(
        cpu_manager_policy=read("cpuManagerPolicy", _string, "") or "none",
        cpu_manager_policy_options=read("cpuManagerPolicyOptions", _strings, {}),
        reserved_system_cpus=read("reservedSystemCPUs", _string, ""),
        kube_reserved=read("kubeReserved", _strings, {}),
        system_reserved=read("systemReserved", _strings, {}),
        eviction_hard=eviction,
        memory_manager_policy=read("memoryManagerPolicy", _string, "") or "None",
        reserved_memory=read("reservedMemory", _reservations, ()),
        topology_manager_policy=read("topologyManagerPolicy", _string, "") or "none",
        topology_manager_scope=read("topologyManagerScope", _string, "") or "container",
        topology_manager_policy_options=read("topologyManagerPolicyOptions", _strings, {}),
        feature_gates=read("featureGates", _gates, FeatureGates()),
        cpu_cfs_quota=read("cpuCFSQuota", _bool, True),
        cpu_cfs_quota_period_us=period_ns // 1000,
        cgroup_driver=read("cgroupDriver", _string, "") or "cgroupfs",
        system_reserved_cgroup=read("systemReservedCgroup", _string, ""),
        kube_reserved_cgroup=read("kubeReservedCgroup", _string, ""),
    )


class _Reader:
    """Takes one field out of the document; an absent or null field is its default."""

    def __init__(self, data: dict[Any, Any], where: str) -> None:
        self.data, self.where = data, where

    def __call__(self, name: str, parse: Callable[[Any, str], T], default: T) -> T:
        value = self.data.get(name)
        return default if value is None else parse(value, f"{self.where}.{name}")


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        hint = "a string (quote it)" if isinstance(value, int | float) else "a string"
        raise InputError(where, f"{value!r}"[:60], hint)
    return value


def _bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(where, f"{value!r}"[:60], "true or false")
    return value


def _strings(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InputError(where, f"a {type(value).__name__}", "a mapping of strings")
    return {_string(key, where): _string(item, f"{where}.{key}") for key, item in value.items()}


def _gates(value: Any, where: str) -> FeatureGates:
    if not isinstance(value, dict):
        raise InputError(where, f"a {type(value).__name__}", "a mapping of gates to true or false")
    return FeatureGates({_string(key, where): _bool(item, f"{where}.{key}") for key, item in value.items()})


def _reservations(value: Any, where: str) -> tuple[MemoryReservation, ...]:
    if not isinstance(value, list):
        raise InputError(where, f"a {type(value).__name__}", "a list of {numaNode, limits}")
    found = []
    for i, item in enumerate(value):
        place = f"{where}[{i}]"
        if not isinstance(item, dict):
            raise InputError(place, f"a {type(item).__name__}", "{numaNode, limits}")
        node = item.get("numaNode", 0)
        if type(node) is not int or not 0 <= node < 2**31:
            raise InputError(f"{place}.numaNode", f"{node!r}"[:40], "a NUMA node id")
        found.append(MemoryReservation(numa_node=node, limits=_quantities(item.get("limits"), f"{place}.limits")))
    return tuple(found)


def _quantities(value: Any, where: str) -> dict[str, Quantity]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(where, f"a {type(value).__name__}", "a mapping of resources to quantities")
    return {
        _string(key, where): Quantity.parse(item if isinstance(item, str) else repr(item), f"{where}.{key}")
        for key, item in value.items()
    }


def _duration_ns(value: Any, where: str) -> int:
    text = _string(value, where)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InputError(where, repr(text)[:40], "a duration such as 100ms")
    return int(sum(float(number) * _UNIT_NS[unit] for number, unit in parts))
