"""A kubelet's node to follow: read again and again, with what its promises need of earlier readings.

What a node says, and what it said before and holds, are facts, equal by value: what follows from them is made once. A
state file is silent while the kubelet restarts, a manifest that is taken away leaves the pod that was made of it, a
kubelet's version and the machine are not read each time. Two readings that come to the same facts come to the same
claims: nothing is kept for any other reason.

What a container of the shared pool holds is what the kubelet asked for last. The state file is ahead of that by up to a
reconcile period: CPUs that the pool has lost are given back then, CPUs that it has won may be used at any time from now
on. While the state file is absent or says nothing (the kubelet restarts), what it said last holds.

Source: docs/facts.md K-kubelet-1, K-kubelet-2, "Normal on a healthy node".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host.cpu_settings import settings_lines, settings_of
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.host.sysfs import SysTree
from toolkit.model.claims import ClaimSet
from toolkit.model.cpu_tuning import CpuSettings
from toolkit.model.evidence.following import Gauges
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_reading import (
    KUBELET_STARTED,
    UNIFIED,
    CgroupHierarchies,
    MissingPart,
    NodeReading,
    RuntimeContainer,
)
from toolkit.model.runtimes import whole_of
from toolkit.regular_file import small_file
from toolkit.sources.kubelet.configuration import Settings, settings
from toolkit.sources.kubelet.evidence import SLACK_S
from toolkit.sources.kubelet.files.capture import METRICS
from toolkit.sources.kubelet.files.cgroups import ControlWords, PodTree, Tops, hierarchies, threads
from toolkit.sources.kubelet.files.live import LiveNode, sysfs_lines
from toolkit.sources.kubelet.files.process import KubeletProcess, kubelet_version, may_have_begun
from toolkit.sources.kubelet.files.sockets import Answers
from toolkit.sources.kubelet.gauges import Entered, gauges_beside, manager_gauges
from toolkit.sources.kubelet.held import Followed, InForce, Owned, PoolChanges, followed_of
from toolkit.sources.kubelet.machine import STATIC
from toolkit.sources.kubelet.pod_paths import place_of
from toolkit.sources.kubelet.pods import StaticPods, allocations
from toolkit.sources.kubelet.promises.class_weight import with_bounds
from toolkit.sources.kubelet.promises.node import COSTS, NodeClaims, enforced, node_claims
from toolkit.sources.kubelet.promises.pod import asked_of
from toolkit.sources.kubelet.reading import NOTHING, reading_of, says_anything
from toolkit.sources.kubelet.state_file import HeldState, Stated, not_read
from toolkit.sources.live_source import EVERY_S, SourceReading
from toolkit.sources.places import Places

ENDING_NS = 5_000_000_000
"""So long a runtime may list a container as running whose cgroup is gone: a busy machine's shims wait for a CPU."""
GAUGES_EVERY_NS = 10_000_000_000
"""An answer has thousands of lines, and costs the kubelet time to make."""
SHARE, EVERY_MAX_S = 0.0025, 10.0
"""Of a CPU: a twelfth of what a watch of 500 containers may cost in all. And the longest time between two readings
without a sign: a kubelet's usual reconcile period. What a node writes has a sign: state files, CPUs of containers,
cgroups that come and go.
"""
RETRY_MAX_S = 4.0
"""The longest time after a reading that was not answered. Where that was known at once, the two beside it are still
less than 15 s apart, from which on what changed in a window is not known.
"""
TURNS, A_TURN = 10, 10
"""Readings in which every container's status is asked for once, whatever it says; more where these would ask for more
than so many in one.
"""


class KubeletSource:
    """A :class:`LiveSource`. :param every_s: what was asked for. :param kept: reads control files."""

    name = "kubelet"

    def __init__(self, places: Places, every_s: float = EVERY_S, kept: KeptFiles = NONE_KEPT) -> None:
        self._places = places
        self._pace, self._signs = ReadingPace(every_s), Signs()
        self._cache = ReadingCache(kept)
        self._facts = NodeFacts()
        self._since = _Since()

    def read(self) -> SourceReading:
        """Read state files, configuration, runtime and cgroups; not the threads."""
        return self._pace.take(self._read)

    def _read(self) -> SourceReading:
        now_ns = time.monotonic_ns()
        node = LiveNode(self._places, self._cache.kubelet)
        tops = hierarchies(node.root)
        words = self._cache.words(tops)
        last = None if self._facts.last is None else self._facts.last[1]
        self._cache.answers.need_not_ask(self._cache.turns.spared(last, words))
        measures = self._places.metrics is not None and now_ns >= self._since.gauges_due_ns
        unmeasured = self._cache.read_parts(node, tops, metrics=measures)
        now = self._facts.of(node, now_ns)
        self._signs.look(node.kubelet_root, node.root, tops, now.reading.cgroups)
        self._cache.turns.take(now)
        asked_ns = self._cache.answers.asked_ns
        return self._since.reading(now, self._facts.held, words, node, now_ns, asked_ns, unmeasured)

    @property
    def every_s(self) -> float:
        """Seconds until it is read again without a sign."""
        return self._pace.every_s

    def signs(self) -> Sequence[Path]:
        """State files, the tree of pods, and the control files of the containers' CPUs."""
        return self._signs.seen


