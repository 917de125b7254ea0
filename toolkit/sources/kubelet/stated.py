"""What is shown of the state files to what judges them, while one of them says nothing for a moment and beyond it.

A kubelet's restart is no finding: until a reconcile and the slack have passed what a file said last stands, each file
by itself. Later the file is shown as it is, absent or empty, and no old word of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from toolkit.model.node_reading import MEMORY_WRITTEN, STATE_WRITTEN, MissingPart
from toolkit.model.state_files import StateReading
from toolkit.sources.kubelet.costs import COSTS
from toolkit.sources.kubelet.evidence import moment_of
from toolkit.sources.kubelet.followed_claims import Followed
from toolkit.sources.kubelet.held_state import HeldState

HOLDS = "what it said last holds"


class Stated:
    """:meth:`of` with each reading."""

    def __init__(self) -> None:
        self._cpu: StateReading | None = None
        """The last one whose CPU part was shown as it is."""
        self._memory: StateReading | None = None
        """The last one with a memory manager's file."""
        self._gone_ns: int | None = None
        """Since when there is none, after there was one."""

    def of(
        self, now: Followed, held: HeldState, now_ns: int, wait_ns: int, written: Mapping[str, float]
    ) -> tuple[StateReading, ...]:
        """Return what is shown now.

        :param wait_ns: a reconcile, and slack. :param written: the files' own times, as in ``times.json``.
        """
        times = [moment_of(written.get(name)) for name in (STATE_WRITTEN, MEMORY_WRITTEN)]
        said = [
            replace(one, cpu_written_at=times[0], memory_written_at=times[1])
            for one in now.states(held.instead, lost=held.lost)
        ]
        found = [self._whole(one, held, now_ns, wait_ns) for one in said]
        return tuple(one for one in found if one is not None)

    def _whole(self, one: StateReading, held: HeldState, now_ns: int, wait_ns: int) -> StateReading | None:
        shown = one
        if held.silent and self._cpu is None:
            return None  # It has just been looked for the first time.
        if held.silent and self._cpu is not None:
            shown = replace(
                shown,
                cpu=self._cpu.cpu,
                cpu_policy=self._cpu.cpu_policy,
                cpu_written_at=self._cpu.cpu_written_at,
                union_known=self._cpu.union_known,
                reserved_cpus=self._cpu.reserved_cpus,
                strict_reservation=self._cpu.strict_reservation,
            )
        else:
            self._cpu = one
        if one.memory is not None:
            self._memory, self._gone_ns = one, None
        elif self._memory is not None:
            self._gone_ns = now_ns if self._gone_ns is None else self._gone_ns
            if now_ns - self._gone_ns < wait_ns:
                shown = replace(
                    shown,
                    memory=self._memory.memory,
                    memory_policy=self._memory.memory_policy,
                    memory_written_at=self._memory.memory_written_at,
                )
            else:
                self._memory = None
        return shown


def not_read(parts: Iterable[MissingPart], held: HeldState) -> tuple[MissingPart, ...]:
    """Return the parts of a node that were not read, with a state file that is there and says nothing."""
    found, cost = [], COSTS["cpu_state"]
    for part in parts:
        reason = part.reason
        if part.part == "threads":
            continue  # Whatever follows a node reads their masks anyway.
        if part.part == "cpu_state" and held.known and reason.endswith(cost):
            reason = reason.removesuffix(cost) + HOLDS
        found.append(MissingPart(part=part.part, reason=reason))
    if held.problem:
        found.append(MissingPart(part="cpu_state", reason=f"{held.problem}: {HOLDS if held.known else cost}"))
    return tuple(found)
