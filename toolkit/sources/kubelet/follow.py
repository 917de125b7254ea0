"""A kubelet's node to follow: read again and again, with the memory that its promises need.

What a container of the shared pool holds is what the kubelet asked for last. The state file is ahead of that by up to a
reconcile period: CPUs that the pool has lost are given back then, CPUs that it has won may be used at any time from now
on. While the state file is absent or says nothing (the kubelet restarts), what it said last holds.

Source: docs/facts.md K-kubelet-1, K-kubelet-2, "Normal on a healthy node".
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.following import Gauges
from toolkit.model.node_reading import UNIFIED, MissingPart, NodeReading, RuntimeContainer
from toolkit.model.state_files import CpuStateFile
from toolkit.sources.grpc_socket import DEADLINE_S
from toolkit.sources.kubelet import live_files
from toolkit.sources.kubelet.bundle import reading_of
from toolkit.sources.kubelet.claims import NodeClaims, Promise, node_claims, parsed
from toolkit.sources.kubelet.followed_words import states, views
from toolkit.sources.kubelet.gauges import gauges_beside, manager_gauges
from toolkit.sources.kubelet.held_state import HeldState
from toolkit.sources.kubelet.json_parts import mapping
from toolkit.sources.kubelet.live import NOTHING, LiveNode, says_anything
from toolkit.sources.kubelet.lost import Lost, lost
from toolkit.sources.kubelet.modelled import STATIC
from toolkit.sources.kubelet.places import CGROUP_ROOT, SYS, Places
from toolkit.sources.kubelet.pod_paths import place_of
from toolkit.sources.kubelet.settings import settings
from toolkit.sources.kubelet.still import asked_of
from toolkit.sources.live_source import SourceReading

EVERY_S = 2.0
SHARE, EVERY_MAX_S = 0.01, 6.0
"""Of a CPU; and the longest time between two readings without a sign. What a node writes has one: state files, CPUs of
containers, cgroups that come and go."""
SLACK_S = 5.0
"""Beyond the reconcile period: a reconcile goes through all containers, 5 ms each, and we read once in a while."""
TURNS = 10
"""Readings in which every container's status is asked for once, whatever it says."""
GAUGES_EVERY_NS = 10_000_000_000
"""An answer has thousands of lines, and costs the kubelet time to make."""
RUNNING = ("running", "")
CREATED = "created"
"""Its runtime may sit in its cgroup already, before it is pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late:
    """A container that the kubelet has not asked a new set for yet. :param since_ns: CLOCK_MONOTONIC."""

    state: CpuSet
    asked: CpuSet
    since_ns: int


class KubeletSource:
    """A :class:`toolkit.sources.live_source.LiveSource`. :param every_s: what was asked for."""

    name = "kubelet"

    def __init__(self, places: Places, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._places = places
        self._begun = False
        self._statuses: dict[str, Any] = {}
        """The runtime's answers that need not be asked for again at the next reading, by container id."""
        self._lost: frozenset[str] = frozenset()
        """Ids of containers whose cgroup was not found at the last reading."""
        self._files: dict[str, bytes] = {}
        self._parsed: NodeReading | None = None
        self._found: tuple[NodeReading, NodeClaims] | None = None
        """What the last reading was made of, itself, and its claims: most readings say the same again."""
        self._turn = 0
        self._cost_s = 0.0
        """CPU time of the last reading."""
        self._gauges_due_ns = 0
        self._held = HeldState()
        self._late: dict[str, _Late] = {}
        self._owners: dict[tuple[str, str], CpuSet] = {}
        """Exclusive CPUs of containers that were seen to run."""
        self._signs: tuple[Path, ...] = ()
        self._version = ""
        """The kubelet's, by its metrics, which are not read each time."""
        self._sysfs: str | None = None
        self._online: str | None = None
        """The machine, which says what the options promise; read again when other CPUs are online."""

    def read(self) -> SourceReading:
        """Read state files, configuration, runtime and cgroups; not the threads."""
        began_s = time.thread_time()
        try:
            return self._read()
        finally:
            self._cost_s = time.thread_time() - began_s

    def _read(self) -> SourceReading:
        now_ns = time.monotonic_ns()
        due = now_ns >= self._gauges_due_ns
        node = LiveNode(self._places, light=True, metrics=due, known=self._statuses)
        reading = self._reading_of(node.files_of_all(DEADLINE_S))
        self._signs = self._places_to_watch(node.kubelet_root, reading)
        self._version = reading.kubelet_version or self._version
        reading = replace(reading, kubelet_version=self._version)
        known = settings(reading)
        wait_ns = int((known.reconcile_s + SLACK_S) * 1e9)
        if known.config.cpu_manager_policy == STATIC and self._online != reading.online:
            self._online = reading.online
            self._sysfs = live_files.sysfs_lines(self._places.sys or self._places.below(SYS))
        reading = replace(
            reading,
            sysfs=self._sysfs or reading.sysfs,
            cpu_state=self._held.cpu(reading.cpu_state, now_ns, wait_ns),
            containers=_present(reading.containers),
        )
        if not (self._begun or says_anything(reading)):
            raise InputError(str(self._places.root), NOTHING, "a kubelet's node")
        self._begun = True
        found = self._claims_of(reading)
        gone = lost(reading, [promise.subject for promise in found.promises])
        running = _plain_names([promise for promise in found.promises if _runs(promise, reading)])
        freed = self._freed(running, found.cpu)
        claims, giving_back = [], {}
        for promise in running:
            assert promise.claim is not None
            claim, back = self._in_force(promise, promise.claim, freed, found, now_ns)
            claims.append(claim)
            if back:
                giving_back[claim.name] = back
        beside = [_followed(claim) for claim in found.claims.claims if not claim.kind.carries_tasks]
        self._remember(node, running)
        self._late = {name: late for name, late in self._late.items() if any(name == one.name for one in claims)}
        return SourceReading(
            claims=replace(found.claims, claims=(*claims, *beside)),
            giving_back=giving_back,
            making=tuple(promise.subject.cgroup for promise in found.promises if _is_made(promise)),
            give_back_s=found.settings.reconcile_s + SLACK_S,
            layers=tuple(views(running, reading, time.monotonic_ns(), silent=self._held.silent)),
            state_files=()
            if self._held.silent
            else states(reading, replace(found, cpu=self._held.spoilt or found.cpu)),
            gauges=self._gauges(reading, found, now_ns) if due and self._places.metrics is not None else None,
            missing=tuple(part for part in found.missing if part.part not in {one.name for one in gone}),
            left_out=self._lost_twice(gone),
            # A node on which nothing runs may have no cgroup for it.
            complete=reading.containers is not None and (reading.cgroups is not None or not reading.containers),
        )

    def _reading_of(self, files: dict[str, bytes]) -> NodeReading:
        """Make a reading of files; those that say the same as the last time were made one of then."""
        same = {name: data for name, data in files.items() if name != "times.json"}
        if same != self._files or self._parsed is None:
            self._files, self._parsed = same, reading_of(files)
        return self._parsed

    def _claims_of(self, reading: NodeReading) -> NodeClaims:
        """Return the claims; those of the last reading where nothing else is said in this one."""
        if self._found is None or self._found[0] != reading:
            self._found = (reading, node_claims(reading))
        return self._found[1]

    def _lost_twice(self, gone: Sequence[Lost]) -> tuple[MissingPart, ...]:
        """Name containers that run by the runtime's word, and whose cgroup is not where it says, at two readings: one
        that is just ending is listed a moment longer than its cgroup exists.
        """
        before, self._lost = self._lost, frozenset(one.id for one in gone)
        return tuple(MissingPart(part=one.name, reason=one.reason) for one in gone if one.id in before)

    def _gauges(self, reading: NodeReading, found: NodeClaims, now_ns: int) -> Gauges:
        """Return the kubelet's gauges beside the state file that was read just before them."""
        self._gauges_due_ns = now_ns + GAUGES_EVERY_NS
        file = None if self._held.silent else self._held.spoilt or found.cpu
        problem = next((part.reason for part in reading.missing if part.part == "metrics"), "")
        return gauges_beside(manager_gauges(reading.metrics), problem, file, found.settings)

    @property
    def every_s(self) -> float:
        """Seconds until it is read again without a sign: as was asked for, and a node of hundreds of containers, where
        nothing was asked for, more seldom: reading takes :data:`SHARE` of a CPU.
        """
        asked_s = self._every_s
        return min(max(asked_s, self._cost_s / SHARE), EVERY_MAX_S) if asked_s == EVERY_S else asked_s

    def signs(self) -> Sequence[Path]:
        """State files, the tree of pods, and the control files of the containers' CPUs."""
        return self._signs

    def _in_force(
        self, promise: Promise, claim: Claim, freed: CpuSet, found: NodeClaims, now_ns: int
    ) -> tuple[Claim, CpuSet]:
        """Return what holds now, and what of it must be given back."""
        claim = _followed(claim)
        state, asked = promise.state, asked_of(promise)
        if claim.cpus is None or claim.isolation is not Isolation.HOST or not state:
            return claim, CpuSet()
        if asked is None or asked == state:
            self._late.pop(claim.name, None)
            return replace(claim, cpus=state | freed), CpuSet()
        late = self._late.get(claim.name)
        if late is None or (late.state, late.asked) != (state, asked):
            since_ns = now_ns if late is None else late.since_ns
            late = self._late[claim.name] = _Late(state=state, asked=asked, since_ns=since_ns)
        if now_ns - late.since_ns > (found.settings.reconcile_s + SLACK_S) * 1e9:
            return replace(claim, cpus=state | freed), CpuSet()
        return replace(claim, cpus=state | asked | freed), asked - state - freed

    def _remember(self, node: LiveNode, running: Sequence[Promise]) -> None:
        """Keep the statuses of containers whose layers agree, all but some in turn: 0.7 ms each add up."""
        try:
            found = mapping(mapping(json.loads(node.files.get("node.json", b"{}"))).get("status"))
        except ValueError:
            found = {}
        self._turn += 1
        agree = {
            promise.subject.id
            for index, promise in enumerate(running)
            if (asked := asked_of(promise)) is not None
            and asked == promise.state
            and parsed(promise.subject.files.get("cpuset.cpus", "")) == asked
            and (index + self._turn) % TURNS
        }
        self._statuses = {key: status for key, status in found.items() if key in agree}

    def _freed(self, running: Sequence[Promise], cpu: CpuStateFile | None) -> CpuSet:
        """CPUs that the state file still gives to containers that have ended: the pool may have them at any moment."""
        entries = {(e.pod_uid, e.container): parsed(e.cpus) or CpuSet() for e in (cpu.entries if cpu else ())}
        alive = {_key(p): p.state or CpuSet() for p in running if p.in_state}
        self._owners = {key: cpus for key, cpus in self._owners.items() if entries.get(key) == cpus} | alive
        gone = [cpus for key, cpus in self._owners.items() if key not in alive]
        return CpuSet.union(gone) - CpuSet.union(alive.values())

    def _places_to_watch(self, kubelet_root: Path, reading: NodeReading) -> tuple[Path, ...]:
        root = self._places.cgroup_root or self._places.below(CGROUP_ROOT)
        found, tops = [kubelet_root], dict(live_files.hierarchies(root))
        for name, groups in (reading.cgroups or {}).items():
            if name not in ("cpuset", UNIFIED):
                continue
            top = tops.get(name, root)
            for path, files in groups.items():
                place = place_of(path)
                if place is None or not place.id:
                    found.append(top / path.lstrip("/"))
                elif "cpuset.cpus" in files:
                    found.append(top / path.lstrip("/") / "cpuset.cpus")
        return tuple(found) if len(found) > 1 else (*found, root, *(path for path in root.glob("*") if path.is_dir()))


