"""Answers two kinds of question about the running kernel: does struct X have member Y, and where; what is enumerator Z.

The kernel's own type information is a feature test that no version number can replace: distributions port features
back.
Not a general BTF library (of functions and tracepoints only the number, no split BTF of modules, no writing).

Source: Documentation/bpf/btf.rst, sections 1 and 2 (encoding).
"""

from __future__ import annotations

import functools
import struct
import sys
import threading
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.sysfs import SysTree

KERNEL_BTF = "sys/kernel/btf/vmlinux"
MAX_BTF_BYTES = 256 * 1024 * 1024
"""Debug kernels have about 10 MB."""

_MAGIC = 0xEB9F
_STRUCT, _UNION, _ENUM, _TYPEDEF, _FUNCTION = 4, 5, 6, 8, 12
_MODIFIERS = frozenset((8, 9, 10, 11, 18))  # typedef, volatile, const, restrict, type tag
_FIXED_BYTES = {1: 4, 3: 12, 14: 4, 17: 4}  # int, array, var, declaration tag
_BYTES_PER_ITEM = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}  # struct, union, enum, prototype, data section, enum64
_LAST_KIND = 19
"""``BTF_KIND_ENUM64``: the size of an item of a later kind is not known, so nothing behind it can be read."""
_MAX_DEPTH = 32
_READING = threading.Lock()
"""What needs it while another reads it waits: it is read once."""
_OWN_ORDER = "<" if sys.byteorder == "little" else ">"


@dataclass(frozen=True, slots=True)
class BtfMember:
    """Where a member lives in its struct; ``bits`` is the width of a bit field, 0 for an ordinary member."""

    bit_offset: int
    bits: int

    @property
    def byte_offset(self) -> int:
        """Offset of the (first) byte."""
        return self.bit_offset // 8


