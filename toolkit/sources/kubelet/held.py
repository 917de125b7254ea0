"""What the subjects of a followed node hold now, and what of it they must give back.

What a container of the shared pool holds is what the kubelet asked for last; the state file is ahead of that by up to a
reconcile period. While the runtime does not say what it was asked for, that is what it was when something knew, or what
the state file said then: the kubelet brings it up to date whether anything asks or not.

A kubelet removes what a pod had from its state at the next reconcile once the pod is not active to it. It may do so
while the container still runs (a slow termination), and give the CPUs to another pod then: two owners at once, which no
reconcile repairs. Source: docs/facts.md K-kubelet-1, K-kubelet-2, K-kubelet-11, K-kubelet-12.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolkit.kubernetes.feature_gates import POD_LEVEL_RESOURCES
from toolkit.model.claims import Claim, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import Held, Why
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_reading import MissingPart, NodeReading, RuntimeContainer
from toolkit.model.state_files import CpuEntry, KnownContainer, StateReading
from toolkit.sources.json_parts import parsed
from toolkit.sources.kubelet.evidence import asked_cpus, had_own, layers_of, state_readings
from toolkit.sources.kubelet.files.cgroups import ControlWords
from toolkit.sources.kubelet.machine import STATIC
from toolkit.sources.kubelet.pod_paths import class_above
from toolkit.sources.kubelet.pods import allocations, manifests, may_wait, requested
from toolkit.sources.kubelet.promises.node import NodeClaims
from toolkit.sources.kubelet.promises.pod import Promise, own_cpus
from toolkit.sources.kubelet.subjects import Lost, Subject, lost, rows_of

CREATED = "created"
"""Its runtime may sit in its cgroup already, before it is pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What one subject that runs holds.

    :param claim: where the layers agree. :param state: CPUs by the state file; ``None``: it does not decide on them.
    :param asked: what the kubelet asked for last; ``None``: that, or it is not known.
    """

    claim: Claim
    state: CpuSet | None = None
    asked: CpuSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A reading and its claims, and what follows from them: made by :func:`followed_of`, equal where these are.

    :param reading, found: a reading and its claims.
    :param ended: ids of containers that the runtime lists as ended, which the reading leaves out.
    :param gone: what runs and whose cgroup is not there. :param ids: of the runtime's containers whose cgroup is.
    :param subjects: those of :attr:`running`, by id. :param beside: claims of cgroups that run no tasks.
    :param agree: subjects whose layers all say the same, with their number among those that run.
    :param words: what each layer says; when it was read is not in it.
    """

    reading: NodeReading
    found: NodeClaims
    ended: frozenset[str]
    gone: tuple[Lost, ...] = field(compare=False)
    ids: frozenset[str] = field(compare=False)
    running: tuple[Promise, ...] = field(compare=False)
    subjects: dict[str, Subject] = field(compare=False)
    held: tuple[Holds, ...] = field(compare=False)
    beside: tuple[Claim, ...] = field(compare=False)
    forgotten: tuple[Held, ...] = field(compare=False)
    making: tuple[Held, ...] = field(compare=False)
    missing: tuple[MissingPart, ...] = field(compare=False)
    agree: tuple[tuple[int, str], ...] = field(compare=False)
    words: tuple[tuple[str, LayerView], ...] = field(compare=False)

    def layers(self, at_ns: int, asked_ns: Mapping[str, int], *, silent: bool) -> tuple[LayerView, ...]:
        """Return what each layer says.

        :param at_ns: when the reading began. :param asked_ns: when each container's status was asked for, by id.
        :param silent: the state file does not say what holds.
        """
        return tuple(
            LayerView(
                claim=view.claim,
                layer=view.layer,
                at_ns=asked_ns.get(container, at_ns) if view.layer is Layer.RUNTIME else at_ns,
                cpus=view.cpus,
                mems=view.mems,
                api_cpus=view.api_cpus,
            )
            for container, view in self.words
            if not (silent and view.layer is Layer.CHECKPOINT)
        )


