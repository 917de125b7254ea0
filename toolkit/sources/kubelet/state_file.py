"""``cpu_manager_state`` while the kubelet restarts: what it said last holds until it says something again.

Absent while the kubelet is down, then for 50 ms a pool without entries, then as before; no cgroup changes meanwhile.
A kubelet that goes on running writes such a pool when it has taken the last CPUs back, from a pod that it refused, too.
A file is written whole or not at all: text that is no checkpoint is no restart, but a file that is spoilt.
Source: docs/facts.md K-kubelet-4, K-kubelet-5, "Normal on a healthy node".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from toolkit.allocation.checkpoint.state_files import cpu_state_file
from toolkit.model.node_reading import MEMORY_WRITTEN, STATE_WRITTEN, MissingPart
from toolkit.model.state_files import CpuStateFile, StateReading
from toolkit.sources.kubelet.evidence import moment_of
from toolkit.sources.kubelet.held import Followed, states
from toolkit.sources.kubelet.promises.node import COSTS

NONE = "none"
"""The policy under which a file without any CPU is a whole one."""
_read = lru_cache(maxsize=2)(cpu_state_file)
"""A file says the same at most readings, and its text is all that is read of it."""


class HeldState:
    """What the file said last; :meth:`cpu` with each reading of it."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._known: CpuStateFile | None = None
        self._spoke_ns = 0
        """When the last reading began that was believed."""
        self._back_ns: int | None = None
        self._since_ns: int | None = None
        """Since when it is absent, empty, or of a manager that has not started; ``None``: it is not."""
        self.silent = False
        """Whether the file of the last reading says nothing, and not for so long yet that this is no restart's."""
        self.lost = False
        """Whether it has said nothing for longer: what is promised goes on, and nothing says so any more."""
        self.instead: CpuStateFile | None = None
        """The file of the last reading where something else holds than it says: spoilt, or lost and not absent."""

    @property
    def speaks(self) -> bool:
        """Whether what holds is what the file says."""
        return not (self.silent or self.lost) and self.instead is None

    @property
    def known(self) -> bool:
        """Whether it has said anything yet."""
        return self._known is not None

    @property
    def problem(self) -> str:
        """Why it does not; empty: it does, or the file is absent, or as it is while a kubelet starts."""
        if self.instead is None:
            return ""
        if self.instead.problem or not self.instead.checksum_ok:
            return self.instead.problem or "the checksum is not that of the content"
        return "its manager has not started"

    def cpu(
        self, text: str | None, now_ns: int, wait_ns: int, restarted: Callable[[int], bool] = lambda _since_ns: True
    ) -> str | None:
        """Return what holds now.

        :param text: of the file; ``None``: absent. :param wait_ns: a reconcile, and slack.
        :param restarted: whether a kubelet may have begun since then (CLOCK_MONOTONIC); asked after the file was read.
        """
        found = None if text is None or not text.strip() else _read(text)
        known = self._known
        self.silent, self.lost, self.instead = False, False, None
        if found is None or _fresh(found):
            self._since_ns, self._back_ns = now_ns if self._since_ns is None else self._since_ns, None
            self.lost = now_ns - self._since_ns >= wait_ns
            self.silent = not self.lost
            if self.lost and text is not None:
                self.instead = _read(text)
            return self._text
        self._since_ns = None
        if found.problem or not found.checksum_ok:
            if known is None:
                return text  # nothing is made of it, and there is nothing else
            self.instead, self._back_ns = found, None
            return self._text
        emptied = known is not None and bool(known.entries or known.pods) and not (found.entries or found.pods)
        if known is not None and emptied and found.policy == known.policy and restarted(self._spoke_ns):
            self._back_ns = now_ns if self._back_ns is None else self._back_ns
            if now_ns - self._back_ns < wait_ns:
                self.silent = True
                return self._text
        self._back_ns, self._text, self._known, self._spoke_ns = None, text, found, now_ns
        return text


def _fresh(found: CpuStateFile) -> bool:
    """Whether it is of a manager that has not started yet."""
    says = found.problem or found.policy == NONE or found.default or found.entries or found.pods
    return not says and found.checksum_ok


HOLDS = "what it said last holds"


_Word = tuple[Followed, CpuStateFile | None, bool]
"""A reading, what is there instead of the file that holds, and whether there is none, or that."""


class Stated:
    """:meth:`of` with each reading."""

    def __init__(self) -> None:
        self._made: tuple[_Word, tuple[StateReading, ...]] | None = None
        """What was shown last, as it is, and of what it was made."""
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
        word = now, held.instead, held.lost
        if self._made is None or self._made[0] != word:
            cpu = held.instead if held.lost else held.instead or now.found.cpu
            self._made = word, states(now.reading, replace(now.found, cpu=cpu), lost=held.lost)
        said = [replace(one, cpu_written_at=times[0], memory_written_at=times[1]) for one in self._made[1]]
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
