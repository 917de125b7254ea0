"""What containers of the shared pool hold between a change of the state file and the kubelet's reconcile.

What the kubelet asked for last holds; the state file is ahead of that by a reconcile period. While the runtime does not
say what it was asked for, that is what it was when something knew, or what the state file said then: the kubelet brings
it up to date whether anything asks or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.followed_claims import Holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A container that the kubelet has not asked a new set for yet. :param since_ns: CLOCK_MONOTONIC."""

    state: CpuSet
    asked: CpuSet
    since_ns: int


class PoolChanges:
    """When the shared pool became what it is, by the time at which the kubelet wrote its file: the file is read later.

    The change was that write or one before it, since a write says all. No time of before the last reading that said
    something else is believed, nor one that is to come: the clock of the day may be set.
    """

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None
        """The pool at the last reading, and when that began (CLOCK_MONOTONIC)."""

    def at(self, pool: str | None, ago_s: float | None, now_ns: int) -> int | None:
        """Return when it became so, if that was since the last reading or before the first; else ``None``.

        :param pool: as the file says now; ``None``: it does not speak. :param ago_s: how long ago it was written.
        """
        before = self._last
        if pool is None:
            return None
        self._last = pool, now_ns
        if ago_s is None or (before is not None and before[0] == pool):
            return None
        at_ns = now_ns - max(0, int(ago_s * 1e9))
        return at_ns if before is None else max(before[1], at_ns)


class Reconciles:
    """Of one node, from reading to reading."""

    def __init__(self) -> None:
        self.late: dict[str, Late] = {}
        """By cgroup: a name passes from one life to the next while both run."""
        self._asked: dict[str, CpuSet] = {}
        """What each claim's container was asked to have, as far as anything knows."""

    def in_force(
        self,
        held: Holds,
        freed: CpuSet,
        within_ns: float,
        now_ns: int,
        lost_ns: int | None = None,
        *,
        silent: bool = False,
    ) -> tuple[Claim, CpuSet]:
        """Return what holds now, and what of it must be given back.

        :param freed: CPUs that the pool may have at any moment. :param within_ns: how long a reconcile may take.
        :param lost_ns: when a pool that is another one than at the last reading had become so; ``None``: now.
        :param silent: the state is the file's last word, and it says nothing now: what a container is asked to have
            since then is a newer one, and nothing has promised it away.
        """
        claim, state = held.claim, held.state
        if state is None:
            return claim, CpuSet()
        asked = self._asked.get(claim.cgroup, state) if held.asked is None else held.asked
        self._asked[claim.cgroup] = asked
        if asked == state:
            self.late.pop(claim.cgroup, None)
            return replace(claim, cpus=state | freed) if freed else claim, CpuSet()
        late = self.late.get(claim.cgroup)
        new = late is None
        if new and silent:
            return replace(claim, cpus=state | asked | freed), CpuSet()
        if late is None or (late.state, late.asked) != (state, asked):
            since_ns = late.since_ns if late is not None else now_ns if lost_ns is None else lost_ns
            late = self.late[claim.cgroup] = Late(state=state, asked=asked, since_ns=since_ns)
        # What is seen for the first time and is too late by then is said once: it was not given back in time.
        if now_ns - late.since_ns > within_ns and not new:
            if held.asked is None:
                self._asked[claim.cgroup] = state  # Nothing says so, and nothing says that it has not.
            return replace(claim, cpus=state | freed), CpuSet()
        return replace(claim, cpus=state | asked | freed), asked - state - freed

    def since_ns(self, cgroup: str) -> int | None:
        """Return since when a life owes what it must give back; ``None``: it owes nothing."""
        late = self.late.get(cgroup)
        return None if late is None else late.since_ns

    def keep(self, cgroups: Iterable[str]) -> None:
        """Forget all lives but these."""
        kept = frozenset(cgroups)
        self.late = {cgroup: late for cgroup, late in self.late.items() if cgroup in kept}
        self._asked = {cgroup: asked for cgroup, asked in self._asked.items() if cgroup in kept}