def followed_of(reading: NodeReading, found: NodeClaims, ended: frozenset[str] = frozenset()) -> Followed:
    """Return what follows. :param ended: as in :class:`Followed`."""
    gone = lost(reading, [promise.subject for promise in found.promises])
    listed = ended | {entry.id for entry in reading.containers or ()}
    running = _plain_names([promise for promise in found.promises if _runs(promise, reading, listed)])
    lives, ids = {one.name for one in gone}, {p.claim.name: p.subject.id for p in running if p.claim is not None}
    here = (promise.subject for promise in found.promises if promise.subject.runtime is not None)
    made = (promise.subject for promise in found.promises if _is_made(promise))
    return Followed(
        reading=reading,
        found=found,
        ended=ended,
        gone=gone,
        ids=frozenset(subject.id for subject in here if not subject.gone),
        running=running,
        subjects={p.subject.id: p.subject for p in running},
        held=tuple(_held(promise) for promise in running),
        beside=tuple(followed(claim) for claim in found.claims.claims if not claim.kind.carries_tasks),
        forgotten=forgotten(reading, found, running),
        making=tuple(Held(claim=one.name, cgroup=one.cgroup, why=Why.BEING_MADE) for one in made),
        missing=tuple(part for part in found.missing if part.part not in lives),
        agree=tuple((index, p.subject.id) for index, p in enumerate(running) if _agrees(p)),
        words=tuple((ids[view.claim], view) for view in views(running, reading)),
    )


def followed(claim: Claim) -> Claim:
    """Nothing says that the pods of a node compete all the time."""
    return replace(claim, contended=False)


def _held(promise: Promise) -> Holds:
    assert promise.claim is not None
    claim, state = followed(promise.claim), promise.state
    if claim.pinned_by and claim.cpus and claim.isolation is Isolation.HOST:
        # A set that others share follows what its program decides, soon after: nothing says when it has.
        return Holds(claim=claim, state=claim.cpus)
    if claim.cpus is None or claim.isolation is not Isolation.HOST or not state:
        return Holds(claim=claim)
    return Holds(claim=replace(claim, cpus=state), state=state, asked=asked_cpus(promise))


def _agrees(promise: Promise) -> bool:
    asked = asked_cpus(promise)
    own = promise.subject.files.get("cpuset.cpus", "")
    return asked is not None and asked == promise.state and parsed(own) == asked


def _plain_names(running: Sequence[Promise]) -> tuple[Promise, ...]:
    """Name subjects by pod and container alone where that is enough among those that run."""
    plain = [p.subject.plain_name for p in running]
    count = Counter(plain)
    return tuple(
        replace(promise, claim=replace(promise.claim, name=name))
        if promise.claim and count[name] == 1 and promise.claim.name != name
        else promise
        for promise, name in zip(running, plain, strict=True)
    )


def _runs(promise: Promise, reading: NodeReading, listed: frozenset[str]) -> bool:
    """Whether a subject is watched: it runs. One that is being made has no set yet, one that ended keeps its entry.

    :param listed: ids of all containers of the runtime. A monitor is there before its container runs, and a moment
        after that has ended; one of a container that is in no list is a cgroup that is called so, and no more.
    """
    if promise.claim is None:
        return False
    if promise.subject.monitored and promise.subject.monitored in listed:
        return True
    runtime = promise.subject.runtime
    if runtime is None:
        # Without the runtime's word a cgroup is all there is; with it, one that it does not list is being made.
        return reading.containers is None
    return runtime.runs


def _is_made(promise: Promise) -> bool:
    runtime = promise.subject.runtime
    return runtime is not None and runtime.state == CREATED


def views(running: Sequence[Promise], reading: NodeReading) -> list[LayerView]:
    """Return what each layer says of the workloads; when it was read is not in it."""
    found, rows = [], rows_of(reading)
    for promise in running:
        if promise.subject.kind in (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL):
            found += layers_of(promise, reading, rows)
    return found


