"""Evidence of what took a claim's time: how long its tasks waited for a CPU, and what had that CPU meanwhile.

Rows of the witness of context switches (:mod:`toolkit.model.evidence.switches`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.serde import CpuId, stage_value

TOLD_NS = 16_000
"""Waits of this length and longer are told one by one; shorter ones are in :attr:`Delay.wait_ns` alone."""


class CulpritClass(StrEnum):
    """What had a CPU while a claim's task waited for it."""

    CLAIM = "claim"
    FOREIGN_POD = "foreign-pod"
    SYSTEM = "system"
    KTHREAD = "kthread"
    TOOLKIT = "toolkit"
    ENDED = "ended"
    """A task without a claim that had ended by the time that the wait was told."""
    IDLE = "idle"
    """Nothing ran: the task was on its way."""
    THROTTLED = "throttled"
    """The claim's tasks were not allowed to run, by a quota of its own cgroup or of one above it."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How long the tasks of one claim were runnable and waited on one CPU, up to the moment at which they ran there.

    A wait counts where it ends and in the window in which it ends; what a task waited for on another CPU, before it was
    moved to this one, is not in it.

    :param wait_ns: of all waits, as the kernel adds it to the tasks' run delay.
    :param woken_ns: of those that lasted :data:`TOLD_NS` or longer, of tasks that had slept, or came from another CPU.
    :param preempted_ns: of those, of tasks that were taken off this CPU while they were runnable.
    :param throttled_ns: of both, while the claim was throttled here.
    :param unnamed_ns: of both, without a culprit: more turns than the kernel keeps, or no room for a name.
    :param longest_ns, longest_at_ns: the longest of them, and when it ended; ``None``: there was none.
    :param woken, preempted: how many there were of 16 us or longer, of 32 us or longer, and so on, each less those of
        the next; the last has no end. Zeros at the end are left out.
    :param migrations: how often what ran on this CPU moved a task of the claim to another.
    """

    claim: str
    cpu: CpuId
    wait_ns: int
    woken_ns: int = 0
    preempted_ns: int = 0
    throttled_ns: int = 0
    unnamed_ns: int = 0
    longest_ns: int = 0
    longest_at_ns: int | None = None
    woken: tuple[int, ...] = ()
    preempted: tuple[int, ...] = ()
    migrations: int = 0

    @property
    def told_ns(self) -> int:
        """Of ``wait_ns``, what was told wait by wait."""
        return self.woken_ns + self.preempted_ns


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """What had one CPU while tasks of a claim waited there.

    :param claim: what waited.
    :param name: the claim that ran (``claim`` itself: its own tasks), or the name of a task; else ``""``.
    :param cgroup: of a foreign pod; ``""``: its task had ended.
    :param turns: how often it had the CPU meanwhile.
    :param longest_ns: its longest turn, as far as it lay in a wait.
    """

    claim: str
    cpu: CpuId
    owner: CulpritClass
    name: str
    turns: int
    total_ns: int
    longest_ns: int
    cgroup: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBins:
    """What one claim ran on one CPU, and what it waited for there, in equal bins of the observation.

    The three tuples are as long as each other; bins in which it neither ran nor waited are left out.

    :param start_at_ns: where bin 0 begins (at most a bin before the observation does).
    :param bins: their numbers, ascending.
    :param run_us: CPU time in each, never more than a bin.
    :param wait_us: what its tasks waited for, all together; of a wait longer than a bin the rest is in the bins before.
    """

    claim: str
    cpu: CpuId
    bin_ns: int
    start_at_ns: int
    bins: tuple[int, ...]
    run_us: tuple[int, ...]
    wait_us: tuple[int, ...]
