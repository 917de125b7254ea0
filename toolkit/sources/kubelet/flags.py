"""A kubelet's command line: the flags that the resource managers depend on, as fields of a ``KubeletConfiguration``.

Every other flag is skipped. A flag wins over the files; given several times, the last counts, and the pairs of a
mapping add up. ``_`` in a name is ``-``.
Source: Kubernetes reference "kubelet" (command line tools); component-base ``cli/flag`` (MapStringString,
LangleSeparatedMapStringString, WordSepNormalizeFunc) and ``pkg/util/flag`` (ReservedMemoryVar).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import InputError
from toolkit.kubernetes.go_text import GoError, parse_bool

WHERE = "the kubelet's command line"
DEFAULT_ROOT = "/var/lib/kubelet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a command line says. :param fields: of a ``KubeletConfiguration``, as its file would have them."""

    config_file: str = ""
    config_directory: str = ""
    root_directory: str = DEFAULT_ROOT
    fields: Mapping[str, Any] = field(default_factory=dict)


def _text(value: str, _before: Any, _where: str) -> str:
    return value


def _truth(value: str, _before: Any, where: str) -> bool:
    try:
        return parse_bool(value)
    except GoError:
        raise InputError(where, repr(value)[:60], "true or false") from None


def _whole(value: str, _before: Any, where: str) -> int:
    # Ten digits are more than 32 bits hold, and a bound for int().
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", value):
        raise InputError(where, repr(value)[:60], "a whole number")
    return int(value)


def _pairs(value: str, before: Any, where: str, *, sign: str = "=", split: bool = True) -> dict[str, str]:
    found: dict[str, str] = dict(before or {})
    for pair in value.split(",") if split else [value]:
        key, given, text = pair.partition(sign)
        if not pair:
            continue
        if not given:
            raise InputError(where, repr(pair)[:60], f"NAME{sign}VALUE")
        found[key.strip()] = text.strip()
    return found


def _names(value: str, _before: Any, _where: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _pair(value: str, before: Any, where: str) -> dict[str, str]:
    return _pairs(value, before, where, split=False)


def _thresholds(value: str, before: Any, where: str) -> dict[str, str]:
    return _pairs(value, before, where, sign="<")


def _gates(value: str, before: Any, where: str) -> dict[str, bool]:
    given = _pairs(value, None, where)
    return {**(before or {}), **{name: _truth(text, None, f"{where}: {name}") for name, text in given.items()}}


def _memory(value: str, before: Any, where: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = list(before or [])
    for entry in value.split(";") if value else ():
        node, given, limits = entry.partition(":")
        # Ten digits are more than any node has, and a bound for int().
        if not given or not (node.isascii() and node.isdigit() and len(node) < 10):
            raise InputError(where, repr(entry)[:60], "NODE:TYPE=QUANTITY[,TYPE=QUANTITY...]")
        found.append({"numaNode": int(node), "limits": _pairs(limits, None, where)})
    return found


_Reader = Callable[[str, Any, str], Any]
_FIELDS: Mapping[str, tuple[str, _Reader]] = {
    "address": ("address", _text),
    "cgroup-driver": ("cgroupDriver", _text),
    "cgroup-root": ("cgroupRoot", _text),
    "container-runtime-endpoint": ("containerRuntimeEndpoint", _text),
    "cpu-cfs-quota": ("cpuCFSQuota", _truth),
    "cpu-cfs-quota-period": ("cpuCFSQuotaPeriod", _text),
    "cpu-manager-policy": ("cpuManagerPolicy", _text),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", _pair),
    "cpu-manager-reconcile-period": ("cpuManagerReconcilePeriod", _text),
    "eviction-hard": ("evictionHard", _thresholds),
    "feature-gates": ("featureGates", _gates),
    "enforce-node-allocatable": ("enforceNodeAllocatable", _names),
    "kube-reserved": ("kubeReserved", _pairs),
    "kube-reserved-cgroup": ("kubeReservedCgroup", _text),
    "max-pods": ("maxPods", _whole),
    "memory-manager-policy": ("memoryManagerPolicy", _text),
    "pod-manifest-path": ("staticPodPath", _text),
    "pods-per-core": ("podsPerCore", _whole),
    "read-only-port": ("readOnlyPort", _whole),
    "reserved-cpus": ("reservedSystemCPUs", _text),
    "reserved-memory": ("reservedMemory", _memory),
    "system-reserved": ("systemReserved", _pairs),
    "system-reserved-cgroup": ("systemReservedCgroup", _text),
    "topology-manager-policy": ("topologyManagerPolicy", _text),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", _pair),
    "topology-manager-scope": ("topologyManagerScope", _text),
}
_PLACES = ("config", "config-dir", "root-dir")
_BARE = "cpu-cfs-quota"
"""A boolean flag never takes the next word."""
_PRINTS = ("--version", "--help", "-h")


def arguments_of(cmdline: str) -> tuple[str, ...]:
    """Return the arguments in a text of ``/proc/PID/cmdline``, without the program's own name."""
    return tuple(cmdline.rstrip("\0").split("\0")[1:])


def serves(arguments: Sequence[str]) -> bool:
    """Return whether a kubelet with these arguments runs a node; false: it prints something and ends.

    Source: Kubernetes v1.36.2, cmd/kubelet/app/server.go (``NewKubeletCommand``), component-base/version/verflag.
    """
    before = itertools.takewhile(lambda argument: argument != "--", arguments)
    return not any(name in _PRINTS and _is_set(value) for name, _, value in (one.partition("=") for one in before))


def _is_set(value: str) -> bool:
    try:
        return not value or parse_bool(value)
    except GoError:
        return True  # `--version=raw`, or a value with which it ends, too


def kept_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that :func:`read_flags` reads; others may be secrets (``--manifest-url-header``)."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            break
        name, given, _ = _split(argument)
        if not name:
            continue
        kept.append(argument)
        if not given and name != _BARE:
            kept += [value for value in (next(rest, None),) if value is not None]
    return tuple(kept)


def _split(argument: str) -> tuple[str, str, str]:
    """Return name, ``=`` and value; no name: a flag that is skipped."""
    name, given, value = argument.removeprefix("--").partition("=")
    name = name.replace("_", "-")
    known = argument.startswith("--") and name in (*_FIELDS, *_PLACES)
    return (name if known else ""), given, value


def read_flags(arguments: Sequence[str]) -> Flags:
    """Read the arguments of a kubelet, without its own name.

    :raises InputError: a flag without its value, or one whose value the kubelet would refuse.
    """
    fields: dict[str, Any] = {}
    places: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            break
        name, given, value = _split(argument)
        if not name:
            continue
        where = f"{WHERE}: --{name}"
        if not given:
            following = "true" if name == _BARE else next(rest, None)
            if following is None:
                raise InputError(where, "nothing", "a value")
            value = following
        if name in _PLACES:
            places[name] = value
        else:
            key, reader = _FIELDS[name]
            fields[key] = reader(value, fields.get(key), where)
    return Flags(
        config_file=places.get("config", ""),
        config_directory=places.get("config-dir", ""),
        root_directory=places.get("root-dir") or DEFAULT_ROOT,
        fields=fields,
    )
