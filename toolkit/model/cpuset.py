"""An immutable set of CPU (or NUMA node) ids on one integer bitmask.

Reads and writes the kernel's list format (``0-3,8``, with ``N-M:used/group`` strides) and mask format
(``ff,ffffffff``). Source: cpuset(7), "List format" and "Mask format"; Documentation/admin-guide/cputopology.rst.
The operations follow k8s.io/utils/cpuset so that kubelet readers feel at home.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from toolkit.errors import InputError

MAX_ID = 65535
"""Largest id accepted from text. The kernel's own limit is NR_CPUS - 1 (8191 on the largest builds);
a bound keeps a hostile ``0-99999999999`` from eating all memory."""

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6})/(\d{1,6}))?)?", re.ASCII)
_ALL = re.compile(r"^all(?=$|:)", re.IGNORECASE)
_LAST = re.compile(r"(?<![^-])N(?![^-:])")
_WORD = re.compile(r"[0-9a-fA-F]{1,8}", re.ASCII)


class CpuSet:
    """CPU ids as a bitmask; hashable, ordered by inclusion, falsy when empty."""

    __slots__ = ("mask",)
    mask: int

    def __init__(self, mask: int = 0) -> None:
        if mask < 0:
            raise ValueError("a CPU mask cannot be negative")
        object.__setattr__(self, "mask", mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("CpuSet is immutable")

    def __reduce__(self) -> tuple[type[CpuSet], tuple[int]]:
        return CpuSet, (self.mask,)

    @classmethod
    def of(cls, ids: Iterable[int]) -> CpuSet:
        """Build from ids."""
        mask = 0
        for i in ids:
            mask |= 1 << i
        return cls(mask)

    @classmethod
    def union(cls, sets: Iterable[CpuSet]) -> CpuSet:
        """Return what is in any of the sets."""
        mask = 0
        for one in sets:
            mask |= one.mask
        return cls(mask)

    @classmethod
    def parse(cls, text: str, where: str = "CPU list") -> CpuSet:
        """Read the list format (``"0-3,8"``, ``""`` is the empty set).

        :raises InputError: for anything else, reversed ranges, or ids above :data:`MAX_ID`.
        """
        mask = 0
        stripped = text.strip()
        if not stripped:
            return cls(0)
        for part in stripped.split(","):
            match = _RANGE.fullmatch(part.strip())
            if match is None:
                found = repr(part.strip()[:80]) + (f" in {stripped[:80]!r}" if "," in stripped else "")
                raise InputError(where, found, "a list of ids such as 0-3,8")
            first = int(match[1])
            last = int(match[2]) if match[2] is not None else first
            if last < first:
                raise InputError(where, f"reversed range {part.strip()!r}", "first <= last")
            if last > MAX_ID:
                raise InputError(where, f"id {last}", f"at most {MAX_ID}")
            if match[3] is None:
                mask |= ((1 << (last - first + 1)) - 1) << first
            else:
                used, group = int(match[3]), int(match[4])
                if not 0 < used <= group:
                    raise InputError(where, f"stride {part.strip()!r}", "0 < used <= group")
                for start in range(first, last + 1, group):
                    end = min(start + used - 1, last)
                    mask |= ((1 << (end - start + 1)) - 1) << start
        return cls(mask)

    @classmethod
    def parse_kernel(cls, text: str, last: int, where: str = "CPU list") -> CpuSet:
        """Read a CPU list as boot parameters and cpusets take it: also ``N`` (the last CPU), ``all``, ``all:1/2``.

        :param last: the number of the last CPU that the kernel can have.
        :raises InputError: as :meth:`parse`.

        Source: Documentation/admin-guide/kernel-parameters.rst, "cpu lists"; lib/bitmap-str.c (bitmap_parselist).
        """
        regions = (_ALL.sub(f"0-{last}", region) for region in text.replace(",", " ").split())
        return cls.parse(",".join(_LAST.sub(str(last), region) for region in regions), where)

    @classmethod
    def parse_mask(cls, text: str, where: str = "CPU mask") -> CpuSet:
        """Read the mask format: comma separated 32-bit hexadecimal words, highest first.

        :raises InputError: for anything else.
        """
        value = 0
        words = text.strip().split(",")
        if len(words) * 32 > MAX_ID + 1:
            raise InputError(where, f"{len(words)} words", f"at most {(MAX_ID + 1) // 32}")
        for word in words:
            word = word.strip().removeprefix("0x")
            if not _WORD.fullmatch(word):
                raise InputError(where, f"{text.strip()[:80]!r}", "hexadecimal words such as ff,ffffffff")
            value = value << 32 | int(word, 16)
        return cls(value)

    def within_one(self, masks: Iterable[int]) -> bool:
        """Return whether one of these masks has all of the set."""
        return any(not self.mask & ~mask for mask in masks)

    def to_mask(self) -> str:
        """Write the mask format, 32 bits a word."""
        words = []
        value = self.mask
        while True:
            words.append(f"{value & 0xFFFFFFFF:08x}")
            value >>= 32
            if not value:
                return ",".join(reversed(words))

    def __str__(self) -> str:
        """Write the list format; the empty set is ``""``."""
        return _known(self.mask) if self.mask.bit_length() <= _SMALL else _listed(self.mask)

    def __repr__(self) -> str:
        return f"CpuSet({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        mask = self.mask
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, cpu: int) -> bool:
        # The kernel writes "no node" as -1; that is in no set.
        return cpu >= 0 and self.mask >> cpu & 1 == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpuSet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.mask | other.mask)

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.mask & other.mask)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.mask & ~other.mask)

    def __xor__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.mask ^ other.mask)

    def __le__(self, other: CpuSet) -> bool:
        return not self.mask & ~other.mask

    def __lt__(self, other: CpuSet) -> bool:
        return self <= other and self.mask != other.mask

    def isdisjoint(self, other: CpuSet) -> bool:
        """Return whether the two sets share no id."""
        return not self.mask & other.mask

    def first(self) -> int:
        """Return the lowest id; :class:`ValueError` when empty."""
        if not self.mask:
            raise ValueError("empty CPU set")
        return (self.mask & -self.mask).bit_length() - 1

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """In files a set is its list string, and nothing else."""
        from pydantic_core import core_schema

        def read(value: object) -> CpuSet:
            if isinstance(value, cls):
                return value
            if not isinstance(value, str):
                raise ValueError("a CPU list such as 0-3,8 is expected")
            try:
                return _parsed(value) if len(value) <= _SHORT else cls.parse(value)
            except InputError as error:
                raise ValueError(str(error)) from None

        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(read, core_schema.str_schema()),
            python_schema=core_schema.no_info_plain_validator_function(read),
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema()),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, str]:
        """Describe the string in the shipped JSON Schemas."""
        return {"type": "string", "pattern": "^[0-9,:/ -]*$", "description": "CPU list such as 0-3,8"}


_SHORT = 256
_parsed = lru_cache(maxsize=4096)(CpuSet.parse)
"""Evidence of a node has tens of thousands of sets, and few different ones."""


_SMALL = 1024
"""CPUs: so many machines have at most, and so large a text may be kept."""


def _listed(mask: int) -> str:
    parts = []
    base = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        base += skip
        run = (mask + 1 & ~mask).bit_length() - 1
        parts.append(str(base) if run == 1 else f"{base}-{base + run - 1}")
        mask >>= run
        base += run
    return ",".join(parts)


_known = lru_cache(maxsize=4096)(_listed)

EMPTY = CpuSet(0)


def cpus_text(cpus: CpuSet | str) -> str:
    """Write ``CPU 1`` and ``CPUs 2-3``. :param cpus: the set, or its list as text."""
    text = str(cpus)
    return f"{'CPU' if text.isdigit() else 'CPUs'} {text}"


def cpus_do(cpus: CpuSet, one: str, many: str, of: str = "") -> str:
    """Write ``CPU 1 is`` and ``CPUs 2-3 are``. :param one, many: the verb. :param of: whose they are, before it."""
    return f"{cpus_text(cpus)}{of} {one if len(cpus) == 1 else many}"


def nodes_text(nodes: CpuSet | str) -> str:
    """Write ``node 1`` and ``nodes 0-1``. :param nodes: the set of NUMA nodes, or its list as text."""
    text = str(nodes)
    return f"{'node' if text.isdigit() else 'nodes'} {text}"
