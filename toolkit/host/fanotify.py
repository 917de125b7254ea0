"""fanotify(7): which process makes, writes, puts or removes files in a directory. Nothing waits for what is reported.

An event has the process's number and the file's name; the time is when it is read. Needs CAP_SYS_ADMIN, Linux 5.9, and
a file system with file handles and an id of its own (ext4, XFS, Btrfs; tmpfs since 5.13, overlayfs since 6.6). Writes
through a mapping (mmap) are not reported, nor what another machine writes to a network file system.
Source: fanotify(7), fanotify_init(2), fanotify_mark(2); include/uapi/linux/fanotify.h.
"""

from __future__ import annotations

import ctypes
import os
import struct
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
OVERFLOW = 0x4000
_ON_CHILD = 0x08000000
_CLOEXEC, _NONBLOCK, _REPORT_DIR_FID, _REPORT_NAME = 0x1, 0x2, 0x400, 0x800
_MARK_ADD, _MARK_ONLY_DIRECTORY = 0x1, 0x8
_AT_FDCWD = -100
_EVENT = struct.Struct("=IBBHQii")
_INFO = struct.Struct("=BBH")
_DIRECTORY_AND_NAME = 2
"""``FAN_EVENT_INFO_TYPE_DFID_NAME``."""
_FSID_BYTES = 8
_HANDLE = struct.Struct("=Ii")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class FileEvent:
    """What a process did to a file of the directory. :param pid: 0: of a process that this pid namespace cannot see."""

    mask: int
    pid: int
    name: bytes


class Fanotify:
    """One queue of events, never waited for: poll :attr:`file`.

    :raises OSError: the kernel gives none.
    """

    def __init__(self) -> None:
        flags = _CLOEXEC | _NONBLOCK | _REPORT_DIR_FID | _REPORT_NAME
        self.file = _checked("fanotify_init", ctypes.c_uint(flags), ctypes.c_uint(os.O_RDONLY))
        self._close = weakref.finalize(self, os.close, self.file)

    def close(self) -> None:
        """End all watches."""
        self._close()

    def watch(self, directory: Path) -> None:
        """Report what is made, written, put and removed in a directory; nothing changes where it is watched already.

        :raises OSError: ENODEV, EOPNOTSUPP, EXDEV: its file system does not report it.
        """
        events = ctypes.c_uint64(MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE | _ON_CHILD)
        flags = ctypes.c_uint(_MARK_ADD | _MARK_ONLY_DIRECTORY)
        _checked("fanotify_mark", self.file, flags, events, _AT_FDCWD, os.fsencode(directory))

    def read(self) -> Iterator[FileEvent]:
        """Take what was reported, until there is no more."""
        while True:
            try:
                data = os.read(self.file, 65536)
            except BlockingIOError:
                return
            yield from events_of(data)


def events_of(data: bytes) -> Iterator[FileEvent]:
    """Read events as the kernel lays them out (``struct fanotify_event_metadata`` and what follows it)."""
    at = 0
    while at + _EVENT.size <= len(data):
        length, _, _, header, mask, _, pid = _EVENT.unpack_from(data, at)
        if length < _EVENT.size:
            return
        yield FileEvent(mask, pid, _name(data[at + header : at + length]))
        at += length


def _name(records: bytes) -> bytes:
    at = 0
    while at + _INFO.size <= len(records):
        kind, _, length = _INFO.unpack_from(records, at)
        if kind == _DIRECTORY_AND_NAME:
            handle_at = at + _INFO.size + _FSID_BYTES
            handle_bytes, _ = _HANDLE.unpack_from(records, handle_at)
            return records[handle_at + _HANDLE.size + handle_bytes : at + length].split(b"\0", 1)[0]
        at += max(length, _INFO.size)
    return b""


def _checked(name: str, *arguments: object) -> int:
    function = getattr(_libc, name, None)
    if function is None:
        raise OSError(38, "the C library has no such function", name)
    result = int(function(*arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result
