"""The configuration that a kubelet runs with: its file, its drop-in directory, the flags of its command line.

Later ones win: defaults, ``--config``, the ``*.conf`` files below ``--config-dir`` in the order of names (mappings
merge, lists are replaced, ``null`` takes back), flags. Fields of other parts of the kubelet are skipped; those of none
are kept by name (:mod:`toolkit.kubernetes.kubelet_fields`).
Not read here: the cgroup driver that a runtime reports over CRI, which a kubelet prefers to its own field.

Source: Kubernetes documentation "Set Kubelet Parameters Via A Configuration File" and "Kubelet Configuration Directory
Merging"; RFC 7396 (JSON Merge Patch); kubernetes ``cmd/kubelet/app/server.go`` (order, default thresholds).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from toolkit.errors import InputError
from toolkit.kubernetes.documents import Part, read_document, without_nulls
from toolkit.kubernetes.kubelet_fields import OddField, odd_fields
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
from toolkit.model.serde import read_text
from toolkit.sources.kubelet.flags import DEFAULT_ROOT, WHERE, Flags, read_flags
from toolkit.text.yaml_text import MAX_BYTES, parse_document

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
