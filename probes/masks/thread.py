"""What one thread may use, as it was read at one moment.

Source: proc(5) (Name, Tgid, Cpus_allowed_list, Mems_allowed_list); sched_getscheduler(2).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from probes.masks.status import Masks, comm_of, parsed
from toolkit import presence
from toolkit.host.kernel_file import read_record

_POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
"""Source: include/uapi/linux/sched.h."""


class Thread(NamedTuple):
    """A thread of the process ``pid``; ``comm`` as names are spelt."""

    tid: int
    pid: int
    comm: str
    masks: Masks
    policy: str


def alike(threads: Iterable[Thread]) -> tuple[tuple[Thread, ...], ...]:
    """Group threads of which all is the same but their ids, each group by these."""
    groups: dict[tuple[int, str, int, int, str], list[Thread]] = {}
    for one in threads:
        key = (one.pid, one.comm, one.masks.cpus.mask, one.masks.mems.mask, one.policy)
        groups.setdefault(key, []).append(one)
    return tuple(tuple(sorted(group)) for group in groups.values())


def policy_name(number: int) -> str:
    """Return a scheduling policy by name; empty if it is none that is known."""
    # The flag that children get the default policy is no policy.
    return _POLICIES.get(number & ~os.SCHED_RESET_ON_FORK, "")


def policy_of(tid: int) -> str:
    """Return a thread's scheduling policy by name; empty if it is gone, or the policy is none that is known."""
    try:
        return policy_name(os.sched_getscheduler(tid))
    except OSError:
        return ""


class UnreadableError(Exception):
    """The masks could not be read although the threads are there."""


class Proc:
    """Threads as ``/proc`` shows them."""

    def __init__(self, root: Path) -> None:
        self._root, self._proc = root, str(root / "proc")

    def thread(self, tid: int) -> Thread | None:
        """Read a thread; ``None`` if it is gone, or just dying."""
        data = read_record(f"{self._proc}/{tid}/status")
        found = None if data is None else parsed(data)
        if found is None:
            return None
        name, tgid, masks = found
        return Thread(tid, int(tgid), comm_of(name), masks, policy_of(tid))

    def check(self) -> None:
        """Threads that end look like a ``/proc`` that shows nothing; process 1 is always there.

        :raises UnreadableError: it is not.
        """
        if not presence.exists(self._root / "proc/1/status"):
            raise UnreadableError(f"{self._proc} cannot be read")
