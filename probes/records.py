"""What the records of all witnesses have in common: how bytes of a map or a ring become values; no bcc.

Each witness's own records are in its folder, a Python mirror of its header.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from toolkit.text import names

CPU_WORDS = 16
"""64-bit words of a set of CPUs in the kernel (``probes/switches/claims.h``)."""
MAX_CPUS = CPU_WORDS * 64


class Record:
    """Base: ``LAYOUT`` is the struct format, in the order of the dataclass fields; padding is ``x``."""

    LAYOUT: ClassVar[struct.Struct]

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> Self:
        """Read one record."""
        values = cls.LAYOUT.unpack_from(data, offset)
        return cls(*values)


def comm(raw: bytes) -> str:
    """Spell a task's name, or another that ends with a NUL."""
    return names.shown(raw.split(b"\0", 1)[0])


def per_cpu(data: bytes, size: int) -> list[bytes]:
    """Cut the value of a per-CPU map into one piece for each possible CPU."""
    return [data[at : at + size] for at in range(0, len(data), size)]
