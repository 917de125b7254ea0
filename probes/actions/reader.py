"""What did it: moves between cgroups and changes of affinity masks, from the programs' events to rows of evidence.

Always attached: these calls are rare, and nothing else pays anything. Where a kernel refuses programs at the return of
its functions, affinity is seen only with ``trace_syscalls``: the exit of every system call is too dear to be the
default. A flood is cut off in the kernel (``max_actions`` of a kind for each CPU and window) and counted.

Source: Documentation/bpf/libbpf/program_types.rst (fexit); include/trace/events/syscalls.h (``sys_exit``).
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from probes.actions.records import ACTION_LEAVE, ACTION_MOVE, ActionState, Affinity, Move
from probes.online import possible
from probes.optional import attach_optional
from probes.options import ObserveOptions
from probes.program import Program
from probes.programs import Programs, Side
from probes.records import per_cpu
from toolkit.host.cgroup_mounts import read_control

MAX_LEFT = 4096
"""Leaves that are remembered; what runs on after one that was forgotten is of unknown origin."""


class Actions(Side):
    """The events of the open window and the one closed last. :meth:`hear` is called by the thread that polls."""

    SOURCE = "actions/affinity.bpf.c"
    PROGRAMS = (
        Program(name="on_affinity", returns_from="sched_setaffinity", optional=True),
        Program(name="on_sys_exit", optional=True),  # x86 only, and attached only on request
    )

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs)
        self._state = programs.table("action_state", 4, ActionState.LAYOUT.size, per_cpu=True)
        self._link = -1
        self._lock = threading.Lock()
        self._moves: list[Move] = []
        self._left: dict[tuple[int, int], Move] = {}
        """By which move a thread left its claim last, by ident and thread id: it may run on for many windows."""
        self._affinities: list[Affinity] = []
        self.affinity_observed = False
        self.blind_spots: list[str] = []

    @staticmethod
    def settings(root: Path, options: ObserveOptions) -> dict[str, int]:
        """Return the limit of events, and the bytes of an affinity mask."""
        return {"MAX_ACTIONS": options.max_actions, "CPUMASK_BYTES": -(-possible(root) // 64) * 8}

    def rings(self) -> dict[str, Callable[[bytes], None]]:
        """Return the ring of both kinds."""
        return {"actions": self.hear}

    def attach(self) -> None:
        """Attach where it costs nothing else, or where that was asked for."""
        found = attach_optional(self.loaded, "on_affinity", "on_sys_exit")
        if isinstance(found, str):
            self.blind_spots.append(f"changes of affinity masks are not observed: {found}")
            return
        self._link = found.link
        self.affinity_observed = True
        self.loaded.programs[found.name] = found.program

    def close(self) -> None:
        """Detach."""
        if self._link >= 0:
            os.close(self._link)
        self._link = -1

    def wipe(self, window: int) -> None:
        """Forget the windows before this one."""
        self.drop_old(window)
        with self._lock:
            self._left.clear()

    def hear(self, data: bytes) -> None:
        """Take one record of the ring."""
        if int.from_bytes(data[:4], "little") in (ACTION_MOVE, ACTION_LEAVE):
            move = Move.decode(data)
            with self._lock:
                self._moves.append(move)
                if move.kind == ACTION_LEAVE and not move.hierarchy:
                    self._left[move.from_ident, move.tid] = move
                    if len(self._left) > MAX_LEFT:
                        self._left.pop(next(iter(self._left)))
        else:
            affinity = Affinity.decode(data)
            with self._lock:
                self._affinities.append(affinity)

    def drop_old(self, window: int) -> None:
        """Forget the windows before this one."""
        with self._lock:
            self._moves = [event for event in self._moves if event.window == window]
            self._affinities = [event for event in self._affinities if event.window == window]

    def left_before(self, window: int) -> tuple[Move, ...]:
        """Return the moves of earlier windows by which threads left their claims."""
        with self._lock:
            return tuple(event for event in self._left.values() if event.window < window)

    def dropped(self) -> tuple[int, int, int]:
        """Return how many moves, affinity changes and leaves were not reported, since the programs were loaded."""
        data = self._state.lookup(struct.pack("=I", 0)) or b""
        states = [ActionState.decode(piece) for piece in per_cpu(data, self._state.value_size)]
        return (
            sum(state.dropped_moves for state in states),
            sum(state.dropped_affinities for state in states),
            sum(state.dropped_leaves for state in states),
        )

    def moves(self, window: int) -> tuple[Move, ...]:
        """Return a window's moves."""
        with self._lock:
            return tuple(event for event in self._moves if event.window == window)

    def affinities(self, window: int) -> tuple[Affinity, ...] | None:
        """Return a window's affinity changes; ``None`` where they are not observed."""
        if not self.affinity_observed:
            return None
        with self._lock:
            return tuple(event for event in self._affinities if event.window == window)


def read_hierarchies(root: Path) -> dict[int, str]:
    """Return the names of the v1 hierarchies by number, from our own ``/proc/self/cgroup``."""
    lines = (read_control(root / "proc/self/cgroup") or "").split("\n")
    parts = [line.split(":", 2) for line in lines]
    return {int(part[0]): part[1] for part in parts if len(part) == 3 and part[0].isdigit()} | {0: "v2"}
