"""What wrote to control files, from the program's records to a window's writes.

Attached where the kernel takes a program at the return of its function (BPF trampolines: x86 5.5, arm64 6.0). Elsewhere
only with ``trace_syscalls``, as the exit of every system call is too dear to be the default; without it a blind spot
says so. No rule rests on it: it names what did what a rule found. A flood is cut off in the kernel (``max_writes`` for
each CPU and window) and counted.

Source: Documentation/bpf/libbpf/program_types.rst (fexit); kernel/cgroup/cgroup.c (``cgroup_file_write``);
include/trace/events/syscalls.h (``sys_exit``).
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from probes import kernel_structs
from probes.bpfsys import program_info
from probes.optional import attach_optional
from probes.options import ObserveOptions
from probes.program import Program
from probes.programs import Programs, Side
from probes.records import per_cpu
from probes.writes.records import DIRECTORY, NAME_BYTES, Write, WriteState
from toolkit.host import bpf_syscalls

FILES = (
    *("cpuset.cpus", "cpuset.mems", "cpuset.cpus.partition", "cpuset.cpus.exclusive"),
    *("cpuset.cpu_exclusive", "cpuset.mem_exclusive"),
    *("cpu.max", "cpu.max.burst", "cpu.weight", "cpu.weight.nice", "cpu.idle", "cpu.uclamp.min", "cpu.uclamp.max"),
    *("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"),
    *("memory.max", "memory.high", "memory.low", "memory.min", "memory.swap.max", "memory.limit_in_bytes"),
)
"""Names in both hierarchies of the files that hold a promise, or change what one of these means."""
DIRECTORIES_A_CLAIM = 16
"""Directories for which there is room, by claim: its own and some above it (claims share these) in each hierarchy."""
MAX_KEPT = 8192
"""Writes kept in user space, of the open window and the one being finished; the rest is counted."""


class Writes(Side):
    """The writes of the open window and the one closed last. :meth:`hear` is called by the thread that polls."""

    SOURCE = "writes/writes.bpf.c"
    PROGRAMS = (
        Program(name="on_control_write", returns_from=bpf_syscalls.CONTROL_FILE_WRITE, optional=True),
        Program(name="on_write_exit", optional=True),  # x86 only, and attached only on request
    )

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs)
        self._state = programs.table("write_state", 4, WriteState.LAYOUT.size, per_cpu=True)
        self._files = programs.table("write_files", NAME_BYTES, 4)
        self.directories = programs.table("write_dirs", DIRECTORY.size, 4)
        self._lock = threading.Lock()
        self._heard: list[Write] = []
        self._unkept: dict[int, int] = {}
        self._written: set[int] = set()
        self._program, self._link = -1, -1
        self.blind_spots: list[str] = []
        self.complete = False
        """Whether every write is reported or counted; exits of system calls show the usual ones alone."""

    @property
    def observed(self) -> bool:
        """Whether writes are seen on this kernel."""
        return self._link >= 0

    @staticmethod
    def settings(root: Path, options: ObserveOptions) -> dict[str, int]:
        """Return the limits, and where the kernel's structs have what is asked for, if they have it."""
        limits = {"MAX_WRITES": options.max_writes, "MAX_WRITE_DIRS": options.max_claims * DIRECTORIES_A_CLAIM}
        return limits | kernel_structs.of_open_files(root)

    def rings(self) -> dict[str, Callable[[bytes], None]]:
        """Return the ring."""
        return {"writes": self.hear}

    def attach(self) -> None:
        """Attach where it costs nothing else, or where that was asked for."""
        for name in FILES:
            self._files.update(name.encode().ljust(NAME_BYTES, b"\0"), struct.pack("=I", 1))
        found = attach_optional(self.loaded, "on_control_write", "on_write_exit")
        if isinstance(found, str):
            self.blind_spots.append(f"what writes control files is not observed: {found}")
            return
        self._program, self._link = found.program, found.link
        self.complete = found.name == "on_control_write"

    def close(self) -> None:
        """Detach."""
        if self._link >= 0:
            os.close(self._link)
        self._link, self.complete = -1, False

    def release(self) -> None:
        """Let every directory be no claim's."""
        for key in tuple(self.directories.keys()):
            self.directories.delete(key)
        self.take_written()

    def wipe(self, window: int) -> None:
        """Forget the windows before this one."""
        self.take_old(window)

    def hear(self, data: bytes) -> None:
        """Take one record of the ring."""
        event = Write.decode(data)
        with self._lock:
            if self.complete:
                self._written.add(event.cgroup)
            if len(self._heard) < MAX_KEPT:
                self._heard.append(event)
            else:
                self._unkept[event.window] = self._unkept.get(event.window, 0) + 1

    @property
    def has_written(self) -> bool:
        """Whether :meth:`take_written` would return any."""
        return bool(self._written)

    def take_written(self) -> set[int]:
        """Return the numbers of the cgroups that were written to since the last call, also in vain."""
        with self._lock:
            written, self._written = self._written, set()
        return written

    def take_old(self, window: int) -> list[Write]:
        """Forget the windows before this one, and return what they had."""
        with self._lock:
            old = [event for event in self._heard if event.window != window]
            self._heard = [event for event in self._heard if event.window == window]
            self._unkept = {number: count for number, count in self._unkept.items() if number == window}
        return old

    def dropped(self) -> int:
        """Return how many writes were not reported, since the programs were loaded."""
        data = self._state.lookup(struct.pack("=I", 0)) or b""
        lost = sum(WriteState.decode(piece).dropped for piece in per_cpu(data, self._state.value_size))
        return lost + ((program_info(self._program).missed_runs or 0) if self.observed else 0)

    def of_window(self, window: int) -> tuple[Write, ...] | None:
        """Return a window's writes; ``None`` where they are not observed."""
        if not self.observed:
            return None
        with self._lock:
            return tuple(event for event in self._heard if event.window == window)

    def unkept(self, window: int) -> int:
        """Return how many of a window were not kept."""
        with self._lock:
            return self._unkept.get(window, 0)