def states(reading: NodeReading, found: NodeClaims, *, lost: bool) -> tuple[StateReading, ...]:
    """A pod whose sandbox is ready owns what it was given, although its containers do not run yet, or wait.

    One that has no sandbox yet waits for its volumes if it has a folder, and may be a static pod that waits for the
    version before it to end: no time bounds either. Where nothing lists the pods and the folders were not read it is
    not known what waits, so what owns the CPUs is not known either.

    Whose sandbox runs no more has ended. When the kubelet takes what it has depends on what the kubelet still knows of
    it: v1.20 was seen to wait for the next admission. It is said, and is a leak when the runtime lists it no more. A
    sandbox of before the machine's start ended with that: its pod waits for its next one.

    :param lost: that there is no CPU manager's file is a word, too, where its configuration says that one is due.
    """
    due = lost and not found.settings.problem and found.settings.config.cpu_manager_policy == STATIC
    if found.cpu is None and found.memory is None and not due:
        return ()
    online = parsed(reading.online or "") or CpuSet()
    listed = [entry for entry in reading.containers or () if entry.sandbox]
    pods, waits = {entry.pod_uid for entry in listed}, {e.pod_uid for e in listed if e.ready or _older(e)}
    idle = tuple(
        KnownContainer(
            pod_uid=entry.pod_uid,
            container=entry.container,
            running=False,
            ended=entry.pod_uid in pods - waits,
            waiting=entry.pod_uid not in pods,
        )
        for entry in ((*found.cpu.entries, *found.cpu.pods) if found.cpu else ())
        if entry.pod_uid in pods or _waits(entry, reading)
    )
    known = reading.pods is not None or reading.pod_folders is not None
    return tuple(
        replace(one, containers=_with(idle, one.containers) if known else None)
        for one in state_readings(reading, found, online)
    )


def _with(
    idle: Sequence[KnownContainer], listed: tuple[KnownContainer, ...] | None
) -> tuple[KnownContainer, ...] | None:
    return None if listed is None else (*listed, *(one for one in idle if not _known(one, listed)))


def _waits(entry: CpuEntry, reading: NodeReading) -> bool:
    return entry.pod_uid in (reading.pod_folders or ()) or may_wait(reading, entry.pod_uid, entry.container)


def _older(sandbox: RuntimeContainer) -> bool:
    """Whether the machine has started since it was made, by the clock of the day."""
    made_ns = sandbox.created_at_ns
    return made_ns is not None and 0 < made_ns < time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _known(one: KnownContainer, known: Sequence[KnownContainer]) -> bool:
    return any(entry.pod_uid == one.pod_uid and one.container in ("", entry.container) for entry in known)


def forgotten(reading: NodeReading, found: NodeClaims, running: Sequence[Promise]) -> tuple[Held, ...]:
    """Return the containers of the pool that ask for CPUs of their own and have a set that the state file does not name
    any more: it has forgotten them.
    """
    apart = [(promise, cpus) for promise in running if (cpus := _own_set(promise))]
    if not apart or found.settings.problem or found.settings.config.cpu_manager_policy != "static":
        return ()
    gates = found.settings.config.feature_gates
    asked_for = requested(reading, budgets=gates[POD_LEVEL_RESOURCES])
    allocated, here = allocations(reading), manifests(reading)
    rows = []
    for promise, cpus in apart:
        subject, uid = promise.subject, promise.subject.pod_uid
        pod = asked_for.pods.get(uid) if uid in allocated or uid in here else None
        container = pod.container(subject.container) if pod is not None and uid not in asked_for.in_force else None
        if pod is None or container is None or class_above(subject.cgroup):
            continue
        count = own_cpus(pod, container, gates)
        if count and promise.claim is not None:
            name, certain = promise.claim.name, uid in allocated
            rows.append(Held(claim=name, cpus=cpus, why=Why.FORGOTTEN, asks=count, certain=certain))
    return tuple(rows)


def _own_set(promise: Promise) -> CpuSet:
    """Return what a container of the pool has that is not the pool; nothing: it has that, or it is not known."""
    if promise.in_state or promise.subject.kind is not SubjectKind.CONTAINER or not promise.state:
        return CpuSet()
    has = asked_cpus(promise)
    has = parsed(promise.subject.files.get("cpuset.cpus", "")) if has is None else has
    return CpuSet() if not has or has == promise.state else has


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """:param claims: of all that run. :param owed: what of their sets they must give back."""

    claims: tuple[Claim, ...]
    owed: tuple[Held, ...]


