"""What a kubelet says about ``enforceNodeAllocatable``: it does not start with what it cannot enforce.

Source: kubernetes v1.36 ``pkg/kubelet/apis/config/validation`` (``ValidateKubeletConfiguration``).
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.kubernetes.go_text import quote
from toolkit.kubernetes.node_config import NodeConfig

_FLAG = "enforceNodeAllocatable (--enforce-node-allocatable)"
_COMPRESSIBLE = "-compressible"
_SYSTEM, _KUBE = "system-reserved", "kube-reserved"
_RESERVED = (_SYSTEM, _SYSTEM + _COMPRESSIBLE, _KUBE, _KUBE + _COMPRESSIBLE)
_NONE, _PODS = "none", "pods"
_ALL = (_PODS, *_RESERVED, _NONE)


def enforces_pods(config: NodeConfig) -> bool:
    """Whether the cgroup of all pods is limited to what is not reserved, and not to what the machine has."""
    return _PODS in config.enforce_node_allocatable


def enforcement_problems(config: NodeConfig) -> Iterator[str]:
    """Yield the messages in the kubelet's order."""
    given = config.enforce_node_allocatable
    for name in (_SYSTEM, _KUBE):
        if {name, name + _COMPRESSIBLE} <= {*given}:
            both = f"{quote(name)} and {quote(name + _COMPRESSIBLE)}"
            yield f"both {both} cannot be specified together in {_FLAG}"
    cgroups = {
        _SYSTEM: (config.system_reserved_cgroup, "systemReservedCgroup (--system-reserved-cgroup)"),
        _KUBE: (config.kube_reserved_cgroup, "kubeReservedCgroup (--kube-reserved-cgroup)"),
    }
    for place, value in enumerate(given):
        if value in given[:place]:
            yield f"duplicated enforcements {quote(value)} in {_FLAG}"
        elif value in _RESERVED:
            name = value.removesuffix(_COMPRESSIBLE)
            cgroup, field = cgroups[name]
            if not cgroup:
                either = f"{quote(name)} or {quote(name + _COMPRESSIBLE)}"
                yield f"{field} must be specified when {either} included in {_FLAG}"
        elif value == _NONE and len(given) > 1:
            yield f"{_FLAG} may not contain additional enforcements when {quote(_NONE)} is specified"
        elif value not in _ALL:
            valid = f"{', '.join(map(quote, _ALL[:-1]))} or {quote(_NONE)}"
            yield f"option {quote(value)} specified for {_FLAG}. Valid options are {valid}"
