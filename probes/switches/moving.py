"""Moves between cgroups that are under way: the kernel has begun, and its word comes when it is done.

Usually that takes microseconds, but as long as whatever writes gets no CPU: 100 ms were seen on a node that is short of
them. Observed where the kernel takes programs at the begin and the end of a function (BPF trampolines: x86 5.5, arm64
6.0); elsewhere the patience is all there is.

Source: kernel/cgroup/cgroup.c, ``cgroup_attach_task``; commit fec56f5890d9 "bpf: Introduce BPF trampoline".
"""

from __future__ import annotations

import os
import struct
from contextlib import ExitStack

from probes.bpfsys import Map
from probes.program import Program
from probes.programs import Programs
from toolkit.host import bpf_syscalls

_U64 = struct.Struct("=Q")
PROGRAMS = (
    Program(name="on_attach_end", returns_from=bpf_syscalls.ATTACH_TASK, optional=True),
    Program(name="on_attach_begin", enters=bpf_syscalls.ATTACH_TASK, optional=True),
)
"""In the order in which they are attached: what is seen to begin must be seen to end."""


class Moving:
    """The moves that are under way, by the kernel's own function."""

    def __init__(self, loaded: Programs) -> None:
        self._loaded = loaded
        self._table: Map | None = None

    @property
    def observed(self) -> bool:
        """Whether this kernel shows them."""
        return self._table is not None

    def attach(self) -> ExitStack:
        """Attach both programs, or none where the kernel refuses one; returns what detaches them."""
        with ExitStack() as links:
            for one in PROGRAMS:
                program, _ = self._loaded.optional(one.name)
                if program is None:
                    return ExitStack()
                try:
                    links.callback(os.close, bpf_syscalls.attach(program))
                except OSError:
                    return ExitStack()
            self._table = self._loaded.table("attaching", 4, _U64.size)
            return links.pop_all()

    def begun_ns(self) -> tuple[int, ...]:
        """Return when those began that have not ended."""
        if self._table is None:
            return ()
        return tuple(_U64.unpack(value)[0] for _, value in self._table.items())
