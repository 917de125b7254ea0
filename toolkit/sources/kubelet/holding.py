"""What the subjects of a followed node hold now, and what of it they must give back.

What a container of the shared pool holds is what the kubelet asked for last; the state file is ahead of that by up to a
reconcile period. While the runtime does not say what it was asked for, that is what it was when something knew, or what
the state file said then: the kubelet brings it up to date whether anything asks or not.

A kubelet removes what a pod had from its state at the next reconcile once the pod is not active to it. It may do so
while the container still runs (a slow termination), and give the CPUs to another pod then: two owners at once, which no
reconcile repairs. Source: docs/facts.md K-kubelet-1, K-kubelet-2, K-kubelet-11, K-kubelet-12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import FOREVER_NS, Held, Why
from toolkit.sources.kubelet.claims import Promise
from toolkit.sources.kubelet.control_words import ControlWords
from toolkit.sources.kubelet.followed import Followed, Holds
from toolkit.sources.kubelet.given_up import had_own
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.still import asked_of


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
        if claim.pinned_by:  # What the pool wins, and a state file that is silent, are nothing to its program's word.
            freed, silent = CpuSet(), False
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """:param claims: of all that run. :param owed: what of their sets they must give back."""

    claims: tuple[Claim, ...]
    owed: tuple[Held, ...]


class InForce:
    """Of one node, from reading to reading."""

    def __init__(self) -> None:
        self._reconciles = Reconciles()
        self._settled: tuple[Followed, CpuSet, Holding] | None = None
        """The last reading and what the pool may have, where nothing waits for a reconcile: no time is in it."""

    def of(
        self,
        now: Followed,
        freed: CpuSet,
        taken: Mapping[str, CpuSet],
        within_ns: int,
        now_ns: int,
        lost_ns: int | None,
        *,
        silent: bool = False,
    ) -> Holding:
        """Return it.

        :param freed, within_ns, lost_ns, silent: see :meth:`Reconciles.in_force`.
        :param taken: see :meth:`Owned.taken`.
        """
        if self._settled is not None and self._settled[0] == now and self._settled[1] == freed and not taken:
            return self._settled[2]
        claims, owed = [], []
        for one in now.held:
            claim, back = self._reconciles.in_force(one, freed, within_ns, now_ns, lost_ns, silent=silent)
            if mine := taken.get(claim.name):
                # Of an empty pool it has nothing else.
                claim, back = (claim, back & mine) if claim.cpus else (replace(claim, cpus=mine), mine)
            claims.append(claim)
            if back:
                since_ns = self._reconciles.since_ns(claim.cgroup)
                why, known = Why.TAKEN if mine else Why.OWED, -FOREVER_NS if since_ns is None else since_ns
                owed.append(Held(claim=claim.name, cgroup=claim.cgroup, cpus=back, why=why, from_ns=known))
        self._reconciles.keep(claim.cgroup for claim in claims)
        found = Holding(claims=tuple(claims), owed=tuple(owed))
        self._settled = None if taken or silent or self._reconciles.late else (now, freed, found)
        return found


class Owned:
    """Of one node, from its first reading on."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], CpuSet] = {}
        """Exclusive CPUs of containers that were seen to run, by pod and container."""
        self._pods: frozenset[str] = frozenset()
        """Pods with CPUs in the state whose sandbox was seen ready: whether a container of it was seen or not."""
        self._own: dict[str, CpuSet] = {}
        """CPUs that lives which run now had as their own when the state file named them last, by id."""
        self._doubly: frozenset[str] = frozenset()
        """Ids of those that were found to run on CPUs of another pod."""
        self._free: tuple[Followed, CpuSet] | None = None
        self._lost: tuple[Followed, dict[str, tuple[Promise, CpuSet]]] | None = None
        """What runs on which CPUs that were its own and are another pod's, by id."""

    def freed(self, now: Followed) -> CpuSet:
        """CPUs that the state file still gives to containers whose pod has ended: the pool may have them at any moment.

        A pod whose sandbox is ready keeps what it has, whatever its containers do: they wait for their next start.
        """
        if self._free is not None and self._free[0] == now:
            return self._free[1]  # What owned what is known by then: asked again, it would be answered alike.
        cpu = now.found.cpu
        entries = {(e.pod_uid, e.container): parsed(e.cpus) or CpuSet() for e in (cpu.entries if cpu else ())}
        alive = {_key(p): p.state or CpuSet() for p in now.running if p.in_state}
        self._owners = {key: cpus for key, cpus in self._owners.items() if entries.get(key) == cpus} | alive
        kept = {one.pod_uid for one in now.reading.containers or () if one.sandbox and one.ready}
        self._pods = frozenset(uid for uid, _ in entries if uid in self._pods or uid in kept)
        owners = self._owners | {key: cpus for key, cpus in entries.items() if key[0] in self._pods}
        gone = [cpus for key, cpus in owners.items() if key not in alive and key[0] not in kept]
        self._free = now, CpuSet.union(gone) - CpuSet.union(alive.values())
        return self._free[1]

    def taken(self, now: Followed, words: ControlWords) -> dict[str, CpuSet]:
        """Return by claim name CPUs that a container runs on, which were its own and which another pod's runs on as its
        own. One that was promised them and waits for the end of the first, as a static pod's next version, has not got
        them yet.

        No time is allowed for it. The state file was read first, then the runtime, then whether a task is there: what
        ended before the CPUs were given away runs no more by the runtime's word, or has no task although the runtime,
        whose shim's report waits for a CPU, still lists it as running.
        """
        if self._lost is None or self._lost[0] != now:  # Else what owned what is known by then, as above.
            self._lost = now, self._lost_to_others(now)
        found = self._lost[1]
        self._doubly = frozenset(
            key for key, (p, _) in found.items() if key in self._doubly or words.has_tasks(p.subject.cgroup)
        )
        doubly = (found[key] for key in self._doubly)
        return {p.claim.name: cpus for p, cpus in doubly if p.claim is not None}

    def _lost_to_others(self, now: Followed) -> dict[str, tuple[Promise, CpuSet]]:
        running = {p.subject.id: p for p in now.running if p.subject.runtime is not None}
        self._own = {key: cpus for key, cpus in self._own.items() if key in running}
        self._own |= {key: p.state for key, p in running.items() if p.in_state and p.state}
        # What was given up before anything followed the node was never seen to own anything.
        unseen = {key: had_own(p, now.found) for key, p in running.items() if key not in self._own}
        self._own |= {key: cpus for key, cpus in unseen.items() if cpus}
        own = [(p.subject.pod_uid, p.state) for p in running.values() if p.in_state and p.state]
        return {key: (p, cpus) for key, p in running.items() if (cpus := self._not_its_own(p, own))}

    def _not_its_own(self, promise: Promise, owners: list[tuple[str, CpuSet]]) -> CpuSet:
        own = self._own.get(promise.subject.id)
        if own is None or promise.in_state or promise.state is None:
            return CpuSet()
        others = CpuSet.union(cpus for uid, cpus in owners if uid != promise.subject.pod_uid)
        return own & others & (asked_of(promise) or CpuSet())


def _key(promise: Promise) -> tuple[str, str]:
    return promise.subject.pod_uid, promise.subject.container