class ReadingCache:
    """What is kept from one reading of a node to the next. :param kept: reads control files."""

    def __init__(self, kept: KeptFiles = NONE_KEPT) -> None:
        self.kept = kept
        self.kubelet = KubeletProcess()
        self.tree = PodTree(kept)
        self.answers, self.turns = Answers(), Turns()
        self._about: tuple[dict[str, Any], bytes] = {}, b"{}"
        self._words: tuple[Tops, ControlWords] = (), ControlWords((), kept)
        self._cpusets: dict[str, bytes] = {}

    def read_parts(self, node: LiveNode, tops: Tops, *, metrics: bool) -> str | None:
        """Read what claims that are followed need: no threads, of control files those of CPUs, of the machine which
        CPUs are online.

        :param metrics: whether the kubelet's own metrics are read.
        :returns: why these could not be read; ``None``: they were not to be.
        """
        node.read_states()
        node.read_devices()
        unmeasured = node.read_metrics() if metrics else None
        node.read_allocations()
        node.read_pinners()
        node.times["cgroup_read"] = time.time()
        cgroups = self.cpusets(tops)
        node.files |= cgroups
        if not cgroups:
            node.miss_cgroups("cgroups")
        node.read_configuration()
        node.read_manifests()
        node.read_sockets(self.answers)
        node.read_folders()
        node.read_pods(node.places.pods)
        node.files["sysfs.txt"] = sysfs_lines(node.sys, only_online=True).encode()
        logs = node.logs()
        if "node.json" not in node.files and (tasks := _nameless(node, cgroups, logs)):
            node.files["threads.json"] = json.dumps(tasks).encode()
        node.end()
        node.files["capture.json"] = self.about(node.about() | {"log_names": logs})
        return unmeasured

    def words(self, tops: Tops) -> ControlWords:
        """Return what reads the control files of these hierarchies."""
        if self._words[0] != tops:
            self._words = tops, ControlWords(tops, self.kept)
        return self._words[1]

    def cpusets(self, hierarchies: Tops) -> dict[str, bytes]:
        """Read the tree; a container whose file says something new is asked for in the same reading, spared or not.

        Its runtime may have been asked for that set and be asked for the old one again before the next reading.
        """
        found = self.tree.cpusets(hierarchies)
        if found == self._cpusets:
            return self._cpusets  # of the same names: those are compared at a glance
        new = [name for name, data in found.items() if self._cpusets.get(name, data) != data]
        places = (place_of(whole_of(f"/{PurePosixPath(name).parent}")) for name in new)
        self.answers.must_ask(place.id for place in places if place is not None)
        self._cpusets = found
        return found

    def about(self, value: dict[str, Any]) -> bytes:
        """Return a capture's description as JSON, written once for all readings that are described alike.

        Texts and mappings of texts only: equal ones have the same JSON.
        """
        if self._about[0] != value:
            self._about = value, json.dumps(value).encode()
        return self._about[1]