class InForce:
    """What the lives of one node hold now, from reading to reading."""

    def __init__(self) -> None:
        self._late: dict[str, Held] = {}
        """What lives have by their runtime beyond their state, and since when, by cgroup: a name passes from one life
        to the next while both run. Also what is too late to be given back in time."""
        self._asked: dict[str, CpuSet] = {}
        """What each life was asked to have, as far as anything knows, by cgroup."""
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

        :param freed: CPUs that the pool may have at any moment. :param taken: see :meth:`Owned.taken`.
        :param within_ns: how long a reconcile may take.
        :param lost_ns: when a pool that is another one than at the last reading had become so; ``None``: now.
        :param silent: the state is the file's last word, and it says nothing now: what a container is asked to have
            since then is a newer one, and nothing has promised it away.
        """
        if self._settled is not None and self._settled[0] == now and self._settled[1] == freed and not taken:
            return self._settled[2]
        claims, owed, since_ns = [], [], now_ns if lost_ns is None else lost_ns
        for one in now.held:
            claim, back = self.life(one, freed, within_ns, now_ns, since_ns, silent=silent)
            mine = taken.get(claim.name)
            if mine:
                # Of an empty pool it has nothing else.
                claim, back = (claim, back & mine) if claim.cpus else (replace(claim, cpus=mine), mine)
            claims.append(claim)
            if back:
                late = self._late.get(claim.cgroup) or Held(claim=claim.name, cgroup=claim.cgroup)
                owed.append(replace(late, cpus=back, why=Why.TAKEN if mine else Why.OWED))
        kept = {claim.cgroup for claim in claims}
        self._late = {cgroup: row for cgroup, row in self._late.items() if cgroup in kept}
        self._asked = {cgroup: asked for cgroup, asked in self._asked.items() if cgroup in kept}
        found = Holding(claims=tuple(claims), owed=tuple(owed))
        self._settled = None if taken or silent or self._late else (now, freed, found)
        return found

    def life(
        self, held: Holds, freed: CpuSet, within_ns: int, now_ns: int, lost_ns: int, *, silent: bool
    ) -> tuple[Claim, CpuSet]:
        """Return what one life holds now, and what of it must be given back."""
        claim, state = held.claim, held.state
        if state is None:
            return claim, CpuSet()
        if claim.pinned_by:  # What the pool wins, and a state file that is silent, are nothing to its program's word.
            freed, silent = CpuSet(), False
        asked = self._asked.get(claim.cgroup, state) if held.asked is None else held.asked
        self._asked[claim.cgroup] = asked
        if asked == state:
            self._late.pop(claim.cgroup, None)
            return replace(claim, cpus=state | freed) if freed else claim, CpuSet()
        before = self._late.get(claim.cgroup)
        if before is None and silent:
            return replace(claim, cpus=state | asked | freed), CpuSet()
        since_ns, more = lost_ns if before is None else before.from_ns, asked - state
        self._late[claim.cgroup] = Held(
            claim=claim.name, cgroup=claim.cgroup, cpus=more, why=Why.OWED, from_ns=since_ns
        )
        # What is seen for the first time and is too late by then is said once: it was not given back in time.
        if before is not None and now_ns - since_ns > within_ns:
            if held.asked is None:
                self._asked[claim.cgroup] = state  # Nothing says so, and nothing says that it has not.
            return replace(claim, cpus=state | freed), CpuSet()
        return replace(claim, cpus=state | asked | freed), more - freed


class Owned:
    """Which containers of one node own, or owned, CPUs: from its first reading on. The timeline knows claims, and these
    are by pod and container, also such as run no more, or never had a claim.
    """

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
        return own & others & (asked_cpus(promise) or CpuSet())


def _key(promise: Promise) -> tuple[str, str]:
    return promise.subject.pod_uid, promise.subject.container
