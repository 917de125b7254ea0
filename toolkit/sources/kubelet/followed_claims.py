"""What the claims of a reading are to one that follows the node: worked out once for all readings that say the same.

What depends on the moment, or on what was read before, is not here: :mod:`toolkit.sources.kubelet.follow`. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import Held, Why
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_reading import NodeReading
from toolkit.model.state_files import CpuStateFile, StateReading
from toolkit.sources.kubelet.claims import NodeClaims, Promise
from toolkit.sources.kubelet.followed_words import states, views
from toolkit.sources.kubelet.forgotten import forgotten
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.lost import lost
from toolkit.sources.kubelet.still import asked_of

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


class Followed:
    """:param reading, found: a reading and its claims. All below is made of these and of nothing else.

    :param ended: ids of containers that the runtime lists as ended, which the reading leaves out.
    """

    def __init__(self, reading: NodeReading, found: NodeClaims, ended: frozenset[str] = frozenset()) -> None:
        self.reading, self.found = reading, found
        self.gone = lost(reading, [promise.subject for promise in found.promises])
        self.ids = frozenset(
            p.subject.id for p in found.promises if p.subject.runtime is not None and not p.subject.gone
        )
        """Ids of the runtime's containers whose cgroup is there."""
        listed = ended | {entry.id for entry in reading.containers or ()}
        self.running = _plain_names([promise for promise in found.promises if _runs(promise, reading, listed)])
        self.subjects = {p.subject.id: p.subject for p in self.running}
        self.held = tuple(_held(promise) for promise in self.running)
        self.beside = tuple(followed(claim) for claim in found.claims.claims if not claim.kind.carries_tasks)
        self.forgotten = forgotten(reading, found, self.running)
        self.making = tuple(
            Held(claim=p.subject.name, cgroup=p.subject.cgroup, why=Why.BEING_MADE)
            for p in found.promises
            if _is_made(p)
        )
        lives = {one.name for one in self.gone}
        self.missing = tuple(part for part in found.missing if part.part not in lives)
        self.agree = tuple((index, p.subject.id) for index, p in enumerate(self.running) if _agrees(p))
        """Subjects whose layers all say the same, with their number among those that run."""
        self._views = tuple(views(self.running, reading))
        self._ids = {p.claim.name: p.subject.id for p in self.running if p.claim is not None}
        self._states: tuple[CpuStateFile | None, bool, tuple[StateReading, ...]] | None = None

    def layers(self, at_ns: int, asked_ns: Mapping[str, int], *, silent: bool) -> tuple[LayerView, ...]:
        """Return what each layer says.

        :param at_ns: when the reading began. :param asked_ns: when each container's status was asked for, by id.
        :param silent: the state file does not say what holds.
        """
        return tuple(
            LayerView(
                claim=view.claim,
                layer=view.layer,
                at_ns=asked_ns.get(self._ids[view.claim], at_ns) if view.layer is Layer.RUNTIME else at_ns,
                cpus=view.cpus,
                mems=view.mems,
                api_cpus=view.api_cpus,
            )
            for view in self._views
            if not (silent and view.layer is Layer.CHECKPOINT)
        )

    def states(self, instead: CpuStateFile | None, *, lost: bool) -> tuple[StateReading, ...]:
        """Return what the state files say.

        :param instead: what is there instead of the file that holds. :param lost: there is none, or ``instead``.
        """
        if self._states is None or self._states[0] is not instead or self._states[1] is not lost:
            cpu = instead if lost else instead or self.found.cpu
            self._states = instead, lost, states(self.reading, replace(self.found, cpu=cpu), lost=lost)
        return self._states[2]


def followed(claim: Claim) -> Claim:
    """Nothing says that the pods of a node compete all the time."""
    return replace(claim, contended=False)


def _held(promise: Promise) -> Holds:
    assert promise.claim is not None
    claim, state = followed(promise.claim), promise.state
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
