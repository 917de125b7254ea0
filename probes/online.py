"""How many CPUs there may be, and which are online.

The latter is asked several times a second while programs are loaded, so the file stays open meanwhile.

Source: fs/sysfs/file.c (``sysfs_kf_seq_show``: at position 0 an attribute is shown anew), drivers/base/cpu.c.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from probes.bpfsys import possible_cpus
from probes.records import MAX_CPUS
from toolkit.errors import HostUnsupportedError
from toolkit.host.kernel_file import open_to_read, read_record
from toolkit.model.cpuset import CpuSet

_MOST = 1 << 13
"""Bytes; an attribute has a page at most, of 4 KB or more where 2,048 CPUs need it."""


class Online:
    """Reads the list; it is left open as long as this is entered."""

    def __init__(self, root: Path) -> None:
        self._path = f"{root}/sys/devices/system/cpu/online"
        self._descriptor = -1
        self._last = b"", CpuSet()
        """What it said when it was read last, and what that means."""

    def __enter__(self) -> Online:
        self._descriptor = open_to_read(self._path)
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)
        self._descriptor = -1

    def read(self) -> CpuSet:
        """Return the CPUs that are online now. :raises OSError: the kernel does not say."""
        text = os.pread(self._descriptor, _MOST, 0) if self._descriptor >= 0 else read_record(self._path)
        if text is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path)
        last, meaning = self._last
        if text != last:
            meaning = CpuSet.parse(text.decode("ascii"))
            self._last = text, meaning
        return meaning


def possible(root: Path) -> int:
    """Return how many CPUs this host may have.

    :raises HostUnsupportedError: more than the programs judge.
    """
    cpus = possible_cpus((root / "sys/devices/system/cpu/possible").read_text(encoding="ascii"))
    if cpus > MAX_CPUS:
        raise HostUnsupportedError(f"this host may have {cpus} CPUs; the ledger judges at most {MAX_CPUS}")
    return cpus
