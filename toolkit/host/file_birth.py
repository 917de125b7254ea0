"""When a file was made: what Python's ``os.stat`` does not say on Linux.

A file that is moved into its place, or copied with its times, has an old time of writing; it is new all the same.

Source: statx(2), include/uapi/linux/stat.h.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_AT_FDCWD, _BTIME = -100, 0x800
_MASK, _BIRTH = struct.Struct("=I"), struct.Struct("=qI")
_BIRTH_AT = 80
"""In ``struct statx``, of 256 bytes."""
_libc = ctypes.CDLL(None)


def born_s(path: Path) -> float | None:
    """Return when a file was made (s, by the clock that dates files); ``None``: its file system does not keep it."""
    found = ctypes.create_string_buffer(256)
    try:
        answer = _libc.statx(_AT_FDCWD, os.fsencode(path), 0, _BTIME, found)
    except AttributeError:  # a C library older than glibc 2.28
        return None
    if answer != 0 or not _MASK.unpack_from(found)[0] & _BTIME:
        return None
    seconds, nanoseconds = _BIRTH.unpack_from(found, _BIRTH_AT)
    return float(seconds + nanoseconds / 1e9)
