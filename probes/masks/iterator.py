"""The kernel's own list of all tasks: one pass says of every thread of every claim what it may use.

``/proc/<tid>/status`` costs some 20 us a thread, most of it the kernel's work for sixty lines of text. An iterator's
program costs half a microsecond, so that ten thousand threads are looked at every few seconds.

Where the kernel refuses the program (no iterators before Linux 5.8, no CONFIG_CPUSETS) ``/proc`` alone is read: nothing
is missing then that is not stated by how often that is done.

Source: Documentation/bpf/bpf_iterators.rst; kernel/bpf/task_iter.c, bpf_iter.c (``bpf_seq_read``: whole records only).
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from probes import kernel_structs
from probes.bpfsys import possible_cpus
from probes.masks.records import Known, Layout
from probes.masks.rows import MAX_KEPT
from probes.online import possible
from probes.options import ObserveOptions
from probes.program import Program
from probes.programs import Programs, Side
from toolkit.host import bpf_syscalls
from toolkit.host.kernel_file import read_record

_PART = 1 << 16
"""Bytes of a read: the kernel gives eight pages at most."""

Piece = tuple[int, bytes]
"""When some records had been read (CLOCK_MONOTONIC), and the records."""


class TaskIterator(Side):
    """One pass after the other."""

    SOURCE = "masks/masks.bpf.c"
    PROGRAMS = (Program(name="on_task", iterates="task", optional=True),)

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs)
        self.known = Known(layout(programs.root), MAX_KEPT)
        self._link = -1
        self._lock = threading.Lock()
        self.refused = ""
        """Why there is none."""

    @property
    def usable(self) -> bool:
        """Whether this kernel has taken the program."""
        return self._link >= 0

    @staticmethod
    def settings(root: Path, options: ObserveOptions) -> dict[str, int]:
        """Return how long masks are, and where the kernel's structs have what is asked for, if they have it."""
        words = layout(root)
        sizes = {"MASK_CPU_WORDS": words.cpu_words, "MASK_NODE_WORDS": words.node_words}
        return sizes | kernel_structs.of_threads(root)

    def attach(self) -> None:
        """Bind the program to the list of tasks, where the kernel takes it."""
        program, self.refused = self.loaded.optional("on_task")
        if program is None:
            return
        try:
            self._link = bpf_syscalls.link_iterator(program)
        except OSError as error:
            self.refused = f"on_task: {error.strerror}"

    def close(self) -> None:
        """Let it go."""
        if self._link >= 0:
            os.close(self._link)
        self._link = -1

    def read(self) -> list[Piece]:
        """Make one pass.

        :raises OSError: what the kernel says.
        """
        pieces = []
        with self._lock:  # what one pass has looked up, another must not take for its own in the middle (masks.bpf.c)
            descriptor = bpf_syscalls.open_iterator(self._link)
            try:
                while data := _read_on(descriptor):
                    pieces.append((time.monotonic_ns(), data))
            finally:
                os.close(descriptor)
        return pieces


def _read_on(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, _PART)
        except BlockingIOError:  # a million tasks without a claim in a row: go on
            continue


def layout(root: Path) -> Layout:
    """Return how a record is laid out on this host."""
    nodes = read_record(f"{root}/sys/devices/system/node/possible")  # none where the kernel knows no nodes
    return Layout(possible(root), possible_cpus((nodes or b"0").decode("ascii")))