def _nameless(node: LiveNode, cgroups: Iterable[str], named: Container[str]) -> dict[str, Any]:
    """Return the tasks of cgroups that no log names, where the runtime says nothing: pod sandboxes are among them.

    :param cgroups: files of a capture. :param named: ids of containers.
    """
    found = {}
    for folder in {name.rpartition("/")[0] for name in cgroups}:
        place = place_of(folder)
        if place is not None and place.id and not place.monitors and place.id not in named:
            file = node.root / folder.removeprefix("cgroup/") / "cgroup.procs"
            found[f"{folder}/cgroup.procs"] = small_file(str(file)) or b""
    return threads(found, node.proc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """:param parsed: what files and answers say; when each was read is not in it, nor what the metrics say.

    :param version: the kubelet's, by its metrics, which are not read each time, or by its program; it stays while none
        runs. :param sysfs: the machine, which says what the options promise; read again when other CPUs are online.
    :param state: the text of the CPU manager's file that holds. :param static: manifests of static pods by UID.
    """

    parsed: NodeReading
    version: str
    sysfs: str | None
    state: str | None
    static: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """Files and answers, and what was made of their bytes; of another version's kubelet the settings are others."""

    files: dict[str, bytes]
    parsed: NodeReading
    version: str
    settings: Settings


class NodeFacts:
    """The facts of one node, from reading to reading, and what follows from the last ones."""

    def __init__(self) -> None:
        self.held = HeldState()
        self._static = StaticPods()
        self._said: _Said | None = None
        self._machine: tuple[str | None, str | None] = None, None
        """Which CPUs were online when the machine was read, and what was read."""
        self.last: tuple[Facts, Followed] | None = None

    def of(self, node: LiveNode, now_ns: int) -> Followed:
        """Return what follows from the files and answers of a reading, and from what holds of those before.

        :param node: as it was just read.
        :raises InputError: there is no kubelet's node. Not after the first reading.
        """
        said = self._said_in({name: data for name, data in node.files.items() if name != METRICS}, _metrics(node))
        facts = Facts(
            parsed=said.parsed,
            version=said.version,
            sysfs=self._sysfs(said, node.sys),
            state=self._state(said, node.proc, now_ns),
            static=self._static.of(said.parsed, said.settings.config),
        )
        if self.last is None or self.last[0] != facts:
            if self.last is None and not says_anything(whole(facts)):
                raise InputError(str(node.places.root), NOTHING, "a kubelet's node")
            reading = whole(facts)
            found = node_claims(reading, lambda _cgroup, _page_bytes: True)
            self.last = facts, followed_of(reading, found, ended(facts.parsed))
        return self.last[1]

    def _said_in(self, files: dict[str, bytes], metrics: str | None) -> _Said:
        before = self._said
        same = before is not None and before.files == files
        parsed = before.parsed if before is not None and same else reading_of(files, whole=False)
        version = kubelet_version(metrics) or parsed.kubelet_version or ("" if before is None else before.version)
        if before is None or not same or before.version != version:
            known = settings(replace(parsed, kubelet_version=version))
            self._said = _Said(files=files, parsed=parsed, version=version, settings=known)
        assert self._said is not None
        return self._said

    def _sysfs(self, said: _Said, sys: Path) -> str | None:
        online, sysfs = self._machine
        if said.settings.config.cpu_manager_policy == STATIC and online != said.parsed.online:
            sysfs = sysfs_lines(sys)
            self._machine = said.parsed.online, sysfs
        return sysfs

    def _state(self, said: _Said, proc: Path, now_ns: int) -> str | None:
        restarted: Callable[[int], bool] = partial(may_have_begun, proc)
        return self.held.cpu(said.parsed.cpu_state, now_ns, wait_ns(said.settings), restarted)


def whole(facts: Facts) -> NodeReading:
    """Return the reading that says all of them."""
    parsed, version = facts.parsed, facts.version
    return replace(
        parsed,
        kubelet_version=version,
        sysfs=facts.sysfs or parsed.sysfs,
        cpu_state=facts.state,
        static_of=facts.static,
        missing=tuple(one for one in parsed.missing if one.part != "version" or not version),
        containers=present(parsed.containers),
    )


def wait_ns(known: Settings) -> int:
    """So long a reconcile may take, seen from here; and a restart: the same time, since no shorter one is known."""
    return int((known.reconcile_s + SLACK_S) * 1e9)


def present(listed: tuple[RuntimeContainer, ...] | None) -> tuple[RuntimeContainer, ...] | None:
    """Leave out lives that have ended: the next life of a container is the same subject, by the same name."""
    return None if listed is None else tuple(entry for entry in listed if entry.state != "exited")


def ended(parsed: NodeReading) -> frozenset[str]:
    """Return the ids of containers that the runtime lists as ended."""
    return frozenset(entry.id for entry in parsed.containers or () if entry.state == "exited")


class _Since:
    """What of a node's facts depends on when they became so, and on what was so before."""

    def __init__(self) -> None:
        self._owned, self._in_force, self._pool = Owned(), InForce(), PoolChanges()
        self._stated, self._entered = Stated(), Entered()
        self.gauges_due_ns = self._settings_due_ns = 0
        self._lost: dict[str, int] = {}
        """Containers whose cgroup was not found at the last reading: since when, by id."""
        self._had: frozenset[str] = frozenset()
        """Ids of containers that had a cgroup, and of those that are ending."""

    def reading(
        self,
        now: Followed,
        held: HeldState,
        words: ControlWords,
        node: LiveNode,
        now_ns: int,
        asked_ns: Mapping[str, int],
        unmeasured: str | None,
    ) -> SourceReading:
        """Return what is said at this moment.

        :param held: the state file, as it holds. :param words: control files as they are.
        :param node: as it was just read. :param asked_ns: when each container's status was asked for, by id.
        :param unmeasured: why the metrics could not be read; ``None``: they were not to be.
        """
        reading, found, within_ns = now.reading, now.found, wait_ns(now.found.settings)
        freed, taken = self._owned.freed(now), self._owned.taken(now, words)
        speaks = held.speaks
        pool = found.cpu.default if found.cpu is not None and speaks else None
        lost_ns = self._pool.at(pool, node.written_ago_s(), now_ns)
        holding = self._in_force.of(now, freed, taken, within_ns, now_ns, lost_ns, silent=held.silent)
        now_s, started_s = time.time(), node.times.get(KUBELET_STARTED)
        beside = (with_bounds(one, found.burstable, now_s, started_s) for one in now.beside)
        limited, unlimited = enforced((*holding.claims, *beside), words.limits_huge_pages)
        file = found.cpu if speaks else None
        entered = self._entered.of(file)
        return SourceReading(
            claims=replace(found.claims, claims=limited),
            held=(*holding.owed, *now.making, *(now.forgotten if speaks else ())),
            give_back_s=found.settings.reconcile_s + SLACK_S,
            layers=_layers(now, now_ns, lost_ns, asked_ns, silent=not speaks),
            state_files=self._stated.of(now, held, now_ns, within_ns, node.times),
            state_folder=node.kubelet_folder,
            cpu_settings=self._cpu_settings(node, found.claims, now_ns),
            gauges=None
            if unmeasured is None
            else self._gauges(node, unmeasured, replace(found, cpu=file), entered, now_ns),
            missing=(*not_read(now.missing, held), *unlimited, *_unmeasured(unmeasured)),
            left_out=self._lost_twice(now, now_ns),
            # A node on which nothing runs may have no cgroup for it.
            complete=reading.containers is not None and (reading.cgroups is not None or not reading.containers),
        )

    def _lost_twice(self, now: Followed, now_ns: int) -> tuple[MissingPart, ...]:
        """Name containers that run by the runtime's word, and whose cgroup is not where it says, at two readings.

        One whose cgroup was there has ended: a cgroup with processes cannot be removed. The runtime lists it as running
        until its shim's report has been handled; what is listed for longer is named all the same.
        """
        gone = {one.id: one for one in now.gone}
        before, self._lost = self._lost, {one: self._lost.get(one, now_ns) for one in gone}
        ending = {one for one in gone.keys() & self._had if now_ns - self._lost[one] < ENDING_NS}
        self._had = frozenset(now.ids | ending)
        return tuple(
            MissingPart(part=one.name, reason=one.reason)
            for one in now.gone
            if one.id in before and one.id not in ending
        )

    def _cpu_settings(self, node: LiveNode, claims: ClaimSet, now_ns: int) -> CpuSettings | None:
        """Return what the machine says of its CPUs and interrupts, once in a while, where something is promised of it:
        a machine has hundreds of interrupts.
        """
        if now_ns < self._settings_due_ns or not any(claim.tuning for claim in claims.claims):
            return None
        self._settings_due_ns = now_ns + GAUGES_EVERY_NS
        return settings_of(settings_lines(SysTree(node.proc), SysTree(node.sys)))

    def _gauges(self, node: LiveNode, problem: str, found: NodeClaims, entered: dict[str, int], now_ns: int) -> Gauges:
        """Return the kubelet's gauges beside the state file that was read just before them."""
        self.gauges_due_ns = now_ns + GAUGES_EVERY_NS
        return gauges_beside(manager_gauges(_metrics(node)), problem, found.cpu, found.settings, entered)


def _metrics(node: LiveNode) -> str | None:
    return node.files[METRICS].decode("utf-8", "replace") if METRICS in node.files else None


def _layers(
    now: Followed, now_ns: int, stated_ns: int | None, asked_ns: Mapping[str, int], *, silent: bool
) -> tuple[LayerView, ...]:
    """Return what each layer says. :param stated_ns: since when the state file's word is another one, if it is."""
    views = now.layers(now_ns, asked_ns, silent=silent)
    if stated_ns is None:
        return views
    return (*(replace(one, at_ns=stated_ns) for one in views if one.layer is Layer.CHECKPOINT), *views)


def _unmeasured(problem: str | None) -> tuple[MissingPart, ...]:
    """Return what is missing where metrics were to be read and could not be. :param problem: why."""
    return (MissingPart(part="metrics", reason=f"{problem}: {COSTS['metrics']}"),) if problem else ()


class Turns:
    """Whose status a reading need not ask for: of most containers the layers agree, and 0.7 ms each add up."""

    def __init__(self) -> None:
        self._turn = 0
        self._differed: frozenset[str] = frozenset()
        """Ids of containers whose layers did not agree at the last reading."""
        self._spared: tuple[str, ...] = ()
        """Ids of those that agreed then, and at the one before as far as they were there, and whose turn it is not."""

    def take(self, now: Followed) -> None:
        """Spare the statuses of containers whose layers agree, all but some in turn.

        Of one that has just begun to agree the runtime is asked once more: whether it followed its cgroup, or something
        else wrote that and put it back.
        """
        self._turn += 1
        agree = {one: index for index, one in now.agree}
        before, self._differed = self._differed, frozenset(now.subjects.keys() - agree.keys())
        turns = max(TURNS, -(-len(agree) // A_TURN))
        self._spared = tuple(one for one, index in agree.items() if one not in before and (index + self._turn) % turns)

    def spared(self, last: Followed | None, words: ControlWords) -> tuple[str, ...]:
        """Return whose status need not be asked for. Of those whose quota or limit of memory is not what was asked for
        it is: they were resized, or drift. A kubelet that writes down what it has allocated promises by that.

        :param last: what followed from the last reading.
        """
        if last is None or allocations(last.reading):
            return self._spared
        known = last.subjects
        return tuple(
            one
            for one in self._spared
            if one in known and words.as_asked(known[one].limited or known[one].cgroup, asked_of(known[one]))
        )


class Signs:
    """Where a kubelet's node shows that it has changed: state files, the tree of pods, the containers' files of CPUs.

    The paths are made anew where anything that they are made of is new: a node has a thousand.
    """

    def __init__(self) -> None:
        self._groups: CgroupHierarchies | None = None
        self._made_of: tuple[object, ...] | None = None
        self._found: tuple[Path, ...] = ()
        self.seen: tuple[Path, ...] = ()
        """As of the last reading."""

    def look(self, kubelet_root: Path, root: Path, hierarchies: Tops, groups: CgroupHierarchies | None) -> None:
        """Make the paths. :param root: of the hierarchies. :param groups: those that were read."""
        tops = dict(hierarchies)
        where = kubelet_root, root, tops
        if self._made_of is None or self._groups != groups or self._made_of[0] != where:
            made_of = where, _names(groups)
            if made_of != self._made_of:
                self._made_of, self._found = made_of, _paths(kubelet_root, root, tops, made_of[1])
            self._groups = groups
        if len(self._found) > 1:
            self.seen = self._found
        else:
            self.seen = (*self._found, root, *(path for path in presence.below(root, "*") if presence.is_dir(path)))


_Name = tuple[str, str, bool]
"""Hierarchy, path, and whether the cgroup says its CPUs."""


def _names(groups: CgroupHierarchies | None) -> list[_Name]:
    return [
        (name, path, "cpuset.cpus" in files)
        for name, below in (groups or {}).items()
        if name in ("cpuset", UNIFIED)
        for path, files in below.items()
    ]


def _paths(kubelet_root: Path, root: Path, tops: dict[str, Path], names: list[_Name]) -> tuple[Path, ...]:
    found = [kubelet_root]
    for name, path, pinned in names:
        top, place = tops.get(name, root), place_of(whole_of(path))
        if place is None or not place.id:
            found.append(top / path.lstrip("/"))
        elif pinned:
            found.append(top / path.lstrip("/") / "cpuset.cpus")
    return tuple(found)


class ReadingPace:
    """Of one source. :param asked_s: seconds from one reading to the next, as the user said."""

    def __init__(self, asked_s: float) -> None:
        self._asked_s = asked_s
        self.cost_s, self.answered = 0.0, True
        """CPU time of the last reading, and whether the runtime answered it."""

    def take(self, read: Callable[[], SourceReading]) -> SourceReading:
        """Read, and note what it cost."""
        began_s, self.answered = time.thread_time(), False
        try:
            reading = read()
            self.answered = reading.complete
            return reading
        finally:
            self.cost_s = time.thread_time() - began_s

    @property
    def every_s(self) -> float:
        """Seconds until the next reading: as was asked for, and a node of hundreds of containers, where nothing was
        asked for, more seldom: reading takes :data:`SHARE` of a CPU.
        """
        if self._asked_s != EVERY_S:
            return self._asked_s
        return min(max(EVERY_S, self.cost_s / SHARE), EVERY_MAX_S if self.answered else RETRY_MAX_S)
