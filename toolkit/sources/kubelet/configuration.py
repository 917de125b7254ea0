"""The configuration that a kubelet runs with: its file, its drop-in directory, the flags of its command line.

Later ones win: defaults, ``--config``, the ``*.conf`` files below ``--config-dir`` in the order of names (mappings
merge, lists are replaced, ``null`` takes back), flags. Fields of other parts of the kubelet are skipped; those of none
are kept by name (:mod:`toolkit.kubernetes.kubelet_fields`). Of flags those that the resource managers depend on are
read as fields of a ``KubeletConfiguration``; given several times, the last counts, and the pairs of a mapping add up.
``_`` in a name is ``-``. Not read here: the cgroup driver that a runtime reports over CRI, which a kubelet prefers to
its own field.

Source: Kubernetes documentation "Set Kubelet Parameters Via A Configuration File" and "Kubelet Configuration Directory
Merging"; RFC 7396 (JSON Merge Patch); kubernetes ``cmd/kubelet/app/server.go`` (order, default thresholds); Kubernetes
reference "kubelet" (command line tools); component-base ``cli/flag`` (MapStringString, LangleSeparatedMapStringString,
WordSepNormalizeFunc) and ``pkg/util/flag`` (ReservedMemoryVar).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from toolkit.allocation.cpu.options import strict_cpu_reservation
from toolkit.errors import InputError
from toolkit.kubernetes.documents import Part, read_document, without_nulls
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.go_text import GoError, parse_bool
from toolkit.kubernetes.kubelet_fields import OddField, odd_fields
from toolkit.kubernetes.kubelet_version import is_modelled, series_of, warning
from toolkit.kubernetes.node_config import (
    DEFAULT_EVICTION_HARD,
    EXPECTED,
    FIELDS,
    Duration,
    NodeConfig,
    nanoseconds,
    read_kubelet_configuration,
    read_settings,
)
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NodeReading
from toolkit.model.serde import read_text
from toolkit.text.names import printable
from toolkit.text.yaml_text import MAX_BYTES, parse_document

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


def _signed_pairs(value: str, before: Any, where: str) -> dict[str, str]:
    return _pairs(value, before, where, sign="<")


def _switches(value: str, before: Any, where: str) -> dict[str, bool]:
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
    "eviction-hard": ("evictionHard", _signed_pairs),
    "feature-gates": ("featureGates", _switches),
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


DROP_IN_EXTENSION = ".conf"
MAX_DROP_INS = 1024
DEFAULT_RECONCILE_S = 10.0
LEGACY_READ_ONLY_PORT = 10255


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfiguration:
    """What a kubelet runs with.

    :param node: what decides on allocations.
    :param reconcile_period_s: a container's cpuset is written anew at this period at the latest.
    :param cgroup_root: the cgroup above ``kubepods``; empty: the root.
    :param fields: the merged fields as they are written, those that ``node`` is read from.
    :param odd: fields that no kubelet has, or not each.
    :param read_only_port: 0: it has none. :param address: that it listens on; empty: all.
    """

    node: NodeConfig
    fields: Mapping[str, Any] = field(default_factory=dict)
    reconcile_period_s: float = DEFAULT_RECONCILE_S
    container_runtime_endpoint: str = ""
    static_pod_path: str = ""
    pod_logs_directory: str = ""
    cgroup_root: str = ""
    root_directory: str = DEFAULT_ROOT
    read_only_port: int = 0
    address: str = ""
    odd: tuple[OddField, ...] = ()


class _Places(Part):
    """The fields that say where things are and how often they are looked at; an absent or null one is its default."""

    model_config = ConfigDict(alias_generator=to_camel)
    cpu_manager_reconcile_period: Duration = ""
    container_runtime_endpoint: str = ""
    static_pod_path: str = ""
    pod_logs_dir: str = ""
    cgroup_root: str = ""
    read_only_port: int | None = None
    address: str = ""
    merge_default_eviction_settings: bool = Field(default=False)

    _nulls = model_validator(mode="before")(without_nulls)


def read_configuration(
    base: tuple[str, str] | None, drop_ins: Iterable[tuple[str, str]] = (), flags: Flags | None = None
) -> KubeletConfiguration:
    """Merge what a kubelet is given; pure.

    :param base: name and text of its configuration file, if it has one.
    :param drop_ins: names and texts of the drop-in files, in the order of their names.
    :raises InputError: no such document, or a field with a wrong type: the file or flag, the path inside, what it is.
    """
    fields = {} if base is None else _document(base[1], base[0])
    odd = odd_fields(fields, base[0] if base else "")
    fields["evictionHard"] = _thresholds(fields)
    for where, text in drop_ins:
        patch = _patch(text, where)
        odd += odd_fields(patch, where)
        fields = merge(fields, patch)
    flags = Flags() if flags is None else flags
    _check(flags.fields, WHERE)
    gates = {**(fields.get("featureGates") or {}), **flags.fields.get("featureGates", {})}
    # Flags replace a mapping of the files as a whole, but for the gates.
    fields = {**fields, **flags.fields, "featureGates": gates}
    places = _check(fields, "the kubelet's configuration")
    period = nanoseconds(places.cpu_manager_reconcile_period) / 1e9
    return KubeletConfiguration(
        node=read_settings(fields, "the kubelet's configuration"),
        fields={name: value for name, value in fields.items() if name in FIELDS},
        reconcile_period_s=period or DEFAULT_RECONCILE_S,
        container_runtime_endpoint=places.container_runtime_endpoint or "unix:///run/containerd/containerd.sock",
        static_pod_path=places.static_pod_path,
        pod_logs_directory=places.pod_logs_dir or "/var/log/pods",
        cgroup_root=places.cgroup_root,
        root_directory=flags.root_directory,
        read_only_port=_read_only_port(places, from_file=base is not None or bool(flags.config_file)),
        address=places.address,
        odd=odd,
    )


def _read_only_port(places: _Places, *, from_file: bool) -> int:
    """Return the port. Without a file a kubelet has the one of before there were files.

    Source: kubernetes ``cmd/kubelet/app/options`` (``applyLegacyDefaults``).
    """
    given = places.read_only_port
    return given if given is not None else 0 if from_file else LEGACY_READ_ONLY_PORT


@lru_cache(8)
def configuration_of(
    base: tuple[str, str] | None, drop_ins: tuple[tuple[str, str], ...], arguments: tuple[str, ...]
) -> KubeletConfiguration:
    """Return the same of the running kubelet's arguments, without its own name.

    Read once for all readings in which texts, names and arguments are the same: it is made of nothing else, and nothing
    changes it. What is wrong is read, and said, each time.
    :raises InputError: as :func:`read_configuration`.
    """
    return read_configuration(base, drop_ins, read_flags(arguments))


def load_configuration(
    path: Path | None, directory: Path | None = None, arguments: Sequence[str] = ()
) -> KubeletConfiguration:
    """Read a kubelet's files; those that its arguments name (``--config``) are the caller's to find, below its root.

    :param arguments: of the running kubelet, without its own name.
    :raises InputError: see :func:`read_configuration`; a file or directory that cannot be read.
    """
    base = None if path is None else (str(path), read_text(path, EXPECTED, MAX_BYTES))
    more = [] if directory is None else [(str(p), read_text(p, EXPECTED, MAX_BYTES)) for p in drop_ins(directory)]
    return read_configuration(base, more, read_flags(arguments))


def file_names(path: Path, directory: Path | None) -> str:
    """Return how a kubelet's files are called together, in what is printed."""
    return str(path) if directory is None else f"{path} with {directory}"


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7396). Both were read before, so their depth is bounded."""
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = merge(before if isinstance(before, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _document(text: str, where: str) -> dict[str, Any]:
    """Read the main file, and refuse it under its own name rather than after the merge."""
    return _checked(parse_document(text, where), where)


def _patch(text: str, where: str) -> dict[str, Any]:
    """Read a drop-in in the same way. A ``null`` in it takes back a field or one key of a mapping: it is no value."""
    data = parse_document(text, where)
    _checked(merge({}, data) if isinstance(data, dict) else data, where)
    return dict(data)


def _checked(data: object, where: str) -> dict[str, Any]:
    read_kubelet_configuration(data, where)
    read_document(_Places, data, where, EXPECTED)
    assert isinstance(data, dict)
    return dict(data)


def _check(fields: Mapping[str, Any], where: str) -> _Places:
    read_settings(dict(fields), where)
    return read_document(_Places, dict(fields), where, EXPECTED)


def _thresholds(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the base file's thresholds: the defaults are filled in before drop-ins are merged."""
    given = fields.get("evictionHard")
    if given is None:
        return dict(DEFAULT_EVICTION_HARD)
    return {**(DEFAULT_EVICTION_HARD if fields.get("mergeDefaultEvictionSettings") else {}), **given}


