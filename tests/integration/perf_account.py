"""perf's account of a task on a CPU, and how much of it the ledger cannot know: where a bound of time comes from.

Some kernels hide threads from their tracepoints: neither the switch to such a thread nor the one from it is reported
(probes/README.md, "Switches that are not reported"). Whom it interrupts loses what it ran since the sampler's last
tick: one period at most, each time. perf counts these switches, the ledger does not. There are no more of them than
times that hidden threads came onto a CPU, by their own ``schedstat``: where no thread is hidden, nothing is allowed.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from probes.observer import Observer
from probes.options import ObserveOptions
from tests.integration.probe_lab import TaskClock, TaskSwitches, stolen_ns

PERIOD_NS = -(-(10**9) // ObserveOptions().sampler_hz)
"""Of the sampler."""


def _schedstat() -> dict[int, tuple[int, int]]:
    """Return how long each thread of the machine has been on a CPU so far, and how often it came onto one."""
    found = {}
    for name in glob.iglob("/proc/[0-9]*/task/[0-9]*/schedstat"):  # noqa: PTH207 - Path.glob() fails where a folder goes
        with contextlib.suppress(OSError):  # gone
            ran, _, times = Path(name).read_text().split()
            found[int(Path(name).parent.name)] = (int(ran), int(times))
    return found


class HiddenThreads:
    """What threads that this kernel hides from its tracepoints did from ``__init__`` to ``read``."""

    def __init__(self) -> None:
        self._before = _schedstat()
        self.run_ns = self.arrivals = 0

    def read(self, seen: Callable[[int], bool]) -> Self:
        """Take what they did until now; ``seen`` says whether the ledger was ever told of a thread."""
        moved = [
            (ran - self._before.get(tid, (0, 0))[0], times - self._before.get(tid, (0, 0))[1])
            for tid, (ran, times) in _schedstat().items()
            if not seen(tid)
        ]
        self.run_ns, self.arrivals = (sum(column) for column in zip(*moved, strict=True)) if moved else (0, 0)
        return self


class PerfAccount:
    """How long a task, its later threads and children were on a CPU, and how often they were switched out there."""

    def __init__(self, pid: int, cpu: int, observer: Observer) -> None:
        self.clock, self.switches, self.hidden = TaskClock(pid, cpu), TaskSwitches(pid, cpu), HiddenThreads()
        self._everywhere = [self.clock, *(TaskClock(pid, other) for other in os.sched_getaffinity(0) - {cpu})]
        self._observer, self._cpu, self._stolen_ns = observer, cpu, stolen_ns(cpu)
        self.on_cpu = self.switched_out = self.unseen_ns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for clock in self._everywhere:
            clock.__exit__()
        self.switches.__exit__()

    def read_ns(self) -> int:
        """Return the time so far."""
        return self.clock.read_ns()

    def close(self) -> None:
        """Take the sums, after the window was closed."""
        self.on_cpu, self.switched_out = self.clock.read_ns(), self.switches.read()
        self.hidden.read(self._observer.ledger.seen)

    def ended(self, charged_ns: int) -> None:
        """Take what perf has not seen of its task and that one's children, when all have ended.

        :param charged_ns: CPU time that they were charged with: theirs from before perf was attached is in it, too.
        """
        stolen = stolen_ns(self._cpu) - self._stolen_ns
        self.unseen_ns = max(0, charged_ns - sum(clock.read_ns() for clock in self._everywhere)) + stolen

    def until_death_ns(self, died: int) -> float:
        """Return how long tasks can have been on the CPU until they were switched out for the last time.

        perf lets go of a task before that, and giving back what it has takes as long as the machine is busy. What perf
        did not see of any of them is no longer than what they were charged with beyond its account, or what the host
        took from the CPU.
        """
        return self.on_cpu * 1.05 + max(died * 200_000, self.unseen_ns)

    def missed(self, counted: int, *, switched_out: int | None = None, died: int = 0) -> int:
        """Return how often hidden threads interrupted it at most.

        :param counted: switches out that the ledger counted.
        :param switched_out: perf's, where only a part of its time is meant.
        :param died: tasks that died there: perf lets go of a task before its last switch.
        """
        out = self.switched_out if switched_out is None else switched_out
        return max(0, min(out + died - counted, self.hidden.arrivals))

    def lost_ns(self, counted: int, *, switched_out: int | None = None, died: int = 0) -> int:
        """Return how much of its time the ledger cannot know: see :meth:`missed`."""
        return PERIOD_NS * self.missed(counted, switched_out=switched_out, died=died)