def _present(listed: tuple[RuntimeContainer, ...] | None) -> tuple[RuntimeContainer, ...] | None:
    """Leave out lives that have ended: the next life of a container is the same subject, by the same name."""
    return None if listed is None else tuple(entry for entry in listed if entry.state != "exited")


def _plain_names(running: Sequence[Promise]) -> tuple[Promise, ...]:
    """Name subjects by pod and container alone where that is enough among those that run."""
    plain = [p.subject.plain_name for p in running]
    count = Counter(plain)
    return tuple(
        replace(promise, claim=replace(promise.claim, name=name)) if promise.claim and count[name] == 1 else promise
        for promise, name in zip(running, plain, strict=True)
    )


def _followed(claim: Claim) -> Claim:
    """Nobody says that the pods of a node compete all the time. Limits that a resize changes are known too late."""
    return replace(claim, contended=False, memory_bytes=None, hugepages=())


def _key(promise: Promise) -> tuple[str, str]:
    return promise.subject.pod_uid, promise.subject.container


def _runs(promise: Promise, reading: NodeReading) -> bool:
    """Whether a subject is watched: it runs. One that is being made has no set yet, one that ended keeps its entry."""
    if promise.claim is None:
        return False
    runtime = promise.subject.runtime
    if runtime is None:
        # Without the runtime's word a cgroup is all there is; with it, one that it does not list is being made.
        return reading.containers is None
    return runtime.state in RUNNING


def _is_made(promise: Promise) -> bool:
    runtime = promise.subject.runtime
    return runtime is not None and runtime.state == CREATED
