"""The records of writes to control files: a mirror of ``writes.h``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from probes.records import Record

NAME_BYTES = 32
VALUE_BYTES = 64
"""The last one is always 0."""
DIRECTORY = struct.Struct("=2Q")
"""Key of ``write_dirs``: the directory's number, its hierarchy's number."""


@dataclass(frozen=True, slots=True)
class WriteState(Record):
    """What a CPU sent and dropped (``struct write_state``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2IQ")
    window: int
    sent: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Write(Record):
    """A control file was written (``struct control_write``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2IQq4I16s32s64s")
    window: int
    cgroup: int
    at_ns: int
    result: int
    tid: int
    tgid: int
    asked: int
    hierarchy: int
    comm: bytes
    file: bytes
    value: bytes

    @property
    def said(self) -> bytes:
        """The value without white space at its ends, as far as it was kept."""
        return self.value.split(b"\0", 1)[0].strip()
