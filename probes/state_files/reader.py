"""The names of processes that have ended last, kept in the kernel while state files are watched.

Source: include/trace/events/sched.h (``sched_process_exit``).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import ClassVar

from probes.program import Program
from probes.programs import Programs, Side
from probes.records import Record, comm, per_cpu
from toolkit.host import bpf_syscalls

KEPT = 64
"""On each CPU (``ended.bpf.c``)."""


@dataclass(frozen=True, slots=True)
class EndedProcess(Record):
    """``struct ended_process``."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=QI4x16s")

    at_ns: int
    tgid: int
    comm: bytes


class EndedProcesses(Side):
    """Attached between :meth:`begin` and the end of the observer."""

    SOURCE = "state_files/ended.bpf.c"
    PROGRAMS = (Program(name="on_process_end"),)

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs)
        self._ended = programs.table("ended", 4, EndedProcess.LAYOUT.size, per_cpu=True)
        self._link = -1

    def begin(self) -> None:
        """Keep names from now on.

        :raises OSError: what the kernel says.
        """
        if self._link < 0:
            self._link = bpf_syscalls.attach(self.loaded.programs["on_process_end"], "sched_process_exit")

    def release(self) -> None:
        """Keep none for the observer that goes."""
        self.close()

    def close(self) -> None:
        """Detach."""
        if self._link >= 0:
            os.close(self._link)
        self._link = -1

    def name_of(self, pid: int) -> str:
        """Return the name that a process had at its end; empty: it is none of the last."""
        found = EndedProcess(0, 0, b"")
        for entry in range(KEPT if self._link >= 0 else 0):
            data = self._ended.lookup(struct.pack("=I", entry)) or b""
            for piece in per_cpu(data, self._ended.value_size):
                one = EndedProcess.decode(piece)
                if one.tgid == pid and one.at_ns > found.at_ns:
                    found = one
        return comm(found.comm)
