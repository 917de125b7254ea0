"""The priority of our own threads: a watch on a machine whose CPUs are all busy waits for one like any other program.

What is started meanwhile (canaries, a container tool) has the usual priority: the kernel takes ours from children.

Source: sched(7), setpriority(2), sched_setscheduler(2).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import HostUnsupportedError

NICE = range(-20, 20)
REALTIME = range(1, 100)
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """What was asked for. :param nice: niceness. :param realtime: priority of SCHED_RR. ``None``: as it was started."""

    nice: int | None = None
    realtime: int | None = None

    def apply(self) -> None:
        """Give it to every thread of this process that there is now.

        :raises HostUnsupportedError: the kernel refuses.
        """
        if self.nice is None and self.realtime is None:
            return
        try:
            for name in os.listdir(_TASKS):  # noqa: PTH208 - a name is all that is wanted
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    self._apply(int(name))
        except OSError as error:
            raise HostUnsupportedError(f"{self}: {error.strerror}: {self._remedy}") from None

    def _apply(self, tid: int) -> None:
        if self.realtime is not None:
            os.sched_setscheduler(tid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(self.realtime))
        elif self.nice is not None:
            os.sched_setscheduler(tid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, tid, self.nice)

    @property
    def _remedy(self) -> str:
        needs = "it needs CAP_SYS_NICE"
        return f"{needs}, and with cgroup v1 time in cpu.rt_runtime_us of its own cgroup" if self.realtime else needs

    def __str__(self) -> str:
        return f"--rt {self.realtime}" if self.realtime is not None else f"--nice {self.nice}"