class _Kinds(dict[int, "tuple[int, array[int] | None]"]):
    """Bytes of a type, and where to note its number, by its word ``info`` (kind and number of items).

    Some hundred words differ in a hundred thousand types: what one means is worked out once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers = {kind: array("I") for kind in (_STRUCT, _UNION, _ENUM, _TYPEDEF, _FUNCTION)}
        """The types of each kind that is asked for by name."""

    def __missing__(self, info: int) -> tuple[int, array[int] | None]:
        """:raises KeyError: the kind is not known; with its number."""
        kind = info >> 24 & 0x1F
        if not 0 < kind <= _LAST_KIND:
            raise KeyError(kind)
        size = 12 + _FIXED_BYTES.get(kind, 0) + _BYTES_PER_ITEM.get(kind, 0) * (info & 0xFFFF)
        self[info] = found = size, self.numbers.get(kind)
        return found


class Btf:
    """Type information in the BTF format, as bytes."""

    def __init__(self, data: bytes, where: str = KERNEL_BTF) -> None:
        """Check the header and find where each type begins.

        :raises InputError: not BTF, cut short, or of a later format than this reads.
        """
        self._where = where
        self._order = "<" if data[:2] == b"\x9f\xeb" else ">"
        try:
            magic, version, _, header, type_off, type_len, str_off, str_len = self._unpack("HBBIIIII", data, 0)
        except struct.error:
            raise InputError(where, f"{len(data)} bytes", "BTF") from None
        if magic != _MAGIC or version != 1:
            raise InputError(where, f"magic {magic:#x}, version {version}", "BTF version 1")
        if header + type_off + type_len > len(data) or header + str_off + str_len > len(data):
            raise InputError(where, "cut short", "BTF")
        self._types = data[header + type_off : header + type_off + type_len]
        self._strings = data[header + str_off : header + str_off + str_len]
        self._words = array("I", self._types[: len(self._types) & ~3])
        if self._order != _OWN_ORDER:
            self._words.byteswap()
        self._starts, self._kinds = self._index()
        self._structs = self._names(_STRUCT, _UNION)

    @staticmethod
    def of_kernel(root: Path = Path("/")) -> Btf | None:
        """Read the kernel's BTF, or ``None`` where the kernel was built without it; kept for the next call.

        :raises InputError: the file is broken.
        """
        with _READING:
            return _of_kernel(root)

    def has_struct(self, name: str) -> bool:
        """Return whether a struct or union of this name is defined."""
        return name.encode() in self._structs

    def member(self, struct_name: str, member: str) -> BtfMember | None:
        """Return the place of a member, anonymous inner structs and unions included, or ``None``."""
        for type_id in self._structs.get(struct_name.encode(), ()):
            found = self._find(type_id, member.encode() + b"\0", 0, 0)
            if found is not None:
                return found
        return None

    def offsets(self, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        """Return byte offsets by ``struct.member``, of many members in one pass.

        :raises InputError: a struct or member is missing.
        """
        result = {}
        for name, members in wanted.items():
            for member in members:
                hit = self.member(name, member)
                if hit is None:
                    missing = f"member {member} in struct {name}" if self.has_struct(name) else f"struct {name}"
                    raise InputError(self._where, f"no {missing}", "a kernel that the probes know")
                result[f"{name}.{member}"] = hit.byte_offset
        return result

    def enumerator(self, enum: str, name: str) -> int | None:
        """Return the value of a (32-bit) enumerator, or ``None`` where the enum or the name is missing."""
        names = self._offsets_of(name)
        for type_id in self._numbers(enum, _ENUM) if names else ():
            at = self._starts[type_id]
            _, info = self._unpack("II", self._types, at)
            for number in range(info & 0xFFFF):
                item_at, value = self._unpack("Ii", self._types, at + 12 + 8 * number)
                if item_at in names:
                    return value
        return None

    def has_member(self, struct_name: str, member: str) -> bool:
        """Return whether the struct exists and has the member."""
        return self.member(struct_name, member) is not None

    def function_id(self, name: str) -> int | None:
        """Return the number of the type that describes a function, or ``None``."""
        return next(self._numbers(name, _FUNCTION), None)

    def tracepoint_id(self, name: str) -> int | None:
        """Return the number of the type that says what a tracepoint gives to its programs, or ``None``.

        Source: commit e8c423fb31fa "bpf: Add typecast to raw_tracepoints to get BTF generation" (Linux 5.5).
        """
        return next(self._numbers(f"btf_trace_{name}", _TYPEDEF), None)

    def _numbers(self, name: str, kind: int) -> Iterator[int]:
        """Return the numbers of the types of this name and kind."""
        words, starts, places = self._words, self._starts, self._offsets_of(name)
        return (number for number in self._kinds[kind] if words[starts[number] // 4] in places)

    def _names(self, *kinds: int) -> dict[bytes, list[int]]:
        """Return the numbers of the types of these kinds that have a name, by that."""
        places: dict[int, list[int]] = {}
        for number in sorted(number for kind in kinds for number in self._kinds[kind]):
            places.setdefault(self._words[self._starts[number] // 4], []).append(number)
        named: dict[bytes, list[int]] = {}
        for place, numbers in places.items():
            if name := self._strings[place : self._strings.find(b"\0", place)]:
                named.setdefault(name, []).extend(numbers)
        return {name: sorted(numbers) for name, numbers in named.items()}

    def _unpack(self, layout: str, data: bytes, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self._order + layout, data, at)

    def _index(self) -> tuple[array[int], Mapping[int, array[int]]]:
        """Find where each type begins, and the types of each kind that is asked for by name."""
        starts = array("I", [0])  # type 0 is void and has no record
        words, kinds = self._words, _Kinds()
        at, end, number = 0, len(self._types), 0
        try:
            while at < end:
                number += 1
                starts.append(at)
                size, numbers = kinds[words[at // 4 + 1]]
                if numbers is not None:
                    numbers.append(number)
                at += size
        except KeyError as kind:
            raise InputError(self._where, f"type {number} has kind {kind}", f"1-{_LAST_KIND}") from None
        except IndexError:
            raise InputError(self._where, f"type {number} is cut short", "BTF") from None
        if at != end:
            raise InputError(self._where, "the last type is cut short", "BTF")
        return starts, kinds.numbers

    def _offsets_of(self, name: str) -> frozenset[int]:
        """Return every place in the string table where this name stands; names may share their ends."""
        wanted, at, found = name.encode() + b"\0", -1, set()
        while (at := self._strings.find(wanted, at + 1)) >= 0:
            found.add(at)
        return frozenset(found)

    def _find(self, type_id: int, wanted: bytes, base_bits: int, depth: int) -> BtfMember | None:
        if depth > _MAX_DEPTH or not 0 < type_id < len(self._starts):
            return None
        at = self._starts[type_id]
        _, info, target = self._unpack("III", self._types, at)
        kind = info >> 24 & 0x1F
        if kind in _MODIFIERS:
            return self._find(target, wanted, base_bits, depth + 1)
        if kind not in (_STRUCT, _UNION):
            return None
        for number in range(info & 0xFFFF):
            name_at, member_type, offset = self._unpack("III", self._types, at + 12 + 12 * number)
            # With the kind flag the offset's upper byte is the width of a bit field.
            bits, offset = (offset >> 24, offset & 0xFFFFFF) if info >> 31 else (0, offset)
            if self._strings[name_at : name_at + len(wanted)] == wanted:
                return BtfMember(base_bits + offset, bits)
            if self._strings[name_at : name_at + 1] == b"\0":
                inner = self._find(member_type, wanted, base_bits + offset, depth + 1)
                if inner is not None:
                    return inner
        return None


@functools.lru_cache(maxsize=1)
def _of_kernel(root: Path) -> Btf | None:
    # Apart from the method, whose default would make one file two: with and without the argument.
    data = SysTree(root).read_bytes(KERNEL_BTF, MAX_BTF_BYTES)
    return None if data is None else Btf(data, str(root / KERNEL_BTF))
