"""What the claims of a reading are to one that follows the node: worked out once for all readings that say the same.

What depends on the moment, or on what was read before, is not here: :mod:`toolkit.sources.kubelet.follow`. Pure.
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
from toolkit.sources.kubelet.allocated import allocations
from toolkit.sources.kubelet.claims import NodeClaims, Promise
from toolkit.sources.kubelet.evidence import layers_of, state_readings
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.lost import Lost, lost
from toolkit.sources.kubelet.modelled import STATIC
from toolkit.sources.kubelet.owners import own_cpus
from toolkit.sources.kubelet.parents import class_of
from toolkit.sources.kubelet.pod_rows import rows_of
from toolkit.sources.kubelet.requests import requested
from toolkit.sources.kubelet.static_pods import manifests, may_wait
from toolkit.sources.kubelet.still import asked_of
from toolkit.sources.kubelet.subjects import Subject

RUNNING = ("running", "")
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
    return Holds(claim=replace(claim, cpus=state), state=state, asked=asked_of(promise))


def _agrees(promise: Promise) -> bool:
    asked = asked_of(promise)
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
    return runtime.state in RUNNING


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
    """Return those of the promises in force that are so."""
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
        if pod is None or container is None or class_of("/".join(subject.cgroup.split("/")[:-2])):
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
    has = asked_of(promise)
    has = parsed(promise.subject.files.get("cpuset.cpus", "")) if has is None else has
    return CpuSet() if not has or has == promise.state else has
