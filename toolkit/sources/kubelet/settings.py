"""The kubelet's configuration as it is in force: the file, its drop-ins, then the command line. The one place.

Source: Kubernetes documentation "Set Kubelet Parameters Via A Configuration File" (drop-ins merge, flags win).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_config import NodeConfig, read_kubelet_configuration, read_settings
from toolkit.model.node_reading import NodeReading
from toolkit.model.yaml_text import parse_document

RECONCILE_S = 10.0
"""The kubelet's default of ``cpuManagerReconcilePeriod``."""
STRICT = "strict-cpu-reservation"
_STRINGS = {
    "cpu-manager-policy": "cpuManagerPolicy",
    "reserved-cpus": "reservedSystemCPUs",
    "cpu-manager-reconcile-period": "cpuManagerReconcilePeriod",
    "memory-manager-policy": "memoryManagerPolicy",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "cpu-cfs-quota-period": "cpuCFSQuotaPeriod",
    "cgroup-driver": "cgroupDriver",
}
_MAPS = {
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "topology-manager-policy-options": "topologyManagerPolicyOptions",
    "feature-gates": "featureGates",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What claims need of the configuration. :param problem: why it is not known; empty: it is."""

    config: NodeConfig = field(default_factory=NodeConfig)
    reserved: CpuSet = field(default_factory=CpuSet)
    strict: bool = False
    reconcile_s: float = RECONCILE_S
    problem: str = ""


def settings(reading: NodeReading) -> Settings:
    """Return the settings in force; where the configuration cannot be read the defaults, and the problem."""
    if not reading.config and reading.kubelet_flags is None:
        return Settings(problem="the kubelet's configuration was not read")
    try:
        data: dict[str, Any] = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        for file in reading.config or ():
            found = parse_document(file.text, file.name)
            if not isinstance(found, dict):
                raise InputError(file.name, "no mapping", "a KubeletConfiguration")
            data = _merged(data, found)
        data = _merged(data, dict(_flag_fields(reading.kubelet_flags or ())))
        config = read_kubelet_configuration(data, "configuration")
        period = data.get("cpuManagerReconcilePeriod")
        # The reader of one duration field reads the other one, too: both are metav1.Duration.
        read = read_settings({"cpuCFSQuotaPeriod": period}, "cpuManagerReconcilePeriod")
        reconcile_s = RECONCILE_S if period is None else read.cpu_cfs_quota_period_us / 1e6
        reserved = CpuSet.parse(config.reserved_system_cpus, "reservedSystemCPUs")
    except InputError as error:
        return Settings(problem=str(error))
    strict = config.cpu_manager_policy_options.get(STRICT, "").lower() in ("true", "1", "t")
    return Settings(config=config, reserved=reserved, strict=strict, reconcile_s=reconcile_s or RECONCILE_S)


def _merged(base: dict[str, Any], more: dict[Any, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in more.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _flag_fields(flags: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    words = list(flags)
    for index, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            continue
        if not equals:
            value = words[index + 1] if index + 1 < len(words) and not words[index + 1].startswith("-") else "true"
        if name in _STRINGS:
            yield _STRINGS[name], value
        elif name in _MAPS:
            pairs = dict(pair.partition("=")[::2] for pair in value.split(",") if "=" in pair)
            gates = name == "feature-gates"
            yield _MAPS[name], {key: item.lower() == "true" for key, item in pairs.items()} if gates else pairs
        elif name == "cpu-cfs-quota":
            yield "cpuCFSQuota", value.lower() == "true"
