"""Offsets of the few kernel struct members that programs read, from the running kernel's own BTF.

Not a general BTF library: one pass over the type section, ended as soon as every wanted struct was met (they stand near
the front), so that a start costs milliseconds. Headers are never asked: they may be of another kernel.

Source: Documentation/bpf/btf.rst, sections 2 and 4.
"""

from __future__ import annotations

import struct
from pathlib import Path

from toolkit.errors import HostUnsupportedError

_MAGIC = 0xEB9F
_STRUCT, _UNION, _ENUM, _FUNC_PROTO, _DATASEC, _ENUM64 = 4, 5, 6, 13, 15, 19
_PER_MEMBER = {_STRUCT: 12, _UNION: 12, _ENUM: 8, _FUNC_PROTO: 8, _DATASEC: 12, _ENUM64: 12}
_EXTRA = {1: 4, 3: 12, 14: 4, 17: 4}  # INT, ARRAY, VAR, DECL_TAG
_MAX_BYTES = 64 * 1024 * 1024

WANTED: dict[str, tuple[str, ...]] = {
    "task_struct": ("pid", "tgid", "flags", "cgroups", "signal", "nr_cpus_allowed", "comm"),
    "signal_struct": ("nr_threads",),
    "css_set": ("dfl_cgrp",),
    "cgroup": ("self", "kn", "root"),
    "cgroup_subsys_state": ("parent",),
    "cgroup_root": ("hierarchy_id",),
    "kernfs_node": ("id",),
    "irqaction": ("name",),
}


def offsets(root: Path, wanted: dict[str, tuple[str, ...]] | None = None) -> dict[str, int]:
    """Return byte offsets by ``struct.member``.

    :raises HostUnsupportedError: the kernel has no BTF, or a member is missing.
    """
    path = root / "sys/kernel/btf/vmlinux"
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HostUnsupportedError(f"{path} is larger than {_MAX_BYTES} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise HostUnsupportedError(
            f"{path}: {error.strerror}; the probes need a kernel with BTF (CONFIG_DEBUG_INFO_BTF=y)"
        ) from None
    try:
        return parse(data, wanted or WANTED)
    except (struct.error, IndexError, ValueError) as error:
        raise HostUnsupportedError(f"{path}: {error}") from None


def parse(data: bytes, wanted: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Find the members in a BTF image; anonymous structs and unions inside are looked through.

    :raises ValueError: not BTF, or a struct or member is missing.
    """
    magic, _, _, header, types_at, types_len, strings_at, strings_len = struct.unpack_from("<HBBIIIII", data)
    if magic != _MAGIC:
        raise ValueError("not BTF data of this machine's byte order")
    strings = data[header + strings_at : header + strings_at + strings_len]
    names = {strings.find(b"\0" + name.encode() + b"\0") + 1: name for name in wanted}
    names.pop(0, None)
    begin, end = header + types_at, min(header + types_at + types_len, len(data))
    try:
        return _look_up(data, strings, wanted, *_index(data, begin, end, names, early=True))
    except ValueError:
        # An anonymous part may be described after the struct that holds it (RANDSTRUCT kernels): read all types.
        return _look_up(data, strings, wanted, *_index(data, begin, end, names, early=False))


def _index(
    data: bytes, begin: int, end: int, names: dict[int, str], *, early: bool
) -> tuple[list[int], dict[str, int]]:
    """Return where every type stands (by id) and where the wanted structs stand; ``early``: end at the last of them."""
    places, found, position = [0], dict[str, int](), begin
    unpack = struct.Struct("<II").unpack_from
    while position < end and not (early and len(found) == len(names)):
        name_at, info = unpack(data, position)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        places.append(position)
        if kind == _STRUCT and name_at in names:
            found.setdefault(names[name_at], position)
        position += 12 + (_PER_MEMBER[kind] * count if kind in _PER_MEMBER else _EXTRA.get(kind, 0))
    return places, found


def _look_up(
    data: bytes, strings: bytes, wanted: dict[str, tuple[str, ...]], places: list[int], found: dict[str, int]
) -> dict[str, int]:
    result = {}
    for name, members in wanted.items():
        if name not in found:
            raise ValueError(f"BTF has no struct {name}")
        flat = dict(_members(data, strings, places, found[name], 0))
        for member in members:
            if member not in flat:
                raise ValueError(f"BTF has no member {member} in struct {name}")
            result[f"{name}.{member}"] = flat[member]
    return result


def _members(
    data: bytes, strings: bytes, places: list[int], position: int, base: int, depth: int = 0
) -> list[tuple[str, int]]:
    _, info, _ = struct.unpack_from("<III", data, position)
    listed: list[tuple[str, int]] = []
    for index in range(info & 0xFFFF):
        name_at, kind_id, offset = struct.unpack_from("<III", data, position + 12 + 12 * index)
        bits = offset & 0xFFFFFF if info >> 31 else offset
        if name_at:
            listed.append((strings[name_at : strings.index(b"\0", name_at)].decode(), base + bits // 8))
        elif depth < 8 and kind_id < len(places):  # anonymous
            inner = places[kind_id]
            if struct.unpack_from("<III", data, inner)[1] >> 24 & 0x1F in (_STRUCT, _UNION):
                listed += _members(data, strings, places, inner, base + bits // 8, depth + 1)
    return listed
