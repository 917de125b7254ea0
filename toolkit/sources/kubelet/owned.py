"""What owned CPUs on a node that is followed, and owns them no more by the state file or by having ended.

A kubelet removes what a pod had from its state at the next reconcile once the pod is not active to it. It may do so
while the container still runs (a slow termination), and give the CPUs to another pod then: two owners at once, which no
reconcile repairs. Source: docs/facts.md K-kubelet-2, K-kubelet-11, K-kubelet-12.
"""

from __future__ import annotations

from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.claims import Promise
from toolkit.sources.kubelet.control_words import ControlWords
from toolkit.sources.kubelet.followed_claims import Followed
from toolkit.sources.kubelet.given_up import had_own
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.still import asked_of


class Owned:
    """Of one node, from its first reading on."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], CpuSet] = {}
        """Exclusive CPUs of containers that were seen to run, by pod and container."""
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
        if self._free is not None and self._free[0] is now:
            return self._free[1]  # What owned what is known by then: asked again, it would be answered alike.
        cpu = now.found.cpu
        entries = {(e.pod_uid, e.container): parsed(e.cpus) or CpuSet() for e in (cpu.entries if cpu else ())}
        alive = {_key(p): p.state or CpuSet() for p in now.running if p.in_state}
        self._owners = {key: cpus for key, cpus in self._owners.items() if entries.get(key) == cpus} | alive
        kept = {one.pod_uid for one in now.reading.containers or () if one.sandbox and one.ready}
        gone = [cpus for key, cpus in self._owners.items() if key not in alive and key[0] not in kept]
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
        if self._lost is None or self._lost[0] is not now:  # Else what owned what is known by then, as above.
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