def drop_ins(directory: Path) -> list[Path]:
    """Return the drop-in files below a directory in the kubelet's order: by name, those of folders among them."""

    def refuse(error: OSError) -> None:
        raise InputError(str(directory), error.strerror or str(error), "a directory of drop-in files (*.conf)")

    found: list[Path] = []
    try:
        for folder, _, names in os.walk(directory, onerror=refuse):
            found += [Path(folder, name) for name in names if name.endswith(DROP_IN_EXTENSION)]
            if len(found) > MAX_DROP_INS:
                raise InputError(str(directory), f"more than {MAX_DROP_INS} drop-in files", "fewer")
    except RecursionError:
        raise InputError(str(directory), "folders nested too deeply", "a directory of drop-in files (*.conf)") from None
    return sorted(found, key=lambda path: [os.fsencode(part) for part in path.relative_to(directory).parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What claims need of the configuration. :param problem: why it is not known; empty: it is.

    :param reserved_problem: why it is not known which CPUs are reserved, where the configuration gives an amount.
    """

    config: NodeConfig = field(default_factory=NodeConfig)
    reserved: CpuSet = field(default_factory=CpuSet)
    strict: bool = False
    reconcile_s: float = DEFAULT_RECONCILE_S
    problem: str = ""
    reserved_problem: str = ""
    odd: tuple[OddField, ...] = ()
    """Fields of its files that no kubelet has, or not each."""
    given: FeatureGates = field(default_factory=FeatureGates)
    """The gates that are set, whatever those of the kubelet's version are by default."""

    @property
    def reserved_known(self) -> bool:
        """Whether :attr:`reserved` is what the kubelet reserves."""
        return not (self.problem or self.reserved_problem)

    @property
    def union_known(self) -> bool:
        """Whether it is known which CPUs pool and assignments must make up: without strictness all of them."""
        return not self.problem and (self.reserved_known or not self.strict)


def unread(reading: NodeReading) -> str:
    """Say why the configuration is not known; nothing where it is. A part of it is none: what was not read may decide.

    :raises InputError: the command line is wrong.
    """
    if reading.config and not reading.drop_ins_alone:
        return _missed(reading)
    if reading.kubelet_flags is None:
        return "the kubelet's configuration was not read"
    named = read_flags(reading.kubelet_flags).config_file
    return f"{printable(named)} was not read, which the kubelet's command line names" if named else _missed(reading)


def _missed(reading: NodeReading) -> str:
    """Return what the node's reader says of a file or a drop-in that it could not read."""
    return next((part.reason for part in reading.missing if part.part == "config"), "")


def configuration_in(reading: NodeReading, where: str = "") -> KubeletConfiguration:
    """Return what the kubelet runs with. :param where: stands before the names of its files.

    :raises InputError: as :func:`read_configuration`.
    """
    files = tuple((f"{where}{file.name}", file.text) for file in reading.config or ())
    base = files[0] if files and not reading.drop_ins_alone else None
    return configuration_of(base, files if base is None else files[1:], tuple(reading.kubelet_flags or ()))


def settings(reading: NodeReading) -> Settings:
    """Return the settings in force; where the configuration cannot be read the defaults, and the problem."""
    try:
        if problem := unread(reading):
            return Settings(problem=problem)
        found = configuration_in(reading)
        reserved = CpuSet.parse(found.node.reserved_system_cpus, "reservedSystemCPUs")
    except InputError as error:
        return Settings(problem=str(error))
    try:
        strict = parse_bool(found.node.cpu_manager_policy_options.get(strict_cpu_reservation.OPTION.name, "false"))
    except GoError:
        strict = False  # No kubelet starts with it.
    config = replace(found.node, feature_gates=_gates(found.node.feature_gates, reading.kubelet_version))
    given = found.node.feature_gates
    return Settings(
        config=config,
        reserved=reserved,
        strict=strict,
        reconcile_s=found.reconcile_period_s,
        given=given,
        odd=found.odd,
    )


def _gates(given: FeatureGates, version: str) -> FeatureGates:
    """Return the gates in force: which ones are on by default depends on the version, where that is known."""
    try:
        series = series_of(version, "kubelet_version")
    except InputError:
        return given
    return given.of_series(series)


def other_version(version: str) -> str:
    """Say that the model is of another version than the kubelet; nothing where it is not, or not known."""
    try:
        return "" if not version or is_modelled(version, "kubelet_version") else warning(version, ())
    except InputError:
        return ""
